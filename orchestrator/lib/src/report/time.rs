//! Wall time, checkpoint time and figures of merit over processes or mapping.

use super::{
    data::Data,
    layout::{self, MOST_FIGURES, MOST_PANELS},
    model::{Block, Plot, Section},
    plot::{self, Lines},
    quantity,
};
use crate::{record::names, store::StoreError};

pub(super) fn section(data: &Data) -> Result<Section, StoreError> {
    let mut blocks = Vec::new();
    let drawn = data
        .quantities
        .iter()
        .filter(|(q, _)| [names::WALL_S, names::CKPT_LATENCY_S, names::CKPT_STORED_BYTES].contains(&q.as_str()) || quantity::is_merit(q));
    let mut left_out = 0;
    for (q, unit) in drawn {
        for (number, figure) in layout::figures(data, |p| data.points[p].summaries.contains_key(q)).iter().enumerate() {
            if blocks.len() == MOST_FIGURES {
                left_out += 1;
                continue;
            }
            blocks.push(Block::Plot(draw(data, q, unit, number, figure)?));
        }
    }
    if left_out > 0 {
        blocks.push(Block::Text { text: format!("{left_out} more figures are not drawn: the tables have their numbers.") });
    }
    Ok(Section { id: "plots", title: "Times and sizes".to_owned(), blocks })
}

fn draw(data: &Data, q: &str, unit: &str, number: usize, figure: &layout::Figure<'_>) -> Result<Plot, StoreError> {
    let summary = |p: usize| data.points[p].summaries.get(q);
    let (divisor, unit) = layout::scale(figure.points.iter().filter_map(|p| Some(summary(*p)?.mean)), unit);
    let (series, panels) = figure.series(data);
    let panels: Vec<Lines> = panels
        .into_iter()
        .take(MOST_PANELS)
        .map(|(title, series)| {
            let whisker = |p: Option<usize>| Some(layout::whisker(summary(p?)?, divisor));
            Lines { title, series: series.into_iter().map(|s| s.into_iter().map(whisker).collect()).collect() }
        })
        .collect();
    let heading = quantity::heading(q);
    let y = if unit.is_empty() { heading.clone() } else { format!("{heading}, {unit}") };
    let id = format!("{}-{number}-{}", super::slug(q), figure.id);
    let drawing = plot::lines(&id, &figure.categories, &y, &series, &panels)?;
    Ok(Plot {
        svg: drawing.svg,
        width: drawing.width,
        id,
        title: format!("{}: {}", capital(q), figure.title),
        caption: "Means of the repeats with their bootstrap 95 % intervals.".to_owned(),
    })
}

/// The heading of a quantity as a title; figures of merit keep the names that the application's descriptor gives them.
pub(super) fn capital(q: &str) -> String {
    let heading = quantity::heading(q);
    if quantity::is_merit(q) {
        return heading;
    }
    let mut letters = heading.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
