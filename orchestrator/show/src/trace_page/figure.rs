//! A plot with its axes and its caption. The drawing is an SVG that fills the available width. The axes are text next to it, whose size does not
//! change with the width.

use super::text::{escape, unit_of_time};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Approximate number of steps between the ticks of an axis.
const STEPS: f64 = 6.0;

/// An axis of a plot.
#[derive(Clone, Debug, Default)]
pub(super) struct FigureScale {
    /// The quantity with its unit.
    pub(super) title: String,
    /// The values at both ends of the axis, in the unit of the axis.
    pub(super) ends: (f64, f64),
    /// Whether the axis counts items; each item is 1 wide.
    pub(super) is_whole: bool,
    /// Names of the items, the first at 0; empty if items only have numbers.
    pub(super) names: Vec<String>,
}

/// The time axis that all plots of a page share.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeAxis {
    pub(super) from_s: f64,
    to_s: f64,
}

impl TimeAxis {
    /// Returns the time axis of a trace, from the start of the first operation to the end of the last one.
    pub(super) fn of((from_ns, to_ns): (u64, u64)) -> Self {
        let (from_s, to_s) = (from_ns as f64 / 1e9, to_ns as f64 / 1e9);
        // begin at the start of the trace if that takes little space
        let from_s = if from_s <= to_s * 0.2 { 0.0 } else { from_s };
        Self {
            from_s,
            to_s: to_s.max(from_s + 1e-6),
        }
    }

    pub(super) fn span_s(self) -> f64 {
        self.to_s - self.from_s
    }

    pub(super) fn scale(self) -> FigureScale {
        let (unit, seconds) = unit_of_time(self.to_s);
        FigureScale {
            title: format!("time since the start of the trace ({unit})"),
            ends: (self.from_s / seconds, self.to_s / seconds),
            ..FigureScale::default()
        }
    }
}

/// A plot of the page.
#[derive(Clone, Debug, Default)]
pub(super) struct TraceFigure {
    pub(super) title: String,
    pub(super) caption: String,
    /// Description of the plot, for readers who cannot see it.
    pub(super) alt: String,
    pub(super) x: FigureScale,
    pub(super) y: FigureScale,
    /// Height of the drawing, pixels.
    pub(super) height: u32,
    /// The visible part of the drawing's plane: left, top, width, height.
    pub(super) view: [f64; 4],
    /// The SVG elements.
    pub(super) drawing: String,
    /// The legend: CSS class and meaning of each colour.
    pub(super) keys: Vec<(&'static str, String)>,
}

/// Returns round values between the ends, and the number of decimals that they need.
fn ticks(ends: (f64, f64), is_whole: bool) -> (Vec<f64>, usize) {
    let span = ends.1 - ends.0;
    let raw = span / STEPS;
    if raw.is_nan() || raw <= 0.0 || !raw.is_finite() {
        return (Vec::new(), 0);
    }
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|of| of * power)
        .into_iter()
        .find(|step| *step >= raw * 0.999)
        .unwrap_or(raw);
    let step = if is_whole { step.ceil().max(1.0) } else { step };
    let digits = (-step.log10().floor()).max(0.0) as usize;
    let first = (ends.0 / step - 1e-9).ceil();
    let all = (0..=2 * STEPS as u32 + 2)
        .map(|i| (first + f64::from(i)) * step)
        // the middle of the last item must be on the axis
        .take_while(|at| *at <= ends.1 - if is_whole { 0.5 } else { -span * 1e-9 });
    (all.collect(), digits)
}

impl FigureScale {
    /// Returns the ticks of the axis: position from 0 to 100, and label.
    fn marks(&self) -> Vec<(f64, String)> {
        let span = self.ends.1 - self.ends.0;
        let (at, digits) = ticks(self.ends, self.is_whole);
        // label each item if all names fit
        let named = self.is_whole && !self.names.is_empty() && self.names.len() <= 12;
        let at = if named {
            (0..self.names.len()).map(|i| i as f64).collect()
        } else {
            at
        };
        at.into_iter()
            .map(|value| {
                let middle = if self.is_whole { value + 0.5 } else { value };
                let name = self.names.get(value as usize).filter(|_| self.is_whole);
                let label = name.cloned().unwrap_or_else(|| format!("{value:.digits$}"));
                ((middle - self.ends.0) / span * 100.0, label)
            })
            .collect()
    }

    fn data(&self) -> Value {
        json!({ "from": self.ends.0, "to": self.ends.1, "whole": self.is_whole, "names": self.names })
    }
}

impl TraceFigure {
    /// Returns the data of the plot for the template.
    pub(super) fn to_json(&self, id: usize) -> Value {
        let mut marks = String::new();
        for (axis, scale, side) in [("x", &self.x, "left"), ("y", &self.y, "bottom")] {
            for (at, label) in scale.marks() {
                let _ = write!(
                    marks,
                    "<span class=\"{axis}\" style=\"{side}:{at:.2}%\"><b>{}</b></span>",
                    escape(&label)
                );
            }
        }
        let [left, top, width, height] = self.view;
        let keys: Vec<Value> = self
            .keys
            .iter()
            .map(|(class, label)| json!({ "class": class, "label": label }))
            .collect();
        json!({
            "id": format!("plot-{id}"), "title": escape(&self.title), "caption": escape(&self.caption), "alt": escape(&self.alt),
            "x_title": self.x.title, "y_title": self.y.title, "height": self.height, "view": format!("{left:.4} {top:.4} {width:.4} {height:.4}"),
            "drawing": self.drawing, "keys": keys, "marks": marks,
            "axes": escape(&json!({ "x": self.x.data(), "y": self.y.data() }).to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_ends() {
        assert_eq!(ticks((0.0, 10.0), false).0, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let (at, digits) = ticks((0.31, 0.52), false);
        assert_eq!(digits, 2);
        assert!(at.iter().all(|t| (0.31..=0.52).contains(t)) && at.len() >= 4);
        assert!(ticks((1.0, 1.0), false).0.is_empty());
    }

    #[test]
    fn counted_items_have_their_mark_in_the_middle() {
        let scale = FigureScale {
            title: "rank".into(),
            ends: (0.0, 4.0),
            is_whole: true,
            names: Vec::new(),
        };
        let marks = scale.marks();
        assert_eq!(marks.len(), 4);
        assert_eq!(marks[0], (12.5, "0".into()));
        assert_eq!(marks[3], (87.5, "3".into()));
    }
}
