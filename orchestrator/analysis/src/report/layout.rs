//! Layout of points in plots. Each application has one sheet (a drawing of several panels), with a panel for each of its classes. One factor is along
//! the axis; the others become panels or series. Sites become series first, so that one plot compares them.

use crate::results::{data::Data, quantity, rows::PointRow};
use cvc_core::point::FactorId;
use cvc_index::error::AnalysisError;
use cvc_model::stats::Summary;
use cvc_show::{
    Block, Plot,
    format::Style,
    plot::{Categories, PALETTE, Whisker},
};
use indexmap::{IndexMap, IndexSet};
use std::collections::{BTreeSet, HashMap};

/// Maximum number of panels on a sheet; the tables have all values.
const MAX_PANELS: usize = 24;

/// Maximum number of figures in a section.
pub(super) const MAX_FIGURES: usize = 24;

/// Maximum size of a plot, bytes: a larger plot has too many marks to be legible.
const MAX_DRAWING_BYTES: usize = 800_000;

/// Factors with a separate figure for each level, because the scales of the levels are unrelated.
const FIGURES: [&str; 2] = ["app", "class"];

/// The points of one figure.
pub(super) struct ReportFigure<'a> {
    /// The levels common to the points: `kernel-solver, S`.
    pub title: String,
    /// Anchor of the figure in links.
    pub id: String,
    pub points: Vec<usize>,
    /// Identifier of the sheet: the application.
    sheet: String,
    /// Levels shared by all points of this figure that differ in other figures: class, checkpointer, mapping.
    common: Vec<String>,
    /// Factor along the axis.
    x: Option<&'a str>,
    categories: Categories,
    /// Whether categories have an order, so that lines may connect them.
    ordered: bool,
    levels: Vec<String>,
    /// The factors that are not along the axis.
    rest: Vec<&'a str>,
}

/// The figures of one application, drawn as panels of one drawing.
pub(super) struct Sheet<'a> {
    pub title: String,
    pub id: String,
    figures: Vec<ReportFigure<'a>>,
}

/// One panel of a sheet.
pub(super) struct ReportPart<T> {
    pub title: String,
    pub categories: Categories,
    /// Whether categories have an order, so that lines may connect them.
    pub ordered: bool,
    /// Index of the scale of the panel's values; panels with equal indices are drawn to the same scale.
    pub scale: usize,
    /// Points by category, or by series and category.
    pub points: T,
}

/// The point of each category, if there is one.
pub(super) type PointsByCategory = Vec<Option<usize>>;

/// The name of a panel, and the points of each of its series, by category.
type SeriesPanel = (String, Vec<PointsByCategory>);

/// Groups the drawable points into figures.
///
/// A point with restarts is omitted if the otherwise equal point without restarts is drawn, because both are equal until the checkpoint.
pub(super) fn figures<'a>(
    data: &'a Data,
    drawable: impl Fn(usize) -> bool,
) -> Vec<ReportFigure<'a>> {
    let twice = twice(data, &drawable);
    let drawable = |p: usize| drawable(p) && !twice.contains(&p);
    let mut groups: IndexMap<Vec<&str>, Vec<usize>> = IndexMap::new();
    let key = |p: &'a PointRow| -> Vec<&'a str> { FIGURES.iter().map(|f| p.factor(f)).collect() };
    for (i, p) in data.points.iter().enumerate().filter(|(i, _)| drawable(*i)) {
        groups.entry(key(p)).or_default().push(i);
    }
    let mut without: HashMap<Vec<&str>, Vec<usize>> = HashMap::new();
    for (i, p) in data
        .points
        .iter()
        .enumerate()
        .filter(|(i, p)| p.counted(&data.runs) == 0 && !drawable(*i))
    {
        without.entry(key(p)).or_default().push(i);
    }
    let figure = |(key, points): (Vec<&'a str>, Vec<usize>)| {
        // Consider failed points for the axis too, so that all applications have the same axis.
        let like = |p: &&usize| {
            points.iter().any(|o| {
                data.points[*o].level(FactorId::Checkpointer)
                    == data.points[**p].level(FactorId::Checkpointer)
            })
        };
        let intended: BTreeSet<usize> = points
            .iter()
            .chain(without.get(&key).into_iter().flatten().filter(like))
            .copied()
            .collect();
        figure(data, &key, points, &intended)
    };
    groups.into_iter().map(figure).collect()
}

