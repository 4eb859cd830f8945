//! Key findings: the factors of the campaign, the outcomes of the runs, and the range of checkpoint sizes and times of each application.

use super::{abstract_of, answers};
use crate::results::{data::Data, quantity};
use cvc_core::record::names;
use cvc_index::RunOutcome;
use cvc_show::{Block, Cell, Column, Section, Table};

/// Quantities of the table, each with the names for its minimum and maximum.
const EXTREMES: [(&str, [&str; 2]); 2] = [
    (
        names::CKPT_STORED_BYTES,
        ["smallest stored", "largest stored"],
    ),
    (
        names::CKPT_LATENCY_S,
        ["shortest checkpoint", "longest checkpoint"],
    ),
];

pub(super) fn section(data: &Data) -> Section {
    let mut blocks: Vec<Block> = abstract_of::of(data)
        .map(|text| Block::Text { text })
        .into_iter()
        .collect();
    let answers = answers::of(data);
    blocks.extend((!answers.is_empty()).then_some(Block::Pairs { pairs: answers }));
    blocks.push(Block::Pairs {
        pairs: outcomes(data),
    });
    let extremes = extremes(data);
    if !extremes.rows.is_empty() {
        blocks.push(Block::Table(extremes));
    }
    Section {
        id: "found",
        title: "Key findings".to_owned(),
        blocks,
    }
}

fn outcomes(data: &Data) -> Vec<(String, String)> {
    let counts = RunOutcome::ALL.map(|state| (format!("runs {state}"), data.count(state)));
    let shown = counts
        .into_iter()
        .enumerate()
        .filter(|(i, (_, n))| *i < 2 || *n > 0);
    let mut pairs: Vec<(String, String)> =
        shown.map(|(_, (name, n))| (name, n.to_string())).collect();
    if !data.excluded.is_empty() {
        pairs.push((
            "points excluded".to_owned(),
            data.excluded.len().to_string(),
        ));
    }
    pairs
}

/// Returns the key findings for a terminal: checkpoint sizes and times, then the answers. Empty if no run has succeeded.
pub(super) fn lines(data: &Data) -> Vec<(String, String)> {
    if !data.runs.iter().any(|run| run.counts()) {
        return Vec::new();
    }
    let mut lines: Vec<(String, String)> = abstract_of::extents(data)
        .into_iter()
        .map(|(what, found)| (format!("a {what}"), found))
        .collect();
    lines.extend(answers::of(data));
    lines
}

fn extremes(data: &Data) -> Table {
    // A checkpoint that an application writes itself cannot be compared with images of its processes.
    let kinds: &[&str] = if data.levels("checkpointer").len() > 1 {
        &["app", "class", "checkpointer"]
    } else {
        &["app", "class"]
    };
    let mut columns: Vec<Column> = kinds
        .iter()
        .map(|f| Column::plain(f, &quantity::factor_heading(f)))
        .collect();
    let units = EXTREMES.map(|(q, names)| (q, names, data.quantities.get(q)));
    for (q, names, of) in &units {
        let Some(of) = of else { continue };
        for (name, end) in names.iter().zip(["min", "max"]) {
            columns.push(Column::of(&format!("{q}_{end}"), name, &of.unit));
            columns.push(Column::plain(&format!("{q}_{end}_at"), "at"));
        }
    }
    let caption = "Minimum and maximum mean of the repeats over the points of each application and class, with the point.";
    let mut table = Table::new("found_extremes", "Checkpoints", caption, columns);
    let mut groups: indexmap::IndexMap<Vec<&str>, Vec<usize>> = indexmap::IndexMap::new();
    for (i, p) in data.points.iter().enumerate() {
        if data.unrestarted(i).is_some() {
            continue;
        }
        groups
            .entry(kinds.iter().map(|f| p.factor(f)).collect())
            .or_default()
            .push(i);
    }
    for (key, points) in groups {
        let differ = |f: &&str| {
            points
                .iter()
                .any(|p| data.points[*p].factor(f) != data.points[points[0]].factor(f))
        };
        let factors: Vec<&str> = data.varying().into_iter().filter(differ).collect();
        let mut row: Vec<Cell> = key.into_iter().map(Cell::text).collect();
        let mut any = false;
        for (q, _, _) in units.iter().filter(|(.., of)| of.is_some()) {
            let mut with: Vec<usize> = points
                .iter()
                .copied()
                .filter(|p| data.points[*p].summaries.contains_key(*q))
                .collect();
            let mean = |p: usize| {
                data.points[p]
                    .summaries
                    .get(*q)
                    .map_or(f64::NAN, |s| s.mean)
            };
            // The sort is stable, so that the first of equal points in the order of the plan wins.
            with.sort_by(|a, b| mean(*a).total_cmp(&mean(*b)));
            let least = with.first().copied();
            let greatest = with
                .iter()
                .copied()
                .find(|p| with.last().is_some_and(|last| mean(*p) == mean(*last)));
            any |= least.is_some();
            for p in [least, greatest] {
                let at = p
                    .map(|p| place(data, p, &factors, &with, &mean))
                    .unwrap_or_default();
                row.extend([
                    Cell::measured(p.and_then(|p| data.points[p].summaries.get(*q))),
                    Cell::text(at),
                ]);
            }
        }
        if any {
            table.rows.push(row);
        }
    }
    table
}

/// Describes a point, and counts the other points with the same mean.
fn place(
    data: &Data,
    point: usize,
    factors: &[&str],
    all: &[usize],
    mean: &dyn Fn(usize) -> f64,
) -> String {
    let same = all.iter().filter(|p| mean(**p) == mean(point)).count();
    let parts: Vec<String> = factors
        .iter()
        .map(|f| quantity::level(f, data.points[point].factor(f)))
        .collect();
    match (parts.is_empty(), same) {
        (true, _) => "the only point".to_owned(),
        (false, n) if n == all.len() && n > 1 => format!("all {n} points"),
        (false, 1) => parts.join(", "),
        (false, n) => format!("{} and {} more", parts.join(", "), n - 1),
    }
}
