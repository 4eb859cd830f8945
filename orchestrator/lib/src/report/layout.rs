//! How points are laid out in plots: one figure for each application and class, one factor along the axis, the others as panels or series.

use super::{
    data::Data,
    format::Style,
    plot::{Categories, PALETTE, Whisker},
    quantity,
};
use crate::stats::Summary;
use indexmap::{IndexMap, IndexSet};

/// Panels that a figure may have; the tables show everything.
pub(super) const MOST_PANELS: usize = 12;

/// Figures that a section may have.
pub(super) const MOST_FIGURES: usize = 12;

/// Factors that make figures of their own: their scales have nothing in common.
const FIGURES: [&str; 3] = ["site", "app", "class"];

/// The points of one figure.
pub(super) struct Figure<'a> {
    /// What the points have in common: `kernel-solver, S`.
    pub title: String,
    /// A name for links.
    pub id: String,
    pub points: Vec<usize>,
    /// Factor along the axis.
    x: Option<&'a str>,
    pub categories: Categories,
    levels: Vec<String>,
    /// Factors that are left.
    rest: Vec<&'a str>,
}

/// The name of a panel, and for each series the point in each category.
pub(super) type SeriesPanel = (String, Vec<Vec<Option<usize>>>);

/// Groups the points that have something to draw into figures.
pub(super) fn figures<'a>(data: &'a Data, drawable: impl Fn(usize) -> bool) -> Vec<Figure<'a>> {
    let mut groups: IndexMap<Vec<&str>, Vec<usize>> = IndexMap::new();
    for (i, p) in data.points.iter().enumerate().filter(|(i, _)| drawable(*i)) {
        groups.entry(FIGURES.iter().map(|f| p.factor(f)).collect()).or_default().push(i);
    }
    groups.into_iter().map(|(key, points)| figure(data, &key, points)).collect()
}

fn figure<'a>(data: &'a Data, key: &[&str], points: Vec<usize>) -> Figure<'a> {
    let levels = |f: &str| -> IndexSet<&str> { points.iter().map(|p| data.points[*p].factor(f)).collect() };
    let varying: Vec<&str> = data.varying().into_iter().filter(|f| !FIGURES.contains(f) && levels(f).len() > 1).collect();
    let numeric = |f: &&&str| levels(f).iter().filter(|l| l.parse::<f64>().is_err()).count() <= 1;
    let x = varying
        .iter()
        .find(|f| **f == "mapping")
        .or_else(|| varying.iter().filter(numeric).max_by_key(|f| levels(f).len()))
        .or_else(|| varying.iter().max_by_key(|f| levels(f).len()))
        .copied();
    let axis = x.unwrap_or("mapping");
    let mut order: Vec<(f64, u32, String)> = Vec::new();
    for p in points.iter().map(|p| &data.points[*p]) {
        let level = p.factor(axis);
        if order.iter().all(|(_, _, l)| l != level) {
            let rank = if axis == "mapping" { f64::from(p.processes) } else { rank(level) };
            order.push((rank, p.nodes, level.to_owned()));
        }
    }
    // Stable: levels without a number keep the order of the campaign file.
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let one_node = axis == "mapping" && points.iter().all(|p| data.points[*p].nodes == 1);
    let names = order.iter().map(|(rank, _, level)| if one_node { format!("{rank}") } else { level.clone() }).collect();
    let title = match axis {
        "mapping" if one_node => "processes, on one node".to_owned(),
        "mapping" => "mapping (nodes × processes on each)".to_owned(),
        other => quantity::factor_heading(other),
    };
    let shown = if data.levels("site").len() > 1 { key } else { &key[1..] };
    Figure {
        title: shown.join(", "),
        id: super::slug(&shown.join("-")),
        categories: Categories { title, names },
        levels: order.into_iter().map(|o| o.2).collect(),
        rest: varying.into_iter().filter(|f| Some(*f) != x).collect(),
        x,
        points,
    }
}

/// Numbers and sizes by their size, everything else first.
fn rank(level: &str) -> f64 {
    level.parse::<f64>().ok().or_else(|| level.parse::<crate::units::ByteSize>().ok().map(|b| b.0 as f64)).unwrap_or(f64::NEG_INFINITY)
}

impl<'a> Figure<'a> {
    /// One panel for each combination of the factors that are left: its name, and the point in each category.
    pub fn panels(&self, data: &Data) -> Vec<(String, Vec<Option<usize>>)> {
        self.split(data, &self.rest).into_iter().collect()
    }

    /// As many factors as the palette has room for become series, the others panels: names of series; for each panel its name, and for
    /// each series the point in each category.
    pub fn series(&self, data: &Data) -> (Vec<String>, Vec<SeriesPanel>) {
        let mut outer = 0;
        let combinations = |from: usize| self.split(data, &self.rest[from..]).len();
        while outer < self.rest.len() && combinations(outer) > PALETTE.len() {
            outer += 1;
        }
        let series = self.split(data, &self.rest[outer..]);
        let names: Vec<String> = series.keys().cloned().collect();
        let mut panels: IndexMap<String, Vec<Vec<Option<usize>>>> = IndexMap::new();
        for &p in &self.points {
            let panel =
                panels.entry(self.name(data, p, &self.rest[..outer])).or_insert_with(|| vec![vec![None; self.levels.len()]; names.len()]);
            let at = names.iter().position(|n| *n == self.name(data, p, &self.rest[outer..]));
            if let (Some(at), Some(category)) = (at, self.category(data, p)) {
                panel[at][category] = Some(p);
            }
        }
        (names, panels.into_iter().collect())
    }

    /// The factors that tell the points of this figure apart.
    pub fn factors(&self) -> Vec<&'a str> {
        self.rest.iter().copied().chain(self.x).collect()
    }

    /// Factors other than that of the axis.
    pub fn rest(&self) -> &[&'a str] {
        &self.rest
    }

    /// Where a point stands along the axis.
    pub fn category(&self, data: &Data, point: usize) -> Option<usize> {
        let level = data.points[point].factor(self.x.unwrap_or("mapping"));
        self.levels.iter().position(|l| l == level)
    }

    fn name(&self, data: &Data, point: usize, factors: &[&str]) -> String {
        if factors.is_empty() { String::new() } else { data.label(point, factors) }
    }

    fn split(&self, data: &Data, factors: &[&str]) -> IndexMap<String, Vec<Option<usize>>> {
        let mut split: IndexMap<String, Vec<Option<usize>>> = IndexMap::new();
        for &p in &self.points {
            let row = split.entry(self.name(data, p, factors)).or_insert_with(|| vec![None; self.levels.len()]);
            if let Some(category) = self.category(data, p) {
                row[category] = Some(p);
            }
        }
        split
    }
}

/// A scale that several numbers of a plot share: what to divide by, and the unit to write.
pub(super) fn scale(values: impl Iterator<Item = f64>, unit: &str) -> (f64, String) {
    let style = Style::for_values(values.collect(), Some(unit));
    (style.divisor(), style.unit.unwrap_or_default())
}

/// A summary as it is drawn; one value has an interval without width.
pub(super) fn whisker(s: &Summary, divisor: f64) -> Whisker {
    let (low, high) = s.interval.map_or((s.mean, s.mean), |i| (i.low, i.high));
    (s.mean / divisor, low / divisor, high / divisor)
}