/// Returns the drawable points that are otherwise equal to another drawable point, but are restarted after the checkpoint.
fn twice(data: &Data, drawable: &impl Fn(usize) -> bool) -> BTreeSet<usize> {
    (0..data.points.len())
        .filter(|p| drawable(*p) && data.unrestarted(*p).is_some_and(drawable))
        .collect()
}

/// Combines the figures of an application into one sheet, if the palette has a colour for each series.
pub(super) fn sheets<'a>(data: &'a Data, drawable: impl Fn(usize) -> bool) -> Vec<Sheet<'a>> {
    let mut sheets: Vec<(Sheet<'a>, IndexSet<String>)> = Vec::new();
    for figure in figures(data, drawable) {
        let names: IndexSet<String> = figure.series(data).0.into_iter().collect();
        let fits = |(sheet, all): &&mut (Sheet<'a>, IndexSet<String>)| {
            sheet.title == figure.sheet
                && all.union(&names).filter(|n| !n.is_empty()).count() <= PALETTE.len()
        };
        match sheets.last_mut().filter(|last| fits(last)) {
            Some((sheet, all)) => {
                sheet.figures.push(figure);
                all.extend(names);
            }
            None => {
                let id = format!("{}-{}", sheets.len(), cvc_show::slug(&figure.sheet));
                sheets.push((
                    Sheet {
                        title: figure.sheet.clone(),
                        id,
                        figures: vec![figure],
                    },
                    names,
                ));
            }
        }
    }
    let alone = |(mut sheet, _): (Sheet<'a>, IndexSet<String>)| {
        // Move levels common to all panels to the title.
        if let [figure] = &mut sheet.figures[..] {
            let common = figure.common.join(", ");
            figure.common.clear();
            sheet.title = [sheet.title, common]
                .into_iter()
                .filter(|t| !t.is_empty())
                .collect::<Vec<_>>()
                .join(", ");
        }
        sheet
    };
    sheets.into_iter().map(alone).collect()
}

impl Sheet<'_> {
    /// Returns all points on the sheet.
    pub fn points(&self) -> impl Iterator<Item = usize> {
        self.figures.iter().flat_map(|f| f.points.iter().copied())
    }

    /// Returns one panel for each combination of the factors that are not along the axis.
    pub fn panels(&self, data: &Data, caption: &mut String) -> Vec<ReportPart<PointsByCategory>> {
        let parts = self.figures.iter().enumerate().flat_map(|(scale, figure)| {
            figure
                .split(data, &figure.rest)
                .into_iter()
                .map(move |(name, points)| figure.part(name, scale, points))
                .collect::<Vec<_>>()
        });
        cut(parts.collect(), caption)
    }

    /// Returns the names of all series, and panels with a row for each series.
    pub fn series(
        &self,
        data: &Data,
        caption: &mut String,
    ) -> (Vec<String>, Vec<ReportPart<Vec<PointsByCategory>>>) {
        let all: IndexSet<String> = self.figures.iter().flat_map(|f| f.series(data).0).collect();
        let mut parts = Vec::new();
        for (scale, figure) in self.figures.iter().enumerate() {
            let (names, panels) = figure.series(data);
            for (name, rows) in panels {
                let mut points = vec![Vec::new(); all.len()];
                for (series, row) in names.iter().zip(rows) {
                    if let Some(at) = all.get_index_of(series) {
                        points[at] = row;
                    }
                }
                parts.push(figure.part(name, scale, points));
            }
        }
        (all.into_iter().collect(), cut(parts, caption))
    }
}

/// Truncates the panels of a sheet to the maximum, and states the total number in the caption.
pub(super) fn cut<T>(mut parts: Vec<T>, caption: &mut String) -> Vec<T> {
    if parts.len() > MAX_PANELS {
        caption.push_str(&format!(
            " The first {MAX_PANELS} of {} panels; the tables have all points.",
            parts.len()
        ));
        parts.truncate(MAX_PANELS);
    }
    parts
}

/// A plot that has not been drawn yet.
pub(super) struct PlannedPlot<'a> {
    title: String,
    draw: Box<dyn FnOnce(String) -> Result<Plot, AnalysisError> + 'a>,
}

