//! Draws pairs of results: a row for each pair, with a mark and an interval for each side.

use super::plot::{
    Drawing, INK, NARROW, PALETTE, TEXT, WIDE, WIDEST, Whisker, arrow, at, axis_end, keys, marker,
    render, style_mesh, text, tick, width,
};
use cvc_core::render_error::RenderError;
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, VPos},
};

/// The two results of a row.
pub struct Pair {
    /// Label of the row.
    pub name: String,
    /// The mean of each side with its interval; without an interval, both ends equal the mean.
    pub sides: [Whisker; 2],
}

/// Height of a row, pixels.
const ROW: u32 = 24;

/// Vertical offset of both marks from the middle of the row, pixels, so that neither covers the other.
const OFFSET: i32 = 4;

/// Ratio of the largest to the smallest mean above which the axis is logarithmic: on a linear axis the smallest pairs would be dots.
const LOGARITHMIC_FROM: f64 = 20.0;

/// Returns whether these pairs get a logarithmic axis.
pub fn is_logarithmic(pairs: &[Pair]) -> bool {
    let (least, most) = extremes(pairs);
    least > 0.0 && most / least >= LOGARITHMIC_FROM
}

/// Returns the smallest and the largest mean of all pairs.
fn extremes(pairs: &[Pair]) -> (f64, f64) {
    pairs
        .iter()
        .flat_map(|p| p.sides)
        .map(|w| w.0)
        .fold((f64::INFINITY, 0.0), |(l, h), v| (l.min(v), h.max(v)))
}

/// The axis of the values.
struct Axis {
    low: f64,
    high: f64,
    /// Whether the axis cuts an interval.
    is_cut: bool,
    is_logarithmic: bool,
}

impl Axis {
    fn of(pairs: &[Pair]) -> Self {
        let ends = || pairs.iter().flat_map(|p| p.sides);
        let (top, is_cut) = axis_end(ends());
        if !is_logarithmic(pairs) {
            return Self {
                low: 0.0,
                high: top,
                is_cut,
                is_logarithmic: false,
            };
        }
        // an interval that reaches 0 is cut, because a logarithmic axis has no 0
        let (least, _) = extremes(pairs);
        let low = ends()
            .map(|w| w.1)
            .fold(least, f64::min)
            .max(least / WIDEST);
        Self {
            low: (low / 1.05).log10(),
            high: top.log10(),
            is_cut,
            is_logarithmic: true,
        }
    }

    /// Returns the position of a value along the axis.
    fn place(&self, value: f64) -> f64 {
        let place = if self.is_logarithmic {
            value.max(f64::MIN_POSITIVE).log10()
        } else {
            value
        };
        place.clamp(self.low, self.high)
    }

    /// Returns the ticks of a logarithmic axis: powers of ten, and their multiples by 2 and 5 if there are few.
    fn ticks(&self) -> Vec<f64> {
        let between: &[f64] = if self.high - self.low > 3.0 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let decades = self.low.floor() as i32..=self.high.ceil() as i32;
        decades
            .flat_map(|decade| between.iter().map(move |m| m * 10f64.powi(decade)))
            .filter(|v| (self.low..=self.high).contains(&v.log10()))
            .collect()
    }
}

