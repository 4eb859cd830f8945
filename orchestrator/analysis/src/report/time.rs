//! The plots of sizes, checkpoint times, wall times and figures of merit.

use super::{
    latency,
    layout::{self, PlannedPlot, PointsByCategory, ReportPart, Sheet},
    size_by_zone,
};
use crate::results::{
    data::{Data, ReportedQuantity},
    quantity::{self, Tier},
};
use cvc_core::record::names;
use cvc_index::error::AnalysisError;
use cvc_show::{
    Block, Plot, Section,
    plot::{self, Marks, Panel},
};

/// Builds the section with the main plots: sizes, checkpoint times, wall times.
pub(super) fn section(data: &Data) -> Result<Section, AnalysisError> {
    let mut plots = size_by_zone::plots(data);
    plots.extend(over_axis(
        data,
        names::CKPT_STORED_BYTES,
        "Stored by a checkpoint",
        |_| true,
    ));
    plots.extend(latency::plots(data));
    plots.extend(over_axis(
        data,
        names::CKPT_LATENCY_S,
        "Checkpoint time",
        |p| !latency::in_pieces(data, p),
    ));
    plots.extend(over_axis(data, names::WALL_S, "Wall time", |_| true));
    let mut blocks = Vec::new();
    layout::add(&mut blocks, plots)?;
    if !blocks.is_empty() && (0..data.points.len()).any(|p| data.unrestarted(p).is_some()) {
        blocks.push(Block::Text {
            text: "Points with restarts are not drawn if the same points without restarts are: they are equal until the checkpoint."
                .to_owned(),
        });
    }
    Ok(Section {
        id: "plots",
        title: "Sizes and times".to_owned(),
        blocks,
    })
}

/// Builds the section with the figures of merit that the applications print.
pub(super) fn merits(data: &Data) -> Result<Section, AnalysisError> {
    let mut plots = Vec::new();
    for (q, _) in data.main().filter(|(_, of)| of.tier == Tier::Merit) {
        plots.extend(over_axis(data, q, &capital(data, q), |_| true));
    }
    let mut blocks = Vec::new();
    layout::add(&mut blocks, plots)?;
    Ok(Section {
        id: "merits",
        title: "Figures of merit".to_owned(),
        blocks,
    })
}

fn over_axis<'a>(
    data: &'a Data,
    q: &'a str,
    title: &str,
    which: impl Fn(usize) -> bool,
) -> Vec<PlannedPlot<'a>> {
    let Some(of) = data.quantities.get(q) else {
        return Vec::new();
    };
    layout::sheets(data, |p| {
        data.points[p].summaries.contains_key(q) && which(p)
    })
    .into_iter()
    .map(|sheet| {
        let title = format!("{title}: {}", sheet.title);
        PlannedPlot::new(title, move |title| draw(data, q, of, &sheet, title))
    })
    .collect()
}

fn draw(
    data: &Data,
    q: &str,
    of: &ReportedQuantity,
    sheet: &Sheet<'_>,
    title: String,
) -> Result<Plot, AnalysisError> {
    let summary = |p: usize| data.points[p].summaries.get(q);
    let (divisor, unit) = layout::scale(
        sheet.points().filter_map(|p| Some(summary(p)?.mean)),
        &of.unit,
    );
    let whisker = |p: Option<usize>| Some(layout::whisker(summary(p?)?, divisor));
    let mut caption = "Means of the repeats with their 95 % intervals".to_owned();
    caption.push_str(
        &quantity::direction(of.better).map_or(".".to_owned(), |words| format!("; {words}.")),
    );
    let (series, parts) = sheet.series(data, &mut caption);
    let panel = |part: ReportPart<Vec<PointsByCategory>>| {
        let values = part
            .points
            .into_iter()
            .map(|row| row.into_iter().map(whisker).collect())
            .collect();
        let marks = if part.ordered {
            Marks::Lines(values)
        } else {
            Marks::Grouped(values)
        };
        Panel {
            title: part.title,
            x: part.categories,
            scale: part.scale,
            marks,
        }
    };
    let panels: Vec<Panel> = parts.into_iter().map(panel).collect();
    let heading = quantity::heading(q);
    let y = if unit.is_empty() {
        heading
    } else {
        format!("{heading}, {unit}")
    };
    let id = format!("{}-{}", cvc_show::slug(q), sheet.id);
    let drawing = plot::panels(&id, &y, &series, &panels)?;
    Ok(drawing.plot(id, title, caption))
}

/// Returns the heading of a quantity as a title. Figures of merit keep the names in the application's descriptor.
pub(super) fn capital(data: &Data, q: &str) -> String {
    let heading = quantity::heading(q);
    if data
        .quantities
        .get(q)
        .is_some_and(|of| of.tier == Tier::Merit)
    {
        return heading;
    }
    let mut letters = heading.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}