impl<'a> PlannedPlot<'a> {
    /// Plans a plot; `draw` receives the plot's title.
    pub fn new(
        title: String,
        draw: impl FnOnce(String) -> Result<Plot, AnalysisError> + 'a,
    ) -> Self {
        Self {
            title,
            draw: Box::new(draw),
        }
    }
}

/// Adds plots to a section, up to the maximum, and lists the omitted ones.
pub(super) fn add(
    blocks: &mut Vec<Block>,
    plots: Vec<PlannedPlot<'_>>,
) -> Result<(), AnalysisError> {
    let mut left_out = Vec::new();
    for plot in plots {
        if blocks.len() >= MAX_FIGURES {
            left_out.push(plot.title);
            continue;
        }
        let drawn = (plot.draw)(plot.title)?;
        if drawn.panels.iter().map(String::len).sum::<usize>() > MAX_DRAWING_BYTES {
            left_out.push(drawn.title);
        } else {
            blocks.push(Block::Plot(drawn));
        }
    }
    if !left_out.is_empty() {
        let text = format!(
            "Omitted to keep the page readable; their numbers are in the tables: {}.",
            left_out.join("; ")
        );
        blocks.push(Block::Text { text });
    }
    Ok(())
}

/// Lays out the drawn `points`. The axis is chosen from `intended`, which also contains failed points.
fn figure<'a>(
    data: &'a Data,
    key: &[&str],
    points: Vec<usize>,
    intended: &BTreeSet<usize>,
) -> ReportFigure<'a> {
    let levels =
        |f: &str| -> IndexSet<&str> { points.iter().map(|p| data.points[*p].factor(f)).collect() };
    let intended_levels = |f: &str| -> IndexSet<&str> {
        intended.iter().map(|p| data.points[*p].factor(f)).collect()
    };
    let (sites, mut varying): (Vec<&str>, Vec<&str>) = data
        .varying()
        .into_iter()
        .filter(|f| !FIGURES.contains(f) && intended_levels(f).len() > 1)
        .partition(|f| *f == "site");
    // sites come last, so that they become series; any other factor is preferred for the axis
    let alone = varying.is_empty();
    varying.extend(sites);
    let along = |f: &&&str| alone || **f != "site";
    let numeric = |f: &&&str| {
        intended_levels(f)
            .iter()
            .filter(|l| l.parse::<f64>().is_err())
            .count()
            <= 1
    };
    // Count levels over the whole campaign, so that an application with failed points has the same axis as the others.
    let everywhere = |f: &&&str| data.levels(f).len();
    let x = varying
        .iter()
        .filter(along)
        .find(|f| **f == "mapping")
        .or_else(|| {
            let numeric = varying.iter().filter(along).filter(numeric);
            numeric.max_by_key(everywhere)
        })
        .or_else(|| varying.iter().filter(along).max_by_key(everywhere))
        .copied();
    let axis = x.unwrap_or("mapping");
    let mut order: Vec<(f64, u32, String)> = Vec::new();
    for p in intended.iter().map(|p| &data.points[*p]) {
        let level = p.factor(axis);
        if order.iter().all(|(_, _, l)| l != level) {
            let rank = if axis == "mapping" {
                f64::from(p.processes)
            } else {
                rank(level)
            };
            order.push((rank, p.nodes, level.to_owned()));
        }
    }
    // The sort is stable, so that levels without a number keep the order of the campaign file.
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let one_node = axis == "mapping" && intended.iter().all(|p| data.points[*p].nodes == 1);
    let names = order
        .iter()
        .map(|(rank, _, level)| {
            if one_node {
                format!("{rank}")
            } else {
                level.clone()
            }
        })
        .collect();
    let title = match axis {
        "mapping" if one_node => "processes, on one node".to_owned(),
        "mapping" => "mapping (nodes × processes on each)".to_owned(),
        other => quantity::factor_heading(other),
    };
    let fixed = ["site", "checkpointer", "mapping"]
        .into_iter()
        .filter(|f| x != Some(*f) && data.levels(f).len() > 1 && levels(f).len() == 1);
    let fixed = fixed.map(|f| quantity::level(f, data.points[points[0]].factor(f)));
    let common = Some(format!("class {}", key[1]))
        .filter(|_| !key[1].is_empty())
        .into_iter()
        .chain(fixed)
        .collect();
    let numbers = order.iter().filter(|(rank, ..)| rank.is_finite()).count();
    ReportFigure {
        ordered: order.len() > 1
            && (axis == "mapping" || numbers + 1 >= order.len() && numbers > 1),
        sheet: key[0].to_owned(),
        common,
        title: key.join(", "),
        id: cvc_show::slug(&key.join("-")),
        categories: Categories { title, names },
        levels: order.into_iter().map(|o| o.2).collect(),
        rest: varying
            .into_iter()
            .filter(|f| Some(*f) != x && levels(f).len() > 1)
            .collect(),
        x,
        points,
    }
}

