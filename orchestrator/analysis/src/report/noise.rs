//! Runs during which other programs were active on their nodes. Such runs are flagged, never dropped.

use super::summary;
use crate::results::{data::Data, quantity, rows::PointRow};
use cvc_core::record::names;
use cvc_core::units::counted;
use cvc_show::{Cell, Column, Table};
use std::collections::{HashMap, HashSet};

/// Minimum share of processor time taken by the hypervisor that is flagged.
const STEAL: f64 = 0.01;
/// Minimum share of processor time of other programs that is flagged.
const OTHER_CPU: f64 = 0.05;
/// Minimum share of time spent waiting for a processor that is flagged, if each process can have its own processor.
const CPU_PRESSURE: f64 = 0.1;
/// Minimum share of time spent waiting for memory that is flagged.
const MEMORY_PRESSURE: f64 = 0.01;
/// Minimum number of swapped bytes that is flagged.
const SWAPPED_BYTES: f64 = (1 << 20) as f64;
/// A run is flagged if, before its start, the number of runnable tasks was at least this share of the number of processors. Used only if the
/// processor time of other programs is unknown.
const RUNNABLE_PER_PROCESSOR: f64 = 0.1;
/// A run is flagged only if there were at least this many runnable tasks, because a single task may belong to the kernel.
const MIN_RUNNABLE: f64 = 2.0;

/// Columns of the table: quantity, heading, and factor by which the stored value is multiplied.
const COLUMNS: [(&str, &str, f64); 7] = [
    (names::STEAL_SHARE, "%", 100.0),
    (names::OTHER_CPU_SHARE, "%", 100.0),
    (names::CPU_PRESSURE_SHARE, "%", 100.0),
    (names::IO_PRESSURE_SHARE, "%", 100.0),
    (names::MEMORY_PRESSURE_SHARE, "%", 100.0),
    (names::SWAPPED_BYTES, "bytes", 1.0),
    (names::RUNNABLE_BEFORE, "count", 1.0),
];

/// Quantities that a disturbance may change. The table shows the first of them that a run recorded.
const TIMES: [&str; 2] = [names::WALL_S, names::CKPT_LATENCY_S];

/// A disturbed run, with its disturbances.
struct DisturbedRun {
    run: usize,
    why: Vec<String>,
}

/// Returns the value of a quantity in a run.
fn value(point: &PointRow, quantity: &str, repeat: u32) -> Option<f64> {
    let at = point
        .repeats
        .get(quantity)?
        .iter()
        .position(|of| *of == repeat)?;
    point.values.get(quantity)?.get(at).copied()
}

/// Returns the deviation of a run's value from the median of its point, percent.
fn from_median_pct(point: &PointRow, quantity: &str, repeat: u32) -> Option<f64> {
    let median = point
        .summaries
        .get(quantity)
        .map(|summary| summary.median)
        .filter(|median| *median > 0.0)?;
    Some((value(point, quantity, repeat)? / median - 1.0) * 100.0)
}

/// Returns the number of processors of the smallest node of each run; runs that did not record it are omitted.
fn processors(data: &Data) -> HashMap<usize, u32> {
    let fewest = |text: &str| {
        let counts = text.split_whitespace().map(|word| word.parse().ok());
        counts.collect::<Option<Vec<u32>>>()?.into_iter().min()
    };
    let known = data.facts.get("settings.processors").into_iter().flatten();
    known
        .filter_map(|(text, runs)| Some((fewest(text)?, runs)))
        .flat_map(|(count, runs)| runs.iter().map(move |run| (*run, count)))
        .collect()
}

