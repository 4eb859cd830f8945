//! The page of a program's I/O phases: plots of the phases over time and over offsets, and a table of what they do.

use super::{
    PlotSink, SCRIPT, STYLE, engine, failed,
    figure::{TimeAxis, TraceFigure},
    plots::roles_of,
    tables::table,
    text,
};
use crate::emit::policy::PageHead;
use cvc_core::render_error::RenderError;
use cvc_trace::{
    Api, Event, FileId, Op, Process, ProcessId, Sink,
    phases::{IoModel, Marks, PhaseFamily, PhaseOp},
    profile::role_of,
};
use serde_json::{Value, json};
use std::{collections::HashMap, io};

/// Approximate maximum number of drawn parts of all phases. If there are more calls, consecutive calls are drawn as one part.
const MAX_PARTS: u64 = 200_000;
/// Maximum number of parts for the calls of one process in one phase.
const MAX_PARTS_OF_PHASE: u64 = 32;

/// Returns the page of a model.
///
/// # Errors
/// The template cannot be rendered.
pub fn phases_page(model: &IoModel) -> Result<String, RenderError> {
    let mut sink = PlotSink::default();
    draw(model, &mut sink).map_err(|error| failed(error.to_string()))?;
    let mut plots = sink.finish();
    // with file views, the drawn ranges include bytes of other processes, so take the real number of bytes
    let moved = bytes_of(model);
    for role in &mut plots.roles {
        role.bytes = moved.get(&role.role).copied().unwrap_or(role.bytes);
    }
    let time = plots.range_ns.map(TimeAxis::of);
    let figures: Vec<TraceFigure> = time
        .map(|time| roles_of(&plots, time, u64::from(model.processes), &whose))
        .unwrap_or_default();
    let figures = figures.iter().enumerate();
    let figures: Vec<Value> = figures.map(|(id, f)| f.to_json(id + 1)).collect();
    let head = PageHead::with(STYLE, SCRIPT);
    let notes = model.remarks.iter().map(|text| text::escape(text));
    let context = json!({
        "policy": head.policy, "style": head.style, "script": head.script,
        "sentences": sentences(model), "figures": figures, "notes": notes.collect::<Vec<String>>(), "phases": rows(model),
    });
    let engine = engine()?;
    let page = engine.render("phases", &context);
    page.map_err(|e| failed(e.to_string()))
}

fn whose(role: &str) -> String {
    format!("file {role}")
}

/// Sums the bytes of all phases by role, which is the name of files without their numbers.
fn bytes_of(model: &IoModel) -> HashMap<String, u64> {
    let mut all = HashMap::new();
    for family in &model.phases {
        for part in &family.loops {
            for op in &part.ops {
                let Some(file) = model.files.get(op.file) else {
                    continue;
                };
                let ranks = op.ranks.list(model.processes).len();
                let each = (0..ranks).map(|i| op.request_bytes.get(i).max(0) as u64);
                let bytes = each.sum::<u64>() * op.calls() * part.rounds;
                *all.entry(role_of(&file.name)).or_default() += bytes * u64::from(family.count);
            }
        }
    }
    all
}

fn sentences(model: &IoModel) -> Vec<String> {
    let separated = match model.marks {
        Marks::Communication => format!(
            "A phase has at most {} between consecutive accesses.",
            text::of(
                model.most_ticks.into(),
                "communicating call",
                "communicating calls"
            )
        ),
        Marks::Gaps { gap_s } => format!(
            "The trace has no communication: pauses of more than {} separate phases.",
            text::time(gap_s)
        ),
        Marks::Image => "A checkpoint is one phase; its times are unknown.".to_owned(),
    };
    vec![
        format!(
            "{} of {}: {}, {} of I/O in {}.",
            text::of(model.phase_count().into(), "phase", "phases"),
            text::of(model.processes.into(), "process", "processes"),
            text::size(model.weight_bytes() as f64),
            text::time(model.io_s()),
            text::time(model.run_s)
        ),
        separated,
    ]
}

