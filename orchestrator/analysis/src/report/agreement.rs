//! Plots of measured or predicted numbers against numbers printed in a paper; equal numbers are on the diagonal.

use cvc_index::error::AnalysisError;
use cvc_show::{
    Plot,
    plot::{INK, PALETTE, TEXT, at, keys, marker, render, text, width},
};
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, VPos},
};

/// A printed number and the number compared with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparedNumber {
    /// Index of the series to which the number belongs.
    pub series: usize,
    /// The printed number.
    pub printed: f64,
    /// The number compared with it, in the same unit.
    pub other: f64,
}

/// The compared numbers of one unit.
#[derive(Clone, Debug)]
pub struct AgreementPanel {
    /// Heading, such as the unit.
    pub title: String,
    /// The numbers, all above 0, because the axes are logarithmic.
    pub numbers: Vec<ComparedNumber>,
}

/// Width and height of a panel, pixels.
const PANEL: (u32, u32) = (460, 360);

/// The ends of both axes, as decimal logarithms.
struct Ends {
    low: f64,
    high: f64,
}

impl Ends {
    fn of(numbers: &[ComparedNumber]) -> Self {
        let values = numbers
            .iter()
            .flat_map(|n| [n.printed, n.other])
            .map(f64::log10)
            .filter(|v| v.is_finite());
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
            (l.min(v), h.max(v))
        });
        if low > high {
            return Self {
                low: 0.0,
                high: 1.0,
            };
        }
        // a short span is extended to ticks at both ends, so that there are at least two ticks
        let ends = if high - low > 2.0 {
            (low, high)
        } else {
            let below = |v: f64| ticks_around(v).filter(|t| *t <= v).fold(v - 1.0, f64::max);
            let above = |v: f64| ticks_around(v).filter(|t| *t >= v).fold(v + 1.0, f64::min);
            (below(low), above(high))
        };
        let aside = (ends.1 - ends.0) * 0.05;
        Self {
            low: ends.0 - aside.max(0.01),
            high: ends.1 + aside.max(0.01),
        }
    }

    /// Returns the values at which ticks are drawn, about seven at most.
    fn ticks(&self) -> Vec<f64> {
        let span = self.high - self.low;
        let every = (span / 7.0).ceil().max(1.0) as i32;
        let between: &[f64] = if span > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        (self.low.floor() as i32..=self.high.ceil() as i32)
            .filter(|decade| decade.rem_euclid(every) == 0)
            .flat_map(|decade| between.iter().map(move |m| m * 10f64.powi(decade)))
            .filter(|v| (self.low..=self.high).contains(&v.log10()))
            .collect()
    }
}

/// Returns the logarithms of 1, 2 and 5 times powers of ten near a value.
fn ticks_around(logarithm: f64) -> impl Iterator<Item = f64> {
    let decade = logarithm.floor();
    [-1.0, 0.0, 1.0]
        .into_iter()
        .flat_map(move |d| [1.0f64, 2.0, 5.0].map(|m| m.log10() + decade + d))
}

/// Formats the label of a tick. Long numbers are written as powers of ten.
fn label(value: f64) -> String {
    if (1e-3..1e5).contains(&value) {
        let decimals = (-value.log10() - 1e-9).ceil().clamp(0.0, 3.0) as usize;
        format!("{value:.decimals$}")
    } else {
        format!("{value:e}")
    }
}

/// Draws panels of numbers against printed numbers, with the diagonal, on two equal logarithmic axes. The legend names the series.
///
/// # Errors
/// The plot cannot be drawn.
pub fn agreement_plot(
    (id, title, caption): (&str, &str, &str),
    series: &[String],
    panels: &[AgreementPanel],
) -> Result<Plot, AnalysisError> {
    let draw = |panel: &AgreementPanel| {
        let ends = Ends::of(&panel.numbers);
        render(id, PANEL, |area| {
            let widest = ends
                .ticks()
                .iter()
                .map(|v| width(&label(*v), TEXT))
                .max()
                .unwrap_or(0);
            let mut chart = ChartBuilder::on(area)
                .margin_right(24)
                .margin_top(28)
                .set_label_area_size(LabelAreaPosition::Left, widest.max(22) + 38)
                .set_label_area_size(LabelAreaPosition::Bottom, 46)
                .build_cartesian_2d(ends.low..ends.high, ends.low..ends.high)?;
            chart
                .configure_mesh()
                .disable_mesh()
                .x_labels(0)
                .y_labels(0)
                .axis_style(INK.mix(0.6))
                .label_style(text(TEXT))
                .x_desc("printed")
                .y_desc("compared")
                .axis_desc_style(text(TEXT))
                .draw()?;
            for value in ends.ticks() {
                let v = value.log10();
                let grid = INK.mix(0.13);
                chart.draw_series([
                    PathElement::new([(v, ends.low), (v, ends.high)], grid),
                    PathElement::new([(ends.low, v), (ends.high, v)], grid),
                ])?;
                let (x, foot) = chart.plotting_area().map_coordinate(&(v, ends.low));
                let (left, y) = chart.plotting_area().map_coordinate(&(ends.low, v));
                area.draw(&Text::new(
                    label(value),
                    (x, foot + 7),
                    at(text(TEXT), HPos::Center, VPos::Top),
                ))?;
                area.draw(&Text::new(
                    label(value),
                    (left - 7, y),
                    at(text(TEXT), HPos::Right, VPos::Center),
                ))?;
            }
            chart.draw_series([PathElement::new(
                [(ends.low, ends.low), (ends.high, ends.high)],
                INK.mix(0.6).stroke_width(1),
            )])?;
            // draw marks that would cover each other once, to keep pages small
            let mut drawn = std::collections::HashSet::new();
            for n in &panel.numbers {
                let place = (n.printed.log10(), n.other.log10());
                let pixel = chart.plotting_area().map_coordinate(&place);
                if drawn.insert((n.series, pixel)) {
                    let colour = PALETTE[n.series % PALETTE.len()];
                    marker(&mut chart, n.series, place, colour)?;
                }
            }
            let (left, _) = chart.plotting_area().map_coordinate(&(ends.low, ends.low));
            area.draw(&Text::new(
                panel.title.clone(),
                (left, 6),
                at(text(TEXT + 1), HPos::Left, VPos::Top),
            ))?;
            Ok(())
        })
    };
    Ok(Plot {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        width: PANEL.0 * (panels.len() as u32).clamp(1, 3),
        keys: keys(id, series)?,
        panels: panels.iter().map(draw).collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{ComparedNumber, Ends, label};

    #[test]
    fn axes_of_any_span_have_a_few_ticks() {
        let ends = |low: f64, high: f64| {
            Ends::of(&[ComparedNumber {
                series: 0,
                printed: low,
                other: high,
            }])
        };
        assert!(ends(10.0, 12.0).ticks().len() >= 2);
        for (low, high) in [(10.0, 12.0), (1.0, 9.0), (0.01, 4.0), (1e-9, 1e12)] {
            let ticks = ends(low, high).ticks();
            assert!(ticks.len() <= 10, "{low} {high} {ticks:?}");
        }
        assert!(ends(1.0, 9.0).ticks().len() >= 3);
        let empty = Ends::of(&[]);
        assert!(empty.low < empty.high);
    }

    #[test]
    fn labels_have_the_digits_they_need() {
        let labels = [0.001, 0.05, 1.0, 200.0, 1e6, 1e-7].map(label);
        assert_eq!(labels, ["0.001", "0.05", "1", "200", "1e6", "1e-7"]);
    }
}
