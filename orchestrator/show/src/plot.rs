//! Draws plots as SVG. The SVG inherits the colour of the surrounding text, so that it suits light and dark pages.

use crate::document::Plot;
use cvc_core::render_error::RenderError;
use plotters::{
    chart::MeshStyle,
    coord::{Shift, types::RangedCoordf64},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

/// Placeholder for the colour of the surrounding text; replaced by `currentColor`.
pub const INK: RGBColor = RGBColor(1, 1, 1);

/// The palette of Okabe and Ito without yellow and black: safe for colour-blind readers, legible on light and dark.
pub const PALETTE: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
];

/// Width of plots with several panels or long names, in CSS pixels.
pub const WIDE: u32 = 960;

/// Width of plots with many panels, in CSS pixels.
const FULL: u32 = 1320;

/// Width of plots with one panel, in CSS pixels: two such plots fit next to each other.
pub const NARROW: u32 = 620;

/// Size of the text, pixels.
pub const TEXT: u32 = 12;

/// The area of an SVG on which a plot is drawn.
pub type PlotArea<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Result of a drawing function.
pub type Drawn = Result<(), Box<dyn std::error::Error>>;
/// A chart with two linear axes.
pub type Chart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The axes and the grid of a chart, before they are drawn.
type Mesh<'a, 'b, 'c> = MeshStyle<'a, 'b, RangedCoordf64, RangedCoordf64, SVGBackend<'c>>;

/// Sets the style that axes and grid have in all plots.
pub fn style_mesh<'m, 'a, 'b, 'c>(mesh: &'m mut Mesh<'a, 'b, 'c>) -> &'m mut Mesh<'a, 'b, 'c> {
    mesh.axis_style(INK.mix(0.6))
        .bold_line_style(INK.mix(0.13))
        .light_line_style(TRANSPARENT)
        .label_style(text(TEXT))
        .axis_desc_style(text(TEXT))
}

/// A plot's `<svg>` elements, and the width that its panels take side by side.
pub struct Drawing {
    /// An element for each name of the legend; empty if there is only one series.
    pub keys: Vec<String>,
    /// An element for each panel.
    pub panels: Vec<String>,
    /// Width of the panels side by side, pixels.
    pub width: u32,
    /// Whether an interval is cut, because otherwise the axis would be too long for all other values.
    pub is_cut: bool,
}

impl Drawing {
    /// Converts the drawing to a plot of a document.
    pub fn plot(self, id: String, title: String, mut caption: String) -> Plot {
        if self.is_cut {
            caption.push_str(" An arrow: an interval or a value extends beyond the axis.");
        }
        Plot {
            id,
            title,
            caption,
            width: self.width,
            keys: self.keys,
            panels: self.panels,
        }
    }
}

/// Minimum width of a drawing on a narrow page, percent of its full width: text of 12 pixels stays larger than 10.
const MIN_WIDTH_PCT: u32 = 85;

/// A mean, and the lower and upper end of its interval.
pub type Whisker = (f64, f64, f64);

/// Draws an `<svg>` element to embed in a page.
pub fn render(
    what: &str,
    (wide, height): (u32, u32),
    draw: impl FnOnce(&PlotArea<'_>) -> Drawn,
) -> Result<String, RenderError> {
    let failed = |detail: String| RenderError {
        what: what.to_owned(),
        detail,
    };
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (wide, height)).into_drawing_area();
        draw(&root).map_err(|e| failed(e.to_string()))?;
        root.present().map_err(|e| failed(e.to_string()))?;
    }
    let start = format!("<svg style=\"min-width:{}px\" ", wide * MIN_WIDTH_PCT / 100);
    Ok(svg
        .replace("#010101", "currentColor")
        .replace("font-family=\"sans-serif\" ", "")
        .replacen("<svg ", &start, 1))
}

/// Returns the style of text with this size in CSS pixels (the backend divides the size by 1.24).
pub fn text<'a>(size: u32) -> TextStyle<'a> {
    ("sans-serif", f64::from(size) * 1.24)
        .into_font()
        .color(&INK)
}

/// Returns the style with its anchor at these sides of the text.
pub fn at(style: TextStyle<'_>, h: HPos, v: VPos) -> TextStyle<'_> {
    style.pos(Pos::new(h, v))
}

/// Estimates the width of a text in pixels, without reading a font.
pub fn width(text: &str, size: u32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) * 0.54) as i32
}

/// Maximum number of characters in a line of the legend, so that it fits on a phone.
const KEY_LINE: usize = 42;