/// Returns the table with one row for each family of similar phases.
fn rows(model: &IoModel) -> Value {
    let columns = [
        ("num", "phases"),
        ("", "calls"),
        ("num", "each"),
        ("num", "time of each"),
        ("num", "MiB/s"),
        ("long", "first byte"),
    ];
    let row = |family: &PhaseFamily| {
        let last = family.first + family.count - 1;
        let numbers = match family.count {
            1 => family.first.to_string(),
            _ => format!("{} to {last}", family.first),
        };
        let ops = || family.loops.iter().flat_map(|l| &l.ops);
        let join = |mut all: Vec<String>| {
            all.dedup();
            all.join(", ")
        };
        let rate = family.weight_bytes as f64 / 1_048_576.0 / family.io_s;
        vec![
            ("num", numbers),
            ("", join(ops().map(|op| op.call()).collect())),
            ("num", text::size(family.weight_bytes as f64)),
            ("num", text::time(family.io_s)),
            ("num", text::rate(Some(rate).filter(|r| r.is_finite()))),
            ("long", join(ops().map(|op| op.formula.clone()).collect())),
        ]
    };
    table(
        "table-phases",
        &columns,
        model.phases.iter().map(row),
        model.phases.len(),
    )
}

/// Passes the calls of all phases to the sink as events. The calls of a process within a phase are spaced evenly.
fn draw(model: &IoModel, sink: &mut PlotSink) -> io::Result<()> {
    for rank in 0..model.processes {
        let process = Process {
            rank: Some(rank),
            ..Process::default()
        };
        sink.process(ProcessId(rank), &process)?;
        for (i, file) in model.files.iter().enumerate() {
            sink.file(file_id(model, i, rank), file.name.as_bytes())?;
        }
    }
    let phases = u64::from(model.phase_count()) * u64::from(model.processes);
    let parts = (MAX_PARTS / phases.max(1)).clamp(1, MAX_PARTS_OF_PHASE);
    let mut at_s = 0.0;
    for family in &model.phases {
        at_s = f64::max(at_s, family.start_s);
        for number in 0..family.count {
            // a model without times (of a checkpoint) gets phases of the same length
            let io_s = if family.io_s > 0.0 { family.io_s } else { 1.0 };
            for part in calls_of(model, family, number, parts) {
                let event = part.event(model, at_s, io_s);
                sink.event(&event)?;
            }
            at_s += io_s + family.think_s;
        }
    }
    Ok(())
}

/// Returns the number of a file: one for all ranks if the file is shared, otherwise one for each rank, all with the same name.
fn file_id(model: &IoModel, file: usize, rank: u32) -> FileId {
    let is_shared = model.files.get(file).is_some_and(|f| f.is_shared);
    let rank = if is_shared { 0 } else { rank };
    FileId(file as u32 * model.processes.max(1) + rank)
}

/// Consecutive calls of one process, drawn as one event.
struct Part {
    rank: u32,
    file: usize,
    is_write: bool,
    is_posix: bool,
    /// Offsets of the first byte, and of the byte after the last one.
    places: (i64, i64),
    /// Start and end as fractions of the phase.
    when: (f64, f64),
}

impl Part {
    fn event(&self, model: &IoModel, at_s: f64, io_s: f64) -> Event {
        let ns = |s: f64| (s * 1e9) as u64;
        let start_ns = ns(at_s + self.when.0 * io_s);
        let first = self.places.0.max(0) as u64;
        Event {
            process: ProcessId(self.rank),
            thread: 0,
            file: file_id(model, self.file, self.rank),
            op: if self.is_write { Op::Write } else { Op::Read },
            api: if self.is_posix {
                Api::Posix
            } else {
                Api::MpiIo
            },
            offset: Some(first),
            // the drawn range; with a file view it includes bytes of other processes
            bytes: (self.places.1.max(0) as u64).saturating_sub(first).max(1),
            start_ns,
            duration_ns: ns(at_s + self.when.1 * io_s)
                .saturating_sub(start_ns)
                .max(1),
            failed: false,
        }
    }
}