/// Returns the sort key of a level: numbers and sizes by magnitude; all other levels come first.
fn rank(level: &str) -> f64 {
    level
        .parse::<f64>()
        .ok()
        .or_else(|| {
            level
                .parse::<cvc_core::units::ByteSize>()
                .ok()
                .map(|b| b.0 as f64)
        })
        .unwrap_or(f64::NEG_INFINITY)
}

impl<'a> ReportFigure<'a> {
    fn part<T>(&self, name: String, scale: usize, points: T) -> ReportPart<T> {
        let title = self
            .common
            .iter()
            .cloned()
            .chain([name])
            .filter(|t| !t.is_empty())
            .collect::<Vec<_>>()
            .join(", ");
        ReportPart {
            title,
            categories: self.categories.clone(),
            ordered: self.ordered,
            scale,
            points,
        }
    }

    /// Uses as many factors for series as the palette has colours, and the remaining factors for panels. Returns the names of the series, and the
    /// panels.
    fn series(&self, data: &Data) -> (Vec<String>, Vec<SeriesPanel>) {
        let mut outer = 0;
        let combinations = |from: usize| self.split(data, &self.rest[from..]).len();
        while outer < self.rest.len() && combinations(outer) > PALETTE.len() {
            outer += 1;
        }
        let series = self.split(data, &self.rest[outer..]);
        let names: Vec<String> = series.keys().cloned().collect();
        let mut panels: IndexMap<String, Vec<Vec<Option<usize>>>> = IndexMap::new();
        for &p in &self.points {
            let panel = panels
                .entry(self.name(data, p, &self.rest[..outer]))
                .or_insert_with(|| vec![vec![None; self.levels.len()]; names.len()]);
            let at = names
                .iter()
                .position(|n| *n == self.name(data, p, &self.rest[outer..]));
            if let (Some(at), Some(category)) = (at, self.category(data, p)) {
                panel[at][category] = Some(p);
            }
        }
        (names, panels.into_iter().collect())
    }

    /// Returns the factors that distinguish the points of this figure.
    pub fn factors(&self) -> Vec<&'a str> {
        self.rest.iter().copied().chain(self.x).collect()
    }

    /// Returns the factors that are not along the axis.
    pub fn rest(&self) -> &[&'a str] {
        &self.rest
    }

    /// Returns the position of a point along the axis.
    pub fn category(&self, data: &Data, point: usize) -> Option<usize> {
        let level = data.points[point].factor(self.x.unwrap_or("mapping"));
        self.levels.iter().position(|l| l == level)
    }

    fn name(&self, data: &Data, point: usize, factors: &[&str]) -> String {
        if factors.is_empty() {
            String::new()
        } else {
            data.label(point, factors)
        }
    }

    fn split(&self, data: &Data, factors: &[&str]) -> IndexMap<String, Vec<Option<usize>>> {
        let mut split: IndexMap<String, Vec<Option<usize>>> = IndexMap::new();
        for &p in &self.points {
            let row = split
                .entry(self.name(data, p, factors))
                .or_insert_with(|| vec![None; self.levels.len()]);
            if let Some(category) = self.category(data, p) {
                row[category] = Some(p);
            }
        }
        split
    }
}

/// Returns the common scale for the numbers of a plot: a divisor, and the unit to show.
pub(super) fn scale(values: impl Iterator<Item = f64>, unit: &str) -> (f64, String) {
    let style = Style::for_values(values.collect(), Some(unit));
    (style.divisor(), style.unit.unwrap_or_default())
}

/// Returns mean, lower and upper end of a summary for drawing; a single value has an interval of width 0.
pub(super) fn whisker(s: &Summary, divisor: f64) -> Whisker {
    let (low, high) = s.interval.map_or((s.mean, s.mean), |i| (i.low, i.high));
    (s.mean / divisor, low / divisor, high / divisor)
}