/// Height of each further line of a name in the legend, pixels.
const KEY_ROW: u32 = 16;

/// Breaks a text between words into lines of at most `most` characters; a longer word is broken, too.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for part in letters.chunks(most).map(|c| c.iter().collect::<String>()) {
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + part.chars().count() <= most => {
                    line.push(' ');
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
        }
    }
    lines
}

/// Draws each name of the legend with its colour as a separate element, so that names wrap like words. A single series needs no legend.
pub fn keys(what: &str, names: &[String]) -> Result<Vec<String>, RenderError> {
    let named: Vec<_> = names
        .iter()
        .enumerate()
        .filter(|(_, name)| !name.is_empty())
        .collect();
    if named.len() < 2 {
        return Ok(Vec::new());
    }
    let key = |(i, name): (usize, &String)| {
        let lines = wrapped(name, KEY_LINE);
        let longest = lines.iter().map(|l| width(l, TEXT)).max().unwrap_or(0);
        // no text follows in the element, so there is room for wide capital letters
        let wide = longest * 5 / 4 + 40;
        let height = 24 + (lines.len().max(1) as u32 - 1) * KEY_ROW;
        render(what, (wide.unsigned_abs(), height), |area| {
            area.draw(&Rectangle::new(
                [(8, 6), (20, 18)],
                PALETTE[i % PALETTE.len()].filled(),
            ))?;
            for (row, line) in lines.iter().enumerate() {
                area.draw(&Text::new(
                    line.clone(),
                    (26, 12 + (row as u32 * KEY_ROW) as i32),
                    at(text(TEXT), HPos::Left, VPos::Center),
                ))?;
            }
            Ok(())
        })
    };
    named.into_iter().map(key).collect()
}

/// The categories along an axis.
#[derive(Clone, Debug)]
pub struct Categories {
    /// Title of the axis.
    pub title: String,
    /// Names of the categories, in order.
    pub names: Vec<String>,
}

/// One panel.
pub struct Panel {
    /// Heading of the panel.
    pub title: String,
    /// Categories along the horizontal axis.
    pub x: Categories,
    /// Number of the scale: panels with the same number have the same vertical axis.
    pub scale: usize,
    /// The values, and how they are drawn.
    pub marks: Marks,
}

/// Values of a panel, and how they are drawn.
pub enum Marks {
    /// For each category a bar of stacked pieces, the lowest first, and the total with its interval.
    Stacked(Vec<Option<(Vec<f64>, Option<Whisker>)>>),
    /// For each series a mean with its interval in each category, or a gap. The means of a series are joined by lines.
    Lines(Vec<Vec<Option<Whisker>>>),
    /// For each series a mean with its interval in each category, or a gap. The means are bars side by side, for categories without an order.
    Grouped(Vec<Vec<Option<Whisker>>>),
    /// For each category, values measured at training points and at held-out points, and values predicted for the held-out points.
    Judged {
        /// Measured at training points.
        training: Vec<Option<Whisker>>,
        /// Measured at held-out points.
        held_out: Vec<Option<Whisker>>,
        /// Predicted for held-out points.
        predicted: Vec<Option<Whisker>>,
    },
}

/// Maximum upper end of an interval as a multiple of the largest value. Longer intervals are cut, so that the axis ends below twice the largest
/// value.
pub const WIDEST: f64 = 1.85;

/// Returns the end of an axis that begins at 0, and whether it cuts an interval.
pub fn axis_end(whiskers: impl Iterator<Item = Whisker> + Clone) -> (f64, bool) {
    let finite = |v: &f64| v.is_finite();
    let largest = whiskers
        .clone()
        .map(|w| w.0)
        .filter(finite)
        .fold(0.0, f64::max);
    let reach = largest * WIDEST;
    let end = ceiling(whiskers.clone().map(|w| w.2.min(reach).max(w.0)));
    (end, whiskers.into_iter().any(|w| w.2 > end))
}

impl Marks {
    /// Returns all values of the panel with their intervals; for stacked bars, the totals.
    fn whiskers(&self) -> Vec<Whisker> {
        match self {
            Self::Stacked(bars) => bars
                .iter()
                .flatten()
                .map(|(pieces, total)| {
                    let sum = pieces.iter().sum::<f64>();
                    total.map_or((sum, sum, sum), |w| (sum.max(w.0), w.1, w.2))
                })
                .collect(),
            Self::Judged {
                training,
                held_out,
                predicted,
            } => [training, held_out, predicted]
                .into_iter()
                .flatten()
                .flatten()
                .copied()
                .collect(),
            Self::Lines(series) | Self::Grouped(series) => {
                series.iter().flatten().flatten().copied().collect()
            }
        }
    }
}

