//! Versions of the software that produced the results.

use crate::results::{data::Data, quantity};
use cvc_show::{Block, Cell, Column, Section, Table};

/// Maximum number of values for which a fact is listed; a fact with more values describes single runs (a path, a port).
const MAX_VALUES: usize = 12;

pub(super) fn section(data: &Data) -> Section {
    let mut same = Table::new(
        "versions",
        "The same in all runs",
        "Recorded by each run when it was made.",
        vec![
            Column::plain("fact", "fact"),
            Column::plain("value", "value"),
        ],
    );
    let mut differing = Table::new(
        "versions_by_group",
        "Different between runs",
        "If a factor determines the value, its levels are named; otherwise the runs are counted.",
        vec![
            Column::plain("fact", "fact"),
            Column::plain("runs_with", "runs with"),
            Column::plain("value", "value"),
            Column::plain("runs", "runs"),
        ],
    );
    let with_facts = data
        .facts
        .values()
        .flat_map(|v| v.values().flatten())
        .collect::<std::collections::HashSet<_>>()
        .len();
    // omit facts of single nodes, which are too many for a table; facts.json of each run has them
    for (fact, values) in data.facts.iter().filter(|(fact, _)| *fact != "nodes") {
        let runs: usize = values.values().map(Vec::len).sum();
        if values.len() == 1 && runs == with_facts {
            same.rows.extend(
                values
                    .keys()
                    .map(|value| vec![Cell::text(fact), Cell::text(value)]),
            );
        } else if values.len() > MAX_VALUES {
            let text = format!(
                "{} values, about one for each run: see facts.json of the runs",
                values.len()
            );
            differing.rows.push(vec![
                Cell::text(fact),
                Cell::Empty,
                Cell::text(text),
                Cell::count(runs),
            ]);
        } else {
            let decides = deciding(data, values.values());
            for (value, runs) in values {
                let group = decides.map(|f| levels(data, f, runs)).unwrap_or_default();
                differing.rows.push(vec![
                    Cell::text(fact),
                    Cell::text(group),
                    Cell::text(value),
                    Cell::count(runs.len()),
                ]);
            }
        }
    }
    let blocks = [same, differing]
        .into_iter()
        .filter(|t| !t.rows.is_empty())
        .map(Block::Table)
        .collect();
    Section {
        id: "versions",
        title: "Versions".to_owned(),
        blocks,
    }
}

/// Returns the first factor whose level determines a fact's value in every run; `None` if no factor does. `values`: the runs with each value of the
/// fact.
fn deciding<'a>(data: &'a Data, values: impl Iterator<Item = &'a Vec<usize>>) -> Option<&'a str> {
    let groups: Vec<&Vec<usize>> = values.collect();
    let preferred = |f: &&str| {
        ["mpi", "app", "site", "checkpointer"]
            .iter()
            .position(|p| p == f)
            .unwrap_or(usize::MAX)
    };
    let mut factors = data.varying();
    factors.sort_by_key(preferred);
    factors.into_iter().find(|f| {
        let mut owner = std::collections::HashMap::new();
        groups.iter().enumerate().all(|(group, runs)| {
            runs.iter().all(|r| {
                *owner
                    .entry(data.points[data.runs[*r].point].factor(f))
                    .or_insert(group)
                    == group
            })
        })
    })
}

fn levels(data: &Data, factor: &str, runs: &[usize]) -> String {
    let mut levels: Vec<&str> = runs
        .iter()
        .map(|r| data.points[data.runs[*r].point].factor(factor))
        .collect();
    levels.sort_unstable();
    levels.dedup();
    format!("{} {}", quantity::factor_heading(factor), levels.join(", "))
}