fn disturbed(data: &Data) -> Vec<DisturbedRun> {
    // computed once: a search for each run would be quadratic
    let processors_of = processors(data);
    let beside: HashSet<usize> = data
        .facts
        .get("beside")
        .into_iter()
        .flat_map(|by_value| by_value.values().flatten().copied())
        .collect();
    let counts = data.runs.iter().enumerate().filter(|(_, run)| run.counts());
    let found = counts.map(|(run, of)| {
        let point = &data.points[of.point];
        let value = |quantity: &str| value(point, quantity, of.repeat);
        let processors = processors_of.get(&run).copied();
        let has_processors_left = processors
            .is_some_and(|processors| point.processes.div_ceil(point.nodes.max(1)) < processors);
        let share = |quantity: &str, limit: f64, what: &str| {
            let share = value(quantity).filter(|share| *share >= limit)?;
            Some(format!(
                "{} % {what}",
                super::effects::percent(share * 100.0)
            ))
        };
        let waiting = || {
            share(
                names::CPU_PRESSURE_SHARE,
                CPU_PRESSURE,
                "of the time a task waited for a processor",
            )
        };
        let swapped = value(names::SWAPPED_BYTES).filter(|bytes| *bytes >= SWAPPED_BYTES);
        let tasks = || {
            let limit = (f64::from(processors?) * RUNNABLE_PER_PROCESSOR).max(MIN_RUNNABLE);
            let tasks = value(names::RUNNABLE_BEFORE).filter(|tasks| *tasks >= limit)?;
            Some(format!("{tasks:.0} tasks were running before it"))
        };
        let why = [
            beside
                .contains(&run)
                .then(|| "another campaign measured on the same machine".to_owned()),
            share(
                names::STEAL_SHARE,
                STEAL,
                "of processor time went to other virtual machines",
            ),
            match value(names::OTHER_CPU_SHARE) {
                Some(_) => share(
                    names::OTHER_CPU_SHARE,
                    OTHER_CPU,
                    "of processor time went to other programs",
                ),
                None => tasks(),
            },
            has_processors_left.then(waiting).flatten(),
            share(
                names::MEMORY_PRESSURE_SHARE,
                MEMORY_PRESSURE,
                "of the time a task waited for memory",
            ),
            swapped.map(|bytes| format!("{:.0} MiB were swapped", bytes / f64::from(1 << 20))),
        ];
        DisturbedRun {
            run,
            why: why.into_iter().flatten().collect(),
        }
    });
    found.filter(|found| !found.why.is_empty()).collect()
}

/// Returns the warning about disturbed runs.
pub(super) fn warning(data: &Data) -> Option<String> {
    let found = disturbed(data);
    let of = data.runs.iter().filter(|run| run.counts()).count();
    let first = found.first()?;
    let other = if found.len() > 1 { ", for example" } else { "" };
    Some(format!(
        "{} of {of} {} disturbed{other}: {}. They are included in the numbers below; Outcomes lists them.",
        counted(found.len(), "run"),
        if found.len() == 1 { "was" } else { "were" },
        first.why.join(", "),
    ))
}

/// Makes the table of disturbed runs, with the deviation of their times from the median of the point.
pub(super) fn table(data: &Data) -> Table {
    let mut columns = summary::factor_columns(data);
    columns.push(Column::plain("repeat", "repeat"));
    columns.push(Column::plain("disturbed_by", "disturbed by"));
    columns.push(Column::of(
        "time_from_median",
        "deviation from the median",
        "%",
    ));
    columns.extend(
        COLUMNS.map(|(name, unit, _)| Column::of(name, &quantity::heading(name), unit).data_only()),
    );
    columns.push(Column::plain("run", "run").data_only());
    let caption = "Successful runs with other activity on their nodes, and the deviation of their wall time from the median of all repeats; runs that \
                   are killed after their checkpoint have its time instead. All numbers of this report include them. Shares are of the \
                   time of the program or of its restart (the more disturbed one), on the most affected node.";
    let mut table = Table::new("disturbed", "Disturbed runs", caption, columns);
    for found in disturbed(data) {
        let run = &data.runs[found.run];
        let point = &data.points[run.point];
        let mut row = summary::factor_cells(data, run.point);
        row.extend([
            Cell::text(run.repeat.to_string()),
            Cell::text(found.why.join(", ")),
        ]);
        row.push(Cell::number(TIMES.iter().find_map(|quantity| {
            from_median_pct(point, quantity, run.repeat)
        })));
        row.extend(COLUMNS.map(|(name, _, scale)| {
            Cell::number(value(point, name, run.repeat).map(|value| value * scale))
        }));
        row.push(Cell::text(&run.id));
        table.rows.push(row);
    }
    table
}