/// Returns the colour of a series. A series without a name is the only one of its panel and gets a neutral colour.
fn colour_of(legend: &[String], series: usize) -> RGBColor {
    const NEUTRAL: RGBColor = RGBColor(128, 134, 142);
    if legend.get(series).is_some_and(String::is_empty) {
        NEUTRAL
    } else {
        PALETTE[series % PALETTE.len()]
    }
}

/// Draws panels; the legend names the pieces of bars or the series.
pub fn panels(
    what: &str,
    y_title: &str,
    legend_names: &[String],
    panels: &[Panel],
) -> Result<Drawing, RenderError> {
    let (across, size) = grid(panels);
    let end = |scale: usize| {
        let sharing = panels.iter().filter(|p| p.scale == scale);
        let whiskers: Vec<Whisker> = sharing.flat_map(|p| p.marks.whiskers()).collect();
        axis_end(whiskers.into_iter())
    };
    let draw = |panel: &Panel| {
        render(what, size, |area| {
            let (top, _) = end(panel.scale);
            let mut chart = frame(area, &panel.title, &panel.x, y_title, top)?;
            match &panel.marks {
                Marks::Stacked(bars) => stacked(&mut chart, bars)?,
                Marks::Lines(series) => {
                    lines(&mut chart, panel.x.names.len(), legend_names, series)?
                }
                Marks::Grouped(series) => grouped(&mut chart, legend_names, series)?,
                Marks::Judged {
                    training,
                    held_out,
                    predicted,
                } => judged(&mut chart, [training, held_out, predicted])?,
            }
            Ok(())
        })
    };
    let drawn = panels.iter().map(draw).collect::<Result<_, _>>()?;
    Ok(Drawing {
        keys: keys(what, legend_names)?,
        panels: drawn,
        width: across * size.0,
        is_cut: panels.iter().any(|p| end(p.scale).1),
    })
}

fn stacked(chart: &mut Chart<'_, '_>, bars: &[Option<(Vec<f64>, Option<Whisker>)>]) -> Drawn {
    for (i, (pieces, total)) in bars
        .iter()
        .enumerate()
        .filter_map(|(i, bar)| Some((i, bar.as_ref()?)))
    {
        let mut base = 0.0;
        for (piece, value) in pieces.iter().enumerate() {
            let corners = [(i as f64 + 0.22, base), (i as f64 + 0.78, base + value)];
            chart.draw_series([Rectangle::new(
                corners,
                PALETTE[piece % PALETTE.len()].filled(),
            )])?;
            base += value;
        }
        if let Some(total) = *total {
            whisker(chart, i as f64 + 0.5, total, INK.mix(0.9))?;
        }
    }
    Ok(())
}

fn lines(
    chart: &mut Chart<'_, '_>,
    categories: usize,
    legend: &[String],
    series: &[Vec<Option<Whisker>>],
) -> Drawn {
    for (s, values) in series.iter().enumerate() {
        let colour = colour_of(legend, s);
        // Series are offset by some pixels, so that their intervals do not cover each other.
        let pixel = categories as f64 / f64::from(chart.plotting_area().dim_in_pixel().0.max(1));
        let aside = 0.5 + (s as f64 - (series.len() as f64 - 1.0) / 2.0) * 5.0 * pixel;
        let place = |i: usize| i as f64 + aside;
        // A line breaks where a measurement is missing.
        for part in values
            .iter()
            .enumerate()
            .collect::<Vec<_>>()
            .split(|(_, v)| v.is_none())
        {
            let line = part.iter().filter_map(|(i, v)| v.map(|w| (place(*i), w.0)));
            chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
        }
        for (i, w) in values
            .iter()
            .enumerate()
            .filter_map(|(i, w)| Some((i, (*w)?)))
        {
            whisker(chart, place(i), w, colour.to_rgba())?;
            marker(chart, s, (place(i), w.0), colour)?;
        }
    }
    Ok(())
}