/// Draws a row for each pair, with one axis that begins at 0 or is [logarithmic](is_logarithmic). The legend names the sides.
pub fn dumbbells(
    what: &str,
    x_title: &str,
    sides: &[String; 2],
    pairs: &[Pair],
) -> Result<Drawing, RenderError> {
    let axis = Axis::of(pairs);
    let longest = pairs
        .iter()
        .map(|p| width(&p.name, TEXT))
        .max()
        .unwrap_or(0);
    let margin = longest.min(WIDE as i32 / 2) + 16;
    let wide = if margin > NARROW as i32 * 2 / 5 {
        WIDE
    } else {
        NARROW
    };
    let count = pairs.len() as f64;
    let drawn = render(what, (wide, pairs.len() as u32 * ROW + 60), |root| {
        let mut chart = ChartBuilder::on(root)
            .margin_right(24)
            .margin_top(8)
            .set_label_area_size(LabelAreaPosition::Left, margin)
            .set_label_area_size(LabelAreaPosition::Bottom, 46)
            .build_cartesian_2d(axis.low..axis.high, 0.0..count)?;
        let decimals = |v: f64| tick(v, axis.high);
        let logarithmic = |v: f64| significant_tick(10f64.powf(v));
        let mut mesh = chart.configure_mesh();
        style_mesh(&mut mesh)
            .disable_y_mesh()
            .disable_y_axis()
            .y_labels(0)
            .x_desc(x_title);
        if axis.is_logarithmic {
            mesh.disable_x_mesh().x_labels(0).draw()?;
            for value in axis.ticks() {
                let x = value.log10();
                chart.draw_series([PathElement::new([(x, 0.0), (x, count)], INK.mix(0.13))])?;
                let (px, py) = chart.plotting_area().map_coordinate(&(x, 0.0));
                root.draw(&Text::new(
                    logarithmic(x),
                    (px, py + 7),
                    at(text(TEXT), HPos::Center, VPos::Top),
                ))?;
            }
        } else {
            mesh.x_labels(6)
                .x_label_formatter(&|v| decimals(*v))
                .draw()?;
        }
        let pixel = count / f64::from(chart.plotting_area().dim_in_pixel().1.max(1));
        for (i, pair) in pairs.iter().enumerate() {
            let middle = count - i as f64 - 0.5;
            let (left, at_y) = chart.plotting_area().map_coordinate(&(axis.low, middle));
            root.draw(&Text::new(
                pair.name.clone(),
                (left - 8, at_y),
                at(text(TEXT), HPos::Right, VPos::Center),
            ))?;
            let up =
                |side: usize| middle + f64::from(if side == 0 { OFFSET } else { -OFFSET }) * pixel;
            let ends = [0, 1].map(|side| (axis.place(pair.sides[side].0), up(side)));
            chart.draw_series([PathElement::new(ends, INK.mix(0.35).stroke_width(2))])?;
            for (side, (mean, low, high)) in pair.sides.into_iter().enumerate() {
                let (y, colour) = (up(side), PALETTE[side]);
                if low < high {
                    let ends = [low, high].map(|v| axis.place(v));
                    let style = colour.stroke_width(1);
                    chart.draw_series([PathElement::new(ends.map(|end| (end, y)), style)])?;
                    let is_cut = high > mean && axis.place(high) >= axis.high;
                    arrow(&mut chart, (ends[0], y), 0, style)?;
                    let back = if is_cut { -5 } else { 0 };
                    arrow(&mut chart, (ends[1], y), back, style)?;
                }
                marker(&mut chart, side, (axis.place(mean), y), colour)?;
            }
        }
        Ok(())
    })?;
    Ok(Drawing {
        keys: keys(what, sides)?,
        panels: vec![drawn],
        width: wide,
        is_cut: axis.is_cut,
    })
}

/// Returns the label of a tick on a logarithmic axis.
fn significant_tick(value: f64) -> String {
    let decimals = (-value.log10()).ceil().clamp(0.0, 9.0) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::{Axis, Pair, is_logarithmic};

    fn pairs(means: &[[f64; 2]]) -> Vec<Pair> {
        let pair = |m: &[f64; 2]| Pair {
            name: "x".to_owned(),
            sides: m.map(|v| (v, v * 0.9, v * 1.1)),
        };
        means.iter().map(pair).collect()
    }

    #[test]
    fn results_of_one_magnitude_are_drawn_from_0_and_others_by_their_logarithms() {
        let near = pairs(&[[1.0, 2.0], [5.0, 19.0]]);
        assert!(!is_logarithmic(&near) && Axis::of(&near).low == 0.0);
        let far = pairs(&[[1.0, 2.0], [5.0, 21.0]]);
        let axis = Axis::of(&far);
        assert!(is_logarithmic(&far));
        assert_eq!(axis.ticks().len(), 5, "{:?}", axis.ticks());
        assert!(axis.place(0.0) >= axis.low && axis.place(23.1) <= axis.high);
        // a logarithmic axis has no 0
        assert!(!is_logarithmic(&pairs(&[[0.0, 50.0]])));
    }
}