/// Returns the calls of all processes in a phase, with at most `parts` parts for each process.
fn calls_of(model: &IoModel, family: &PhaseFamily, number: u32, parts: u64) -> Vec<Part> {
    let all: u64 = family.loops.iter().map(|l| l.rounds).sum();
    let mut made = Vec::new();
    let mut before = 0;
    for part in &family.loops {
        let chunks = part.rounds.min((parts * part.rounds / all.max(1)).max(1));
        for chunk in 0..chunks {
            let rounds = (
                chunk * part.rounds / chunks,
                (chunk + 1) * part.rounds / chunks,
            );
            let share = |round: u64| (before + round) as f64 / all.max(1) as f64;
            let when = (share(rounds.0), share(rounds.1));
            for op in part.ops.iter().filter(|op| op.op != "sync") {
                add_op(model, op, (number, rounds, when, parts / chunks), &mut made);
            }
        }
        before += part.rounds;
    }
    made
}

/// Adds the calls of one kind in a range of rounds. A round is one iteration of a loop of the phase.
fn add_op(
    model: &IoModel,
    op: &PhaseOp,
    (number, rounds, when, parts): (u32, (u64, u64), (f64, f64), u64),
    made: &mut Vec<Part>,
) {
    let calls = op.calls().max(1);
    let ranks = op.ranks.list(model.processes);
    for (i, rank) in ranks.into_iter().enumerate() {
        let reach = reach_of(model, op, i);
        let moved = |round: u64| {
            op.first.get(i)
                + op.per_round.get(i) * round as i64
                + op.per_phase.get(i) * i64::from(number)
        };
        let (low, high) = (moved(rounds.0), moved(rounds.1.saturating_sub(1)));
        let (low, high) = (low.min(high), low.max(high));
        let mut done = 0;
        let mut places: Option<(i64, i64)> = None;
        let mut at = 0;
        let chunk = calls.div_ceil(parts.max(1));
        let span = when.1 - when.0;
        let mut close = |places: &mut Option<(i64, i64)>, from: u64, to: u64| {
            let Some(of) = places.take() else { return };
            let share = |call: u64| when.0 + span * call as f64 / calls as f64;
            made.push(Part {
                rank,
                file: op.file,
                is_write: op.op == "write",
                is_posix: op.is_posix,
                places: (of.0, of.1 + reach),
                when: (share(from), share(to)),
            });
        };
        for piece in &op.at {
            piece.each(&mut |position| {
                let (from, to) = places.unwrap_or((position + low, position + high));
                places = Some((from.min(position + low), to.max(position + high)));
                at += 1;
                if at - done == chunk {
                    close(&mut places, done, at);
                    done = at;
                }
            });
        }
        close(&mut places, done, at);
    }
}

/// Returns the distance in the file from the first to the last byte of a call.
fn reach_of(model: &IoModel, op: &PhaseOp, i: usize) -> i64 {
    let (bytes, within) = (op.request_bytes.get(i), op.within.get(i));
    let view = usize::try_from(op.view.get(i) - 1);
    match view.ok().and_then(|at| model.views.get(at)) {
        Some(view) if view.filetype_bytes > 0 => {
            let tiles = (within + bytes - 1).max(0) / view.filetype_bytes + 1;
            tiles * view.extent
        }
        _ => within + bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_trace::phases::{PerRank, storage_model};

    /// Returns a model with many phases, each of which writes the range after the previous phase's.
    fn model_of(families: u32, count: u32) -> IoModel {
        let (mut model, _) = storage_model(4);
        let mut family = model.phases.swap_remove(0);
        (family.count, family.io_s, family.think_s) = (count, 0.01, 0.02);
        family.loops[0].ops[0].per_phase = PerRank::Same(1 << 20);
        model.phases = (0..families)
            .map(|i| {
                let mut family = family.clone();
                family.first = i * count + 1;
                family.loops[0].ops[0].first = PerRank::Same(i64::from(i * count) << 20);
                family
            })
            .collect();
        model
    }

    #[test]
    fn ten_thousand_phases_are_a_page_that_can_be_read() {
        for (families, count) in [(1, 10_000), (10_000, 1)] {
            let page = phases_page(&model_of(families, count)).expect("a page");
            assert!(page.contains("10,000 phases of 4 processes: 39.1 GiB"));
            assert!(page.len() < 1_500_000, "{}", page.len());
            let more = page.contains("The first 300 of 10,000 rows");
            assert_eq!(more, families > 300);
            assert!(page.contains("Offsets in storage"), "offsets over time");
        }
    }
}