fn grouped(chart: &mut Chart<'_, '_>, legend: &[String], series: &[Vec<Option<Whisker>>]) -> Drawn {
    // Series without values in this panel take no space.
    let present: Vec<usize> = (0..series.len())
        .filter(|s| series[*s].iter().any(Option::is_some))
        .collect();
    let wide = 0.64 / present.len().max(1) as f64;
    for (place, &s) in present.iter().enumerate() {
        for (i, w) in series[s]
            .iter()
            .enumerate()
            .filter_map(|(i, w)| Some((i, (*w)?)))
        {
            let left = i as f64 + 0.18 + place as f64 * wide;
            let corners = [(left + wide * 0.06, 0.0), (left + wide * 0.94, w.0)];
            chart.draw_series([Rectangle::new(corners, colour_of(legend, s).filled())])?;
            whisker(chart, left + wide / 2.0, w, INK.mix(0.9))?;
        }
    }
    Ok(())
}

/// Draws measured and predicted values side by side in each category, without lines between them.
fn judged(chart: &mut Chart<'_, '_>, series: [&[Option<Whisker>]; 3]) -> Drawn {
    let categories = series[0].len();
    let pixel = categories as f64 / f64::from(chart.plotting_area().dim_in_pixel().0.max(1));
    for (s, values) in series.into_iter().enumerate() {
        let colour = PALETTE[s];
        let aside = 0.5 + if s == 2 { 7.0 } else { -7.0 } * pixel;
        for (i, w) in values
            .iter()
            .enumerate()
            .filter_map(|(i, w)| Some((i, (*w)?)))
        {
            let x = i as f64 + aside;
            whisker(chart, x, w, colour.to_rgba())?;
            marker(chart, s, (x, w.0), colour)?;
        }
    }
    Ok(())
}

/// A point of a plot of one quantity over another.
pub struct PlotSpot {
    /// Index of the point's series.
    pub series: usize,
    /// Text next to the point's mark.
    pub name: String,
    /// Horizontal and vertical position, each with its interval.
    pub at: (Whisker, Whisker),
}

/// A rectangle of a drawing, in pixels.
#[derive(Clone, Copy, Debug)]
struct Extent {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Extent {
    fn of_mark((x, y): (i32, i32)) -> Self {
        Self {
            left: x - 5,
            right: x + 5,
            top: y - 5,
            bottom: y + 5,
        }
    }

    fn of_line(from: (i32, i32), to: (i32, i32)) -> Self {
        Self {
            left: from.0,
            right: to.0 + 1,
            top: from.1,
            bottom: to.1 + 1,
        }
    }

    /// Returns the area that both rectangles cover, square pixels.
    fn shared(self, other: Self) -> i32 {
        let across = self.right.min(other.right) - self.left.max(other.left);
        let down = self.bottom.min(other.bottom) - self.top.max(other.top);
        across.max(0) * down.max(0)
    }

