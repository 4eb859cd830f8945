//! Plots of values over the numbers of checkpoints.

use crate::report::layout;
use crate::results::data::Data;
use cvc_index::error::AnalysisError;
use cvc_show::{
    Plot,
    format::Style,
    plot::{self, Categories, Marks, Panel, Whisker},
};

/// The methods drawn, each with its names in records and in tables, in the order of tables.
pub(super) const METHODS: [(&str, &str); 4] = [
    ("full", "full"),
    ("incremental", "incremental"),
    ("differential", "differential"),
    ("adca", "ADCA"),
];
/// The method that is in the table only.
pub(super) const BOUNDED: (&str, &str) = ("bounded", "at most 3 files");
/// Maximum number of ticks along an axis; if there are more checkpoints, only some have a label.
const MAX_TICKS: usize = 12;

/// Orders values by checkpoint, starting with number `first`; a checkpoint without a value becomes a gap (`None`).
pub(super) fn by_checkpoint(first: u32, found: &[(u32, f64)]) -> Vec<Option<f64>> {
    let last = found.iter().map(|(ckpt, _)| *ckpt).max().unwrap_or(0);
    (first..=last)
        .map(|ckpt| found.iter().find(|(c, _)| *c == ckpt).map(|(_, v)| *v))
        .collect()
}

/// Values of each line along the axis; `None` is a gap.
pub(super) type SeriesLines = Vec<Vec<Option<f64>>>;

/// A plot of values over the numbers of checkpoints.
pub(super) struct OverCheckpoints<'a> {
    pub(super) id: String,
    pub(super) caption: String,
    /// Title of the axis of values, without the unit.
    pub(super) axis: &'a str,
    pub(super) unit: &'a str,
    pub(super) legend: Vec<String>,
    /// Number of the first checkpoint that is drawn.
    pub(super) first: u32,
    /// Whether values are stacked areas instead of lines.
    pub(super) is_stacked: bool,
    /// For each point, the values of each entry of the legend, by checkpoint.
    pub(super) points: Vec<(usize, SeriesLines)>,
}

impl OverCheckpoints<'_> {
    pub(super) fn draw(self, data: &Data, title: String) -> Result<Plot, AnalysisError> {
        let Self {
            id,
            mut caption,
            axis,
            unit,
            legend,
            first,
            is_stacked,
            points,
        } = self;
        let all = points.iter().flat_map(|(_, of)| of.iter().flatten());
        let style = Style::for_values(all.copied().flatten().collect(), Some(unit));
        let varying = data.varying();
        let panel = |(scale, (p, of)): (usize, (usize, SeriesLines))| {
            let count = of.iter().map(Vec::len).max().unwrap_or(0);
            let every = count.div_ceil(MAX_TICKS).max(1);
            let tick = |i: usize| {
                let is_written = i.is_multiple_of(every);
                let number = i + first as usize;
                if is_written {
                    number.to_string()
                } else {
                    String::new()
                }
            };
            let shown = |value: f64| value / style.divisor();
            let marks = if is_stacked {
                let bar = |i: usize| {
                    let pieces = of.iter().map(|values| values.get(i).copied().flatten());
                    let pieces: Vec<Option<f64>> = pieces.collect();
                    let is_there = pieces.iter().any(Option::is_some);
                    let pieces = pieces.into_iter().map(|v| shown(v.unwrap_or(0.0)));
                    is_there.then(|| (pieces.collect(), None))
                };
                Marks::Stacked((0..count).map(bar).collect())
            } else {
                let line = |values: Vec<Option<f64>>| -> Vec<Option<Whisker>> {
                    let shown = values.into_iter().map(|v| v.map(shown));
                    shown.map(|v| v.map(|v| (v, v, v))).collect()
                };
                Marks::Lines(of.into_iter().map(line).collect())
            };
            Panel {
                title: data.label(p, &varying),
                x: Categories {
                    title: "checkpoint".to_owned(),
                    names: (0..count).map(tick).collect(),
                },
                scale,
                marks,
            }
        };
        let panels: Vec<Panel> = points.into_iter().enumerate().map(panel).collect();
        let panels = layout::cut(panels, &mut caption);
        let unit = style.unit.clone().unwrap_or_default();
        let drawing = plot::panels(&id, &format!("{axis}, {unit}"), &legend, &panels)?;
        Ok(drawing.plot(id, title, caption))
    }
}
