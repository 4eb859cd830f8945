//! Runs whose nodes did something else, too: flagged, never dropped.

use super::summary;
use crate::results::{data::Data, quantity, rows::PointRow};
use cvc_core::record::names;
use cvc_core::units::counted;
use cvc_show::{Cell, Column, Table};
use std::collections::{HashMap, HashSet};

/// A share from which processor time given to others by the hypervisor is flagged.
const STEAL: f64 = 0.01;
/// A share from which processor time of other programs is flagged.
const OTHER_CPU: f64 = 0.05;
/// A share from which waiting for a processor is flagged, where each process can have one of its own.
const CPU_PRESSURE: f64 = 0.1;
/// A share from which waiting for memory is flagged.
const MEMORY_PRESSURE: f64 = 0.01;
/// Bytes from which swapping is flagged.
const SWAPPED_BYTES: f64 = (1 << 20) as f64;
/// Tasks from which other load before a run is flagged, where their processor time is not known, as a share of the processors.
const RUNNABLE_PER_PROCESSOR: f64 = 0.1;
/// The least number of such tasks: one may be a part of the kernel.
const FEWEST_RUNNABLE: f64 = 2.0;

/// The columns of the table, with the factor from the stored unit.
const COLUMNS: [(&str, &str, f64); 7] = [
    (names::STEAL_SHARE, "%", 100.0),
    (names::OTHER_CPU_SHARE, "%", 100.0),
    (names::CPU_PRESSURE_SHARE, "%", 100.0),
    (names::IO_PRESSURE_SHARE, "%", 100.0),
    (names::MEMORY_PRESSURE_SHARE, "%", 100.0),
    (names::SWAPPED_BYTES, "bytes", 1.0),
    (names::RUNNABLE_BEFORE, "count", 1.0),
];

/// The times that a disturbance changes: the first that a run has is shown.
const TIMES: [&str; 2] = [names::WALL_S, names::CKPT_LATENCY_S];

/// A run that was disturbed, and by what.
struct DisturbedRun {
    run: usize,
    why: Vec<String>,
}

/// The value of a quantity in a run.
fn value(point: &PointRow, quantity: &str, repeat: u32) -> Option<f64> {
    let at = point
        .repeats
        .get(quantity)?
        .iter()
        .position(|of| *of == repeat)?;
    point.values.get(quantity)?.get(at).copied()
}

/// The deviation of a run's value from the median of its point, percent.
fn from_median_pct(point: &PointRow, quantity: &str, repeat: u32) -> Option<f64> {
    let median = point
        .summaries
        .get(quantity)
        .map(|summary| summary.median)
        .filter(|median| *median > 0.0)?;
    Some((value(point, quantity, repeat)? / median - 1.0) * 100.0)
}

/// The fewest processors of a node of each run that says so.
fn processors(data: &Data) -> HashMap<usize, u32> {
    let fewest = |told: &str| {
        let counts = told.split_whitespace().map(|word| word.parse().ok());
        counts.collect::<Option<Vec<u32>>>()?.into_iter().min()
    };
    let known = data.facts.get("settings.processors").into_iter().flatten();
    known
        .filter_map(|(told, runs)| Some((fewest(told)?, runs)))
        .flat_map(|(count, runs)| runs.iter().map(move |run| (*run, count)))
        .collect()
}

fn disturbed(data: &Data) -> Vec<DisturbedRun> {
    // looked up for each run: a search would be quadratic
    let processors_of = processors(data);
    let beside: HashSet<usize> = data
        .facts
        .get("beside")
        .into_iter()
        .flat_map(|told| told.values().flatten().copied())
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
            let limit = (f64::from(processors?) * RUNNABLE_PER_PROCESSOR).max(FEWEST_RUNNABLE);
            let tasks = value(names::RUNNABLE_BEFORE).filter(|tasks| *tasks >= limit)?;
            Some(format!("{tasks:.0} tasks were running before it"))
        };
        let why = [
            beside
                .contains(&run)
                .then(|| "another campaign measured on its machine".to_owned()),
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

/// Says how many runs were disturbed.
pub(super) fn warning(data: &Data) -> Option<String> {
    let found = disturbed(data);
    let of = data.runs.iter().filter(|run| run.counts()).count();
    let first = found.first()?;
    let other = if found.len() > 1 { ", for example" } else { "" };
    Some(format!(
        "{} of {of} {} disturbed{other}: {}. They are in the numbers below; Outcomes lists them.",
        counted(found.len(), "run"),
        if found.len() == 1 { "was" } else { "were" },
        first.why.join(", "),
    ))
}

/// The disturbed runs, with their times against the median of their points.
pub(super) fn table(data: &Data) -> Table {
    let mut columns = summary::factor_columns(data);
    columns.push(Column::plain("repeat", "repeat"));
    columns.push(Column::plain("disturbed_by", "disturbed by"));
    columns.push(Column::of("time_from_median", "time from its median", "%"));
    columns.extend(
        COLUMNS.map(|(name, unit, _)| Column::of(name, &quantity::heading(name), unit).data_only()),
    );
    columns.push(Column::plain("run", "run").data_only());
    let caption = "Successful runs whose nodes did something else, too, with their wall times against the median of all repeats; runs that \
                   are killed after their checkpoint have its time instead. None is left out of any number of this report. Shares are of the \
                   time of the program or of its restart, whichever was disturbed more, on the node where they are largest.";
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