    /// Returns the area of this rectangle that is outside the other, square pixels.
    fn outside(self, other: Self) -> i32 {
        (self.right - self.left) * (self.bottom - self.top) - self.shared(other)
    }
}

/// Returns the place for a mark's name: the nearest free one around the mark, otherwise the one with the least overlap.
fn name_box(mark: (i32, i32), wide: i32, taken: &[Extent], within: Extent) -> Extent {
    const HALF: i32 = 7;
    let at = |left: i32, middle: i32| Extent {
        left,
        right: left + wide,
        top: middle - HALF,
        bottom: middle + HALF,
    };
    let (x, y) = mark;
    let places = [0, -14, 14, -28, 28, -42, 42, -56, 56]
        .into_iter()
        .flat_map(|dy| [at(x + 9, y + dy), at(x - 9 - wide, y + dy)]);
    // parts of a name outside the plot are unreadable, so they count four times
    let harm = |b: &Extent| b.outside(within) * 4 + taken.iter().map(|t| b.shared(*t)).sum::<i32>();
    places.min_by_key(harm).unwrap_or_else(|| at(x + 9, y))
}

/// Draws panels with one quantity over another, both axes from 0; the legend names the series.
pub fn scatter(
    what: &str,
    (x_title, y_title): (&str, &str),
    series: &[String],
    panels: &[(String, Vec<PlotSpot>)],
) -> Result<Drawing, RenderError> {
    let across = panels.len().clamp(1, 2);
    let wide = if across == 1 { NARROW } else { WIDE };
    let ends = |spots: &[PlotSpot]| {
        let (right, is_cut) = axis_end(spots.iter().map(|s| s.at.0));
        let (top, also) = axis_end(spots.iter().map(|s| s.at.1));
        (right, top, is_cut || also)
    };
    let draw = |(title, spots): &(String, Vec<PlotSpot>)| {
        render(what, (wide / across as u32, 320), |area| {
            let (right, top, _) = ends(spots);
            let mut chart = ChartBuilder::on(area)
                .margin_right(24)
                .margin_top(if title.is_empty() { 10 } else { 28 })
                .set_label_area_size(
                    LabelAreaPosition::Left,
                    width(&tick(top, top), TEXT).max(22) + 38,
                )
                .set_label_area_size(LabelAreaPosition::Bottom, 46)
                .build_cartesian_2d(0.0..right, 0.0..top)?;
            style_mesh(&mut chart.configure_mesh())
                .x_labels(6)
                .y_labels(6)
                .x_label_formatter(&|v| tick(*v, right))
                .y_label_formatter(&|v| tick(*v, top))
                .x_desc(x_title)
                .y_desc(y_title)
                .draw()?;
            for spot in spots {
                let ((x, x_low, x_high), up) = spot.at;
                let colour = PALETTE[spot.series % PALETTE.len()];
                let style = colour.stroke_width(1);
                let end = x_high.min(right);
                chart.draw_series([PathElement::new(
                    [(x_low.max(0.0), up.0), (end, up.0)],
                    style,
                )])?;
                if x_high > right {
                    arrow(&mut chart, (end, up.0), -5, style)?;
                }
                whisker(&mut chart, x, up, colour.to_rgba())?;
                marker(&mut chart, spot.series, (x, up.0), colour)?;
            }
            write_names(area, &chart, spots)?;
            if !title.is_empty() {
                area.draw(&Text::new(
                    title.clone(),
                    (60, 6),
                    at(text(TEXT + 1), HPos::Left, VPos::Top),
                ))?;
            }
            Ok(())
        })
    };
    let drawn = panels.iter().map(draw).collect::<Result<_, _>>()?;
    Ok(Drawing {
        keys: keys(what, series)?,
        panels: drawn,
        width: wide,
        is_cut: panels.iter().any(|(_, spots)| ends(spots).2),
    })
}

/// Writes the names of points next to their marks, at free places.
fn write_names(area: &PlotArea<'_>, chart: &Chart<'_, '_>, spots: &[PlotSpot]) -> Drawn {
    let (right, top) = (chart.x_range().end, chart.y_range().end);
    let (origin_x, origin_y) = area.get_base_pixel();
    let (across, down) = chart.plotting_area().get_pixel_range();
    let within = Extent {
        left: across.start - origin_x,
        right: across.end - origin_x + 20,
        top: down.start - origin_y - 4,
        bottom: down.end - origin_y,
    };
    let to = |x: f64, y: f64| {
        let (px, py) = chart.plotting_area().map_coordinate(&(x, y));
        (px - origin_x, py - origin_y)
    };
    let mut taken: Vec<Extent> = spots
        .iter()
        .flat_map(|s| {
            let ((x, x_low, x_high), (y, y_low, y_high)) = s.at;
            [
                Extent::of_mark(to(x, y)),
                Extent::of_line(to(x_low, y), to(x_high.min(right), y)),
                Extent::of_line(to(x, y_high.min(top)), to(x, y_low)),
            ]
        })
        .collect();
    for spot in spots.iter().filter(|s| !s.name.is_empty()) {
        let mark = to(spot.at.0.0, spot.at.1.0);
        let name = name_box(mark, width(&spot.name, TEXT - 1), &taken, within);
        taken.push(name);
        // draw a line to a name that is not next to its mark
        let middle = (name.top + name.bottom) / 2;
        if middle != mark.1 {
            let end = if name.left > mark.0 {
                name.left - 2
            } else {
                name.right + 2
            };
            area.draw(&PathElement::new([mark, (end, middle)], INK.mix(0.4)))?;
        }
        area.draw(&Text::new(
            spot.name.clone(),
            (name.left, middle),
            at(text(TEXT - 1), HPos::Left, VPos::Center),
        ))?;
    }
    Ok(())
}

/// Minimum range of an axis of deviations, percent, so that negligible scatter is not magnified.
const MIN_DEVIATION_PCT: f64 = 0.5;

/// Maximum deviation on the axis, percent; larger deviations are drawn as arrows.
const MAX_DEVIATION_PCT: f64 = 900.0;

/// The result of one run, in a plot over time.
pub struct PlotMoment {
    /// Index of the run's series.
    pub series: usize,
    /// Time, minutes.
    pub minutes: f64,
    /// Deviation from the mean, percent.
    pub deviation_pct: f64,
}

/// Draws results over time as deviations in percent, all on one axis around zero. The legend names the series.
pub fn order(
    what: &str,
    y_title: &str,
    series: &[String],
    moments: &[PlotMoment],
) -> Result<Drawing, RenderError> {
    let right = ceiling(moments.iter().map(|m| m.minutes));
    let farthest = moments.iter().fold(MIN_DEVIATION_PCT, |reach, m| {
        reach.max(m.deviation_pct.abs())
    });
    let reach = farthest.min(MAX_DEVIATION_PCT) * 1.1;
    let drawn = render(what, (WIDE, 260), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_right(24)
            .margin_top(10)
            .set_label_area_size(
                LabelAreaPosition::Left,
                width(&tick(-reach, reach), TEXT).max(22) + 38,
            )
            .set_label_area_size(LabelAreaPosition::Bottom, 46)
            .build_cartesian_2d(0.0..right, -reach..reach)?;
        style_mesh(&mut chart.configure_mesh())
            .x_labels(6)
            .y_labels(6)
            .x_label_formatter(&|v| tick(*v, right))
            .y_label_formatter(&|v| tick(*v, reach))
            .x_desc("minutes after the first run")
            .y_desc(y_title)
            .draw()?;
        chart.draw_series([PathElement::new(
            [(0.0, 0.0), (right, 0.0)],
            INK.mix(0.6).stroke_width(1),
        )])?;
        for moment in moments {
            let colour = PALETTE[moment.series % PALETTE.len()];
            let place = (moment.minutes, moment.deviation_pct.min(reach));
            if moment.deviation_pct > reach {
                let style = colour.stroke_width(2);
                chart
                    .draw_series([EmptyElement::at(place)
                        + PathElement::new([(-5, 7), (0, 1), (5, 7)], style)])?;
            } else {
                marker(&mut chart, moment.series, place, colour)?;
            }
        }
        Ok(())
    })?;
    Ok(Drawing {
        keys: keys(what, series)?,
        panels: vec![drawn],
        width: WIDE,
        is_cut: farthest > reach,
    })
}

