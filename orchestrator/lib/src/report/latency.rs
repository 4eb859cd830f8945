//! Where the time of a checkpoint goes: coordination, then storage.

use super::{
    data::Data,
    layout::{self, MOST_FIGURES, MOST_PANELS},
    model::{Block, Plot, Section},
    plot::{self, Bars},
};
use crate::{record::names, store::StoreError};

const PIECES: [&str; 2] = [names::CKPT_COORDINATION_S, names::CKPT_STORAGE_S];

pub(super) fn section(data: &Data) -> Result<Section, StoreError> {
    let mut blocks = Vec::new();
    let drawable = |p: usize| PIECES.iter().all(|q| data.points[p].summaries.contains_key(*q));
    for (number, figure) in layout::figures(data, drawable).iter().take(MOST_FIGURES).enumerate() {
        let panels: Vec<Bars> =
            figure.panels(data).into_iter().take(MOST_PANELS).map(|(title, points)| panel(data, title, &points)).collect();
        let id = format!("latency-{number}-{}", figure.id);
        let pieces = ["coordination".to_owned(), "storage".to_owned()];
        let drawing = plot::bars(&id, &figure.categories, "latency, s", &pieces, &panels)?;
        blocks.push(Block::Plot(Plot {
            svg: drawing.svg,
        width: drawing.width,
            id,
            title: format!("Checkpoint latency: {}", figure.title),
            caption: "Coordination: from the request until all processes are suspended and drained. Storage: from the first byte written to the \
                      last one stored. Mean of the repeats; the whisker is the 95 % interval of the whole latency, which also has what lies \
                      between the two."
                .to_owned(),
        }));
    }
    Ok(Section { id: "latency", title: "Checkpoint latency".to_owned(), blocks })
}

fn panel(data: &Data, title: String, points: &[Option<usize>]) -> Bars {
    let mean = |p: usize, q: &str| data.points[p].summaries.get(q).map(|s| s.mean);
    let stacks = points.iter().map(|p| PIECES.iter().map(|q| mean((*p)?, q)).collect()).collect();
    let whiskers = points.iter().map(|p| Some(layout::whisker(data.points[(*p)?].summaries.get(names::CKPT_LATENCY_S)?, 1.0))).collect();
    Bars { title, stacks, whiskers }
}
