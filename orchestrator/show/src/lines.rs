//! Plots of lines over ordered categories, for the reports of other crates.

use super::{
    document::Plot,
    format::Style,
    plot::{self, Categories, Marks, Panel},
};
use cvc_core::render_error::RenderError;

/// Maximum number of category labels along the axis.
const MAX_TICKS: usize = 12;

/// A plot with one panel: a line for each series over ordered categories.
#[derive(Clone, Debug)]
pub struct LinePlot {
    /// Identifier in links and file names.
    pub id: String,
    /// Title of the plot.
    pub title: String,
    /// Describes the plot's content.
    pub caption: String,
    /// Title of the horizontal axis.
    pub along: String,
    /// Names of the categories, in order; if there are many, only some are shown.
    pub categories: Vec<String>,
    /// Title of the vertical axis, without the unit.
    pub axis: String,
    /// Unit of the values; `None` for plain numbers.
    pub unit: Option<&'static str>,
    /// Names of the series, each with a value for every category; `None` is a gap.
    pub series: Vec<(String, Vec<Option<f64>>)>,
}

impl LinePlot {
    /// Draws the plot.
    ///
    /// # Errors
    /// The plot cannot be drawn.
    pub fn draw(self) -> Result<Plot, RenderError> {
        let all = self.series.iter().flat_map(|(_, values)| values);
        let style = Style::for_values(all.copied().flatten().collect(), self.unit);
        let every = self.categories.len().div_ceil(MAX_TICKS).max(1);
        let tick = |(i, name): (usize, String)| {
            if i.is_multiple_of(every) {
                name
            } else {
                String::new()
            }
        };
        let (names, lines): (Vec<String>, Vec<_>) = self.series.into_iter().unzip();
        let shown = |value: Option<f64>| {
            let value = value? / style.divisor();
            Some((value, value, value))
        };
        let line = |values: Vec<Option<f64>>| values.into_iter().map(shown).collect();
        let panel = Panel {
            title: String::new(),
            x: Categories {
                title: self.along,
                names: self.categories.into_iter().enumerate().map(tick).collect(),
            },
            scale: 0,
            marks: Marks::Lines(lines.into_iter().map(line).collect()),
        };
        let unit = style.unit.clone();
        let axis = unit.map_or_else(
            || self.axis.clone(),
            |unit| format!("{}, {unit}", self.axis),
        );
        let drawing = plot::panels(&self.id, &axis, &names, &[panel])?;
        Ok(drawing.plot(self.id, self.title, self.caption))
    }
}