/// A row of a plot that shows the value of every repeat.
pub struct Strip {
    /// Name of the row.
    pub name: String,
    /// Index of the row's colour.
    pub colour: usize,
    /// For each repeat: its deviation in percent, and whether it is an outlier.
    pub values: Vec<(f64, bool)>,
    /// The first and the third quartile, as deviations in percent.
    pub quartiles: (f64, f64),
    /// Text at the right end of the row.
    pub remark: String,
}

/// Draws rows with one point for each repeat, placed by its deviation in percent. All rows share one axis around zero.
pub fn strips(
    what: &str,
    x_title: &str,
    colours: &[String],
    rows: &[Strip],
) -> Result<Drawing, RenderError> {
    const ROW: u32 = 22;
    let widest = rows
        .iter()
        .flat_map(|r| &r.values)
        .fold((0.0f64, 0.0f64), |(l, h), v| (l.min(v.0), h.max(v.0)));
    let (low, high) = (
        (widest.0 * 1.1).min(-MIN_DEVIATION_PCT),
        (widest.1.min(MAX_DEVIATION_PCT) * 1.1).max(MIN_DEVIATION_PCT),
    );
    let longest = |texts: &dyn Fn(&Strip) -> i32| rows.iter().map(texts).max().unwrap_or(0);
    let margin = longest(&|r| width(&r.name, TEXT)).min(WIDE as i32 / 2) + 16;
    let remarks = longest(&|r| width(&r.remark, TEXT)) + 20;
    let wide = if margin + remarks > NARROW as i32 * 3 / 5 {
        WIDE
    } else {
        NARROW
    };
    let count = rows.len() as f64;
    let drawn = render(what, (wide, rows.len() as u32 * ROW + 56), |root| {
        let mut chart = ChartBuilder::on(root)
            .margin_right(remarks)
            .margin_top(6)
            .set_label_area_size(LabelAreaPosition::Left, margin)
            .set_label_area_size(LabelAreaPosition::Bottom, 44)
            .build_cartesian_2d(low..high, 0.0..count)?;
        style_mesh(&mut chart.configure_mesh())
            .disable_y_mesh()
            .disable_y_axis()
            .y_labels(0)
            .x_labels(6)
            .x_label_formatter(&|v| signed(*v, high - low))
            .x_desc(x_title)
            .draw()?;
        chart.draw_series([PathElement::new([(0.0, 0.0), (0.0, count)], INK.mix(0.5))])?;
        for (i, row) in rows.iter().enumerate() {
            let y = count - i as f64 - 0.5;
            let colour = PALETTE[row.colour % PALETTE.len()];
            let (left, at_y) = chart.plotting_area().map_coordinate(&(low, y));
            let (right, _) = chart.plotting_area().map_coordinate(&(high, y));
            root.draw(&Text::new(
                row.name.clone(),
                (left - 8, at_y),
                at(text(TEXT), HPos::Right, VPos::Center),
            ))?;
            let end = right + remarks - 6;
            root.draw(&Text::new(
                row.remark.clone(),
                (end, at_y),
                at(text(TEXT), HPos::Right, VPos::Center),
            ))?;
            let (a, b) = (row.quartiles.0.min(high), row.quartiles.1.min(high));
            chart.draw_series([Rectangle::new(
                [(a, y - 0.32), (b, y + 0.32)],
                colour.mix(0.25).filled(),
            )])?;
            for (value, outlier) in &row.values {
                if *value > high {
                    arrow(&mut chart, (high, y), -7, colour.stroke_width(2))?;
                    continue;
                }
                if *outlier {
                    chart.draw_series([Circle::new((*value, y), 6, INK.stroke_width(2))])?;
                }
                chart.draw_series([Circle::new((*value, y), 4, colour.mix(0.8).filled())])?;
            }
        }
        Ok(())
    })?;
    Ok(Drawing {
        keys: keys(what, colours)?,
        panels: vec![drawn],
        width: wide,
        is_cut: widest.1 > high,
    })
}

