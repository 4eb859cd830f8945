//! Lines over ordered categories, for reports of other crates.

use super::{
    document::Plot,
    format::Style,
    plot::{self, Categories, Marks, Panel},
};
use cvc_core::render_error::RenderError;

/// Most categories that are written along the axis.
const MOST_TICKS: usize = 12;

/// A plot with one panel: a line for each series over ordered categories.
#[derive(Clone, Debug)]
pub struct LinePlot {
    /// Name in links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// What the plot shows.
    pub caption: String,
    /// Title of the axis along.
    pub along: String,
    /// Names of the categories, in order; of many, only some are written.
    pub categories: Vec<String>,
    /// Title of the axis of values, without the unit.
    pub axis: String,
    /// Unit of the values as they are given; none for plain numbers.
    pub unit: Option<&'static str>,
    /// Names of the series, each with its value in each category, or a gap.
    pub series: Vec<(String, Vec<Option<f64>>)>,
}

impl LinePlot {
    /// Draws it.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub fn draw(self) -> Result<Plot, RenderError> {
        let all = self.series.iter().flat_map(|(_, values)| values);
        let style = Style::for_values(all.copied().flatten().collect(), self.unit);
        let every = self.categories.len().div_ceil(MOST_TICKS).max(1);
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
