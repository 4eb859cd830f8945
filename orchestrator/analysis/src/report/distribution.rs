//! Plots of every repeat of every point.

use super::{
    drift,
    layout::{self, PlannedPlot, ReportFigure},
    time::capital,
};
use crate::results::{
    data::{Data, ReportedQuantity},
    quantity::{self, Tier},
};
use cvc_core::record::names;
use cvc_index::error::AnalysisError;
use cvc_model::stats::{Fences, quantile};
use cvc_show::{
    Plot, Section,
    format::Style,
    plot::{self, PALETTE, Strip},
};
use indexmap::IndexSet;

/// Maximum number of rows in a plot.
const MAX_ROWS: usize = 60;

pub(super) fn section(data: &Data) -> Result<Section, AnalysisError> {
    let drawn = |q: &str, of: &ReportedQuantity| {
        [names::WALL_S, names::CKPT_LATENCY_S].contains(&q) || of.tier == Tier::Merit
    };
    let mut plots = Vec::new();
    for (q, of) in data.main().filter(|(q, of)| drawn(q, of)) {
        let figures = layout::figures(data, |p| {
            data.points[p]
                .summaries
                .get(q)
                .is_some_and(|s| s.median > 0.0)
        });
        plots.extend(figures.into_iter().enumerate().map(|(number, figure)| {
            let title = format!("{}: {}", capital(data, q), figure.title);
            PlannedPlot::new(title, move |title| {
                draw(data, q, &of.unit, number, &figure, title)
            })
        }));
    }
    let mut blocks = Vec::new();
    layout::add(&mut blocks, plots)?;
    blocks.extend(drift::plots(data)?);
    Ok(Section {
        id: "repeats",
        title: "Every repeat".to_owned(),
        blocks,
    })
}

fn draw(
    data: &Data,
    q: &str,
    unit: &str,
    number: usize,
    figure: &ReportFigure<'_>,
    title: String,
) -> Result<Plot, AnalysisError> {
    let values = |p: usize| {
        data.points[p]
            .values
            .get(q)
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    // Points differ far more than repeats do, so each point is drawn relative to its own median.
    let median = |p: usize| {
        data.points[p]
            .summaries
            .get(q)
            .map_or(f64::NAN, |s| s.median)
    };
    let style = Style::for_values(
        figure.points.iter().map(|p| median(*p)).collect(),
        Some(unit),
    );
    // The colour shows the site or, with a single site, the first factor that is not on the axis of the other plots.
    let rest = figure.rest();
    let factor = rest
        .iter()
        .find(|f| **f == "site")
        .or_else(|| rest.first())
        .copied();
    let colour_of = |p: usize| factor.map_or("", |f| data.points[p].factor(f));
    let colours: IndexSet<&str> = figure.points.iter().map(|p| colour_of(*p)).collect();
    let mut order = figure.points.clone();
    order.sort_by_key(|p| {
        (
            colours.get_index_of(colour_of(*p)),
            figure.category(data, *p),
        )
    });
    let factors = figure.factors();
    let rows: Vec<Strip> = order
        .iter()
        .take(MAX_ROWS)
        .map(|p| {
            let values = values(*p);
            let fences = Fences::of(values);
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            let from_median = |v: f64| (v / median(*p) - 1.0) * 100.0;
            let quartile = |share: f64| quantile(&sorted, share).map_or(0.0, from_median);
            let unit = style
                .unit
                .as_ref()
                .map(|u| format!(" {u}"))
                .unwrap_or_default();
            Strip {
                name: shorten(&data.label(*p, &factors)),
                colour: colours.get_index_of(colour_of(*p)).unwrap_or(0) % PALETTE.len(),
                values: values
                    .iter()
                    .map(|v| (from_median(*v), fences.judge(*v).is_some()))
                    .collect(),
                quartiles: (quartile(0.25), quartile(0.75)),
                remark: format!("{}{unit}", style.number(median(*p))),
            }
        })
        .collect();
    let heading = quantity::heading(q);
    let x = format!("{heading}: deviation from the median, %");
    let names: Vec<String> = colours
        .iter()
        .map(|c| factor.map_or(String::new(), |f| quantity::level(f, c)))
        .collect();
    let id = format!("repeats-{}-{number}-{}", cvc_show::slug(q), figure.id);
    let mut caption = "Each dot is one run, as deviation from the median of its point, printed at the right; the band spans the quartiles. Rings are outliers.".to_owned();
    if order.len() > MAX_ROWS {
        caption.push_str(&format!(" The first {MAX_ROWS} of {} points.", order.len()));
    }
    // With fewer colours than levels a legend would mislead, so the rows have names instead.
    let legend = if names.len() > PALETTE.len() {
        &[][..]
    } else {
        &names[..]
    };
    let drawing = plot::strips(&id, &x, legend, &rows)?;
    Ok(drawing.plot(id, title, caption))
}

fn shorten(label: &str) -> String {
    const MAX: usize = 64;
    if label.chars().count() <= MAX {
        label.to_owned()
    } else {
        label.chars().take(MAX - 1).chain(['…']).collect()
    }
}