/// Returns the number of panels in a row of a wide page, and the width and height of each panel.
fn grid(panels: &[Panel]) -> (u32, (u32, u32)) {
    let needs = |p: &Panel| {
        let widest = p.x.names.iter().map(|n| width(n, TEXT)).max().unwrap_or(0);
        (90 + p.x.names.len() as i32 * (widest + 10).clamp(26, 110))
            .max(width(&p.title, TEXT + 1) + 84)
    };
    let (panels, needs) = (panels.len(), panels.iter().map(needs).max().unwrap_or(0));
    let full = if panels > 4 { FULL } else { WIDE };
    let across = (full as i32 / needs.max(1)).clamp(1, 4) as usize;
    // Four panels form two rows of two.
    let across = if panels == 4 {
        across.min(2)
    } else {
        across.min(panels.max(1))
    };
    let wide = if across == 1 && needs < NARROW as i32 {
        NARROW
    } else {
        full
    };
    let height = match (across, panels) {
        (1, ..=2) => 300,
        (_, ..=4) => 250,
        _ => 210,
    };
    (across as u32, (wide / across as u32, height))
}

/// Draws the axes of a panel: categories along x, values from 0 along y.
fn frame<'a, 'b>(
    area: &PlotArea<'b>,
    title: &str,
    x: &Categories,
    y_title: &str,
    top: f64,
) -> Result<Chart<'a, 'b>, Box<dyn std::error::Error>>
where
    'b: 'a,
{
    let (wide, high) = area.dim_in_pixel();
    let axis = width(&tick(top, top), TEXT).max(22) + 38;
    let room = (wide as i32 - axis - 16) / x.names.len().max(1) as i32;
    // Names that do not fit side by side are rotated.
    let turned = x.names.iter().any(|n| width(n, TEXT) > room - 4);
    let longest = x.names.iter().map(|n| width(n, TEXT)).max().unwrap_or(0);
    let foot = if turned {
        (longest + 34).min(high as i32 / 2)
    } else {
        46
    };
    let mut chart = ChartBuilder::on(area)
        .margin_right(16)
        .margin_top(if title.is_empty() { 10 } else { 28 })
        .set_label_area_size(LabelAreaPosition::Left, axis)
        .set_label_area_size(LabelAreaPosition::Bottom, foot)
        .build_cartesian_2d(0.0..x.names.len().max(1) as f64, 0.0..top)?;
    style_mesh(&mut chart.configure_mesh())
        .disable_x_mesh()
        .x_labels(0)
        .y_labels(6)
        .y_label_formatter(&|v| tick(*v, top))
        .y_desc(y_title)
        .draw()?;
    let (origin_x, origin_y) = area.get_base_pixel();
    for (i, name) in x.names.iter().enumerate() {
        let (px, py) = chart.plotting_area().map_coordinate(&(i as f64 + 0.5, 0.0));
        let (px, py) = (px - origin_x, py - origin_y);
        let style = if turned {
            at(
                text(TEXT).transform(FontTransform::Rotate270),
                HPos::Right,
                VPos::Center,
            )
        } else {
            at(text(TEXT), HPos::Center, VPos::Top)
        };
        area.draw(&Text::new(name.clone(), (px, py + 7), style))?;
    }
    let (left, _) = chart.plotting_area().map_coordinate(&(0.0, 0.0));
    let middle = (left - origin_x + wide as i32 - 16) / 2;
    area.draw(&Text::new(
        x.title.clone(),
        (middle, high as i32 - 8),
        at(text(TEXT), HPos::Center, VPos::Bottom),
    ))?;
    if !title.is_empty() {
        area.draw(&Text::new(
            title.to_owned(),
            (left - origin_x, 6),
            at(text(TEXT + 1), HPos::Left, VPos::Top),
        ))?;
    }
    Ok(chart)
}

