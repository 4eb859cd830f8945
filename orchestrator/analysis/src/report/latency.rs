//! Division of a checkpoint's time into coordination and storage.

use super::layout::{self, PlannedPlot, Sheet};
use crate::results::data::Data;
use cvc_core::record::names;
use cvc_index::error::AnalysisError;
use cvc_show::{
    Plot,
    plot::{self, Marks, Panel},
};

const PIECES: [&str; 2] = [names::CKPT_COORDINATION_S, names::CKPT_STORAGE_S];

/// Returns whether coordination and storage of a point were measured separately.
pub(super) fn in_pieces(data: &Data, point: usize) -> bool {
    PIECES
        .iter()
        .all(|q| data.points[point].summaries.contains_key(*q))
}

/// Plans one plot for each application.
pub(super) fn plots(data: &Data) -> Vec<PlannedPlot<'_>> {
    layout::sheets(data, |p| in_pieces(data, p))
        .into_iter()
        .map(|sheet| {
            let title = format!("Checkpoint time in parts: {}", sheet.title);
            PlannedPlot::new(title, move |title| draw(data, &sheet, title))
        })
        .collect()
}

fn draw(data: &Data, sheet: &Sheet<'_>, title: String) -> Result<Plot, AnalysisError> {
    let mut caption =
        "Coordination: from the coordinator's start of the checkpoint to the last barrier before the images are written. Storage: from \
                       then until every process has written its image (with gzip or pigz: until the last image is complete). Mean of the repeats; the \
                       whisker is the 95 % interval of the checkpoint time, which is their sum; lower is better."
            .to_owned();
    let mean = |p: usize, q: &str| data.points[p].summaries.get(q).map_or(0.0, |s| s.mean);
    let bar = |p: usize| {
        let whole = data.points[p]
            .summaries
            .get(names::CKPT_LATENCY_S)
            .map(|s| layout::whisker(s, 1.0));
        (PIECES.iter().map(|q| mean(p, q)).collect(), whole)
    };
    let panels: Vec<Panel> = sheet
        .panels(data, &mut caption)
        .into_iter()
        .map(|part| {
            let marks = Marks::Stacked(part.points.iter().map(|p| p.map(bar)).collect());
            Panel {
                title: part.title,
                x: part.categories,
                scale: part.scale,
                marks,
            }
        })
        .collect();
    let id = format!("latency-{}", sheet.id);
    let drawing = plot::panels(
        &id,
        "checkpoint time, s",
        &["coordination".to_owned(), "storage".to_owned()],
        &panels,
    )?;
    Ok(drawing.plot(id, title, caption))
}