fn whisker(chart: &mut Chart<'_, '_>, x: f64, (_, low, high): Whisker, colour: RGBAColor) -> Drawn {
    // A single repeat has no interval.
    if low >= high {
        return Ok(());
    }
    let style = colour.stroke_width(1);
    let top = chart.y_range().end;
    let (low, end) = (low.max(chart.y_range().start), high.min(top));
    chart.draw_series([PathElement::new([(x, low), (x, end)], style)])?;
    // The ends are drawn a few pixels wide at any scale of the axis; a cut end is an arrow.
    let cap = |end: f64, aside: i32| {
        EmptyElement::at((x, end)) + PathElement::new([(-3, aside), (0, 0), (3, aside)], style)
    };
    chart.draw_series([cap(low, 0), cap(end, if high > top { 5 } else { 0 })])?;
    Ok(())
}

/// Draws the end of a horizontal interval: an arrow that begins `back` pixels behind its tip, or a straight line if `back` is 0.
pub fn arrow(chart: &mut Chart<'_, '_>, tip: (f64, f64), back: i32, style: ShapeStyle) -> Drawn {
    let line = PathElement::new([(back, -3), (0, 0), (back, 3)], style);
    chart.draw_series([EmptyElement::at(tip) + line])?;
    Ok(())
}

/// Draws the mark of a series: series differ in shape as well as in colour.
pub fn marker(
    chart: &mut Chart<'_, '_>,
    series: usize,
    place: (f64, f64),
    colour: RGBColor,
) -> Drawn {
    match series % 3 {
        0 => chart
            .draw_series([Circle::new(place, 4, colour.filled())])
            .map(|_| ())?,
        1 => chart
            .draw_series([TriangleMarker::new(place, 5, colour.filled())])
            .map(|_| ())?,
        _ => {
            let square =
                EmptyElement::at(place) + Rectangle::new([(-4, -4), (4, 4)], colour.filled());
            chart.draw_series([square]).map(|_| ())?;
        }
    }
    Ok(())
}

/// Returns an axis end slightly above the largest value.
pub fn ceiling(values: impl Iterator<Item = f64>) -> f64 {
    let largest = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
    if largest > 0.0 { largest * 1.08 } else { 1.0 }
}

/// Returns the label of a tick on an axis that ends at `top`.
pub fn tick(value: f64, top: f64) -> String {
    // There are about six ticks.
    let decimals = (-(top.abs() / 6.0).log10()).ceil().clamp(0.0, 9.0) as usize;
    format!("{value:.decimals$}")
}

/// Returns the label of a tick on an axis around zero.
fn signed(value: f64, span: f64) -> String {
    let text = tick(value, span);
    if text.trim_matches(['-', '0', '.']).is_empty() {
        "0".to_owned()
    } else if value > 0.0 {
        format!("+{text}")
    } else {
        text.replace('-', "\u{2212}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, name_box, wrapped};

    #[test]
    fn a_long_name_of_the_legend_is_broken_between_words() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghij kl", 4), ["abcd", "efgh", "ij", "kl"]);
        assert_eq!(wrapped("short", 8), ["short"]);
    }

    #[test]
    fn names_beside_marks_overlap_neither_each_other_nor_marks() {
        let within = Extent {
            left: 0,
            right: 400,
            top: 0,
            bottom: 300,
        };
        let marks = [(200, 150), (206, 152), (203, 158), (395, 150)];
        let mut taken: Vec<Extent> = marks.map(Extent::of_mark).into();
        for mark in marks {
            let name = name_box(mark, 80, &taken, within);
            assert_eq!(name.outside(within), 0, "{name:?}");
            assert!(taken.iter().all(|t| t.shared(name) == 0), "{name:?}");
            taken.push(name);
        }
    }
}
