//! Contents of traces: operations, bursts, writers; and the overhead of tracing.

use super::summary;
use crate::results::{
    counterpart::{label, pairs_without, ratio_groups},
    data::Data,
    quantity,
};
use cvc_core::point::FactorId;
use cvc_core::record::names;
use cvc_core::units::counted;
use cvc_model::stats::pooled_ratio;
use cvc_show::{Block, Cell, Column, Section, Table};
use indexmap::IndexMap;

/// Columns of the table of operations, with their units.
const COLUMNS: [(&str, &str); 12] = [
    (names::TRACE_WRITE_OPS, "count"),
    (names::TRACE_WRITTEN_BYTES, "bytes"),
    (names::TRACE_WRITE_MIB_S, "MiB/s"),
    (names::TRACE_WRITE_BURSTS, "count"),
    (names::TRACE_WRITERS, "count"),
    (names::TRACE_WRITER_SPREAD, "1"),
    (names::TRACE_READ_OPS, "count"),
    (names::TRACE_READ_BYTES, "bytes"),
    (names::TRACE_WRITE_S, "s"),
    (names::TRACE_READ_S, "s"),
    (names::TRACE_METADATA_S, "s"),
    (names::TRACE_BYTES, "bytes"),
];

/// Maximum number of reasons for gaps that are listed.
const MAX_REASONS: usize = 5;

/// Facts with the reasons why a trace is incomplete.
const GAPS: [&str; 2] = ["trace_not_read", "trace_gaps"];

pub(super) fn section(data: &Data) -> Section {
    let mut blocks: Vec<Block> = gaps(data)
        .into_iter()
        .map(|text| Block::Text { text })
        .collect();
    let tables = [
        operations(data),
        phases(data),
        restarts(data),
        overhead(data),
    ];
    blocks.extend(
        tables
            .into_iter()
            .filter(|table| !table.rows.is_empty())
            .map(Block::Table),
    );
    Section {
        id: "traces",
        title: "Traces".to_owned(),
        blocks,
    }
}

/// Lists the reasons for incomplete traces, each once, with the number of its runs.
fn gaps(data: &Data) -> Vec<String> {
    let mut reasons: IndexMap<&str, usize> = IndexMap::new();
    for (text, runs) in GAPS.iter().filter_map(|key| data.facts.get(*key)).flatten() {
        // list the first reason of a run only, which usually causes the others
        let first = text.lines().next().unwrap_or_default();
        *reasons.entry(first).or_default() += runs.len();
    }
    let mut reasons: Vec<(&str, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, runs)| std::cmp::Reverse(*runs));
    let more = reasons.len().saturating_sub(MAX_REASONS);
    let mut texts: Vec<String> = reasons
        .into_iter()
        .take(MAX_REASONS)
        .map(|(reason, runs)| {
            format!(
                "The traces of {} are incomplete: {reason}.",
                counted(runs as u32, "run")
            )
        })
        .collect();
    if more > 0 {
        texts.push(format!(
            "{} for incomplete traces: see the facts of the runs.",
            counted(more as u32, "more reason")
        ));
    }
    texts
}

/// Makes the table of file operations, with a row for each point.
fn operations(data: &Data) -> Table {
    let mut columns = summary::point_columns(data);
    columns.push(Column::plain("n", "n"));
    for (name, unit) in COLUMNS {
        if name == names::TRACE_WRITERS {
            columns.push(Column::plain(
                "aggregators_asked_for",
                "requested aggregators",
            ));
        }
        columns.push(Column::of(name, &quantity::heading(name), unit));
    }
    let caption = "Operations on the run's own files below MPI-IO, by the tracer; mean over repeats. Bandwidth: bytes of all writes over the time in \
                   which at least one process was writing. A burst ends with a pause of a hundredth of the trace, at least 1 ms. Writers are the \
                   processes that wrote to the file with the most written bytes, to compare with the requested aggregators; evenness is the \
                   minimum over the maximum that one of them wrote: 1 is even. Times of reads, writes and other operations are sums over processes, and include the overhead of the tracer.";
    let mut table = Table::new("traces", "Traced operations", caption, columns);
    for (i, p) in data.points.iter().enumerate() {
        if !p.summaries.contains_key(names::TRACE_BYTES) {
            continue;
        }
        let mut row = summary::point_cells(data, i);
        row.push(Cell::count(p.counted(&data.runs)));
        for (name, _) in COLUMNS {
            if name == names::TRACE_WRITERS {
                row.push(Cell::text(p.level(FactorId::Aggregators)));
            }
            row.push(Cell::measured(p.summaries.get(name)));
        }
        table.rows.push(row);
    }
    table
}

/// Makes the table of I/O phases, with a row for each point and kind of phase. The runs' fact about phases has a line for each kind.
fn phases(data: &Data) -> Table {
    let mut columns = summary::point_columns(data);
    columns.extend([
        Column::plain("n", "n"),
        Column::of(
            names::TRACE_PHASES_S,
            &quantity::heading(names::TRACE_PHASES_S),
            "s",
        ),
        Column::plain("phases", "phases"),
    ]);
    let caption = "I/O of all processes without communication in between, by the tracer of MPI-IO. `cvc phases` on the directory of a run shows requests, \
                   places and times, and writes a model that other storage repeats. n: runs with these phases; the time is of all phases.";
    let mut table = Table::new("phases", "Phases of I/O", caption, columns);
    for (text, runs) in data.facts.get(names::TRACE_PHASES).into_iter().flatten() {
        let mut by_point: IndexMap<usize, usize> = IndexMap::new();
        for run in runs.iter().filter_map(|run| data.runs.get(*run)) {
            *by_point.entry(run.point).or_default() += 1;
        }
        for (point, count) in by_point {
            let summaries = data.points.get(point).map(|p| &p.summaries);
            for line in text.lines() {
                let mut row = summary::point_cells(data, point);
                row.push(Cell::count(count));
                let all = summaries.and_then(|s| s.get(names::TRACE_PHASES_S));
                row.push(Cell::measured(all));
                row.push(Cell::text(line));
                table.rows.push(row);
            }
        }
    }
    table
}

/// Maximum relative differences in bytes and in operations up to which the reads of a restart count as equal to the writes of its checkpoint.
const ALIKE: (f64, f64) = (0.05, 0.10);

/// Describes the reads of a restart compared with the writes of its checkpoint.
fn verdict(writes: f64, written: f64, reads: f64, read: f64) -> &'static str {
    let is_near = |of: f64, to: f64, limit: f64| (of / to - 1.0).abs() <= limit;
    match (
        is_near(read, written, ALIKE.0),
        is_near(reads, writes, ALIKE.1),
    ) {
        (true, true) => "like the checkpoint, with reads",
        (true, false) => "same bytes, different operations",
        (false, _) if read < written => "reads less than the checkpoint wrote",
        (false, _) => "reads more than the checkpoint wrote",
    }
}

/// Makes the table of bytes written by checkpoints and read by restarts, with a row for each point.
fn restarts(data: &Data) -> Table {
    const COLUMNS: [(&str, &str); 5] = [
        (names::CKPT_IO_FILES, "count"),
        (names::CKPT_IO_WRITE_OPS, "count"),
        (names::CKPT_IO_WRITTEN_BYTES, "bytes"),
        (names::CKPT_IO_READ_OPS, "count"),
        (names::CKPT_IO_READ_BYTES, "bytes"),
    ];
    let mut columns = summary::point_columns(data);
    columns.push(Column::plain("n", "n"));
    columns.extend(COLUMNS.map(|(name, unit)| Column::of(name, &quantity::heading(name), unit)));
    columns.push(Column::plain("verdict", "the restart"));
    let caption = "Writes of a checkpoint and reads of the restart from the same files, by the traces of both; mean over repeats. A restart is like \
                   its checkpoint if bytes differ by at most 5 % and operations by at most 10 %.";
    let mut table = Table::new(
        "traced_restarts",
        "Restarts compared with checkpoints",
        caption,
        columns,
    );
    for (i, p) in data.points.iter().enumerate() {
        let mean = |name: &str| Some(p.summaries.get(name)?.mean);
        let values = COLUMNS.map(|(name, _)| mean(name));
        let [_, Some(writes), Some(written), Some(reads), Some(read)] = values else {
            continue;
        };
        let mut row = summary::point_cells(data, i);
        row.push(Cell::count(p.counted(&data.runs)));
        row.extend(COLUMNS.map(|(name, _)| Cell::measured(p.summaries.get(name))));
        row.push(Cell::text(verdict(writes, written, reads, read)));
        table.rows.push(row);
    }
    table
}

/// Makes the table of the overhead of tracing in wall time, with a row for each pair of points.
fn overhead(data: &Data) -> Table {
    let mut columns = vec![Column::plain("at", "at"), Column::plain("tracer", "tracer")];
    columns.extend(
        [
            ("wall_without_s", "wall time untraced"),
            ("wall_with_s", "traced"),
        ]
        .map(|(id, heading)| Column::of(id, heading, "s")),
    );
    columns.extend(
        [
            ("overhead", "overhead"),
            ("overhead_low", "95 % from"),
            ("overhead_high", "to"),
        ]
        .map(|(id, heading)| Column::of(id, heading, "%")),
    );
    columns.push(Column::plain("pairs", "pairs"));
    let caption = "Wall time of otherwise equal runs with and without a tracer. The interval is Student's t of the logarithms of the ratios of repeats \
                   with the same number. It includes the work of the tracer when programs start and end. Runs that end at their checkpoint have no wall \
                   time and are excluded.";
    let mut table = Table::new("tracing", "Overhead of tracers", caption, columns);
    for (level, pair) in pairs_without(data, "tracer") {
        let groups = ratio_groups(data, std::slice::from_ref(&pair), names::WALL_S);
        let Some(ratio) = pooled_ratio(&groups) else {
            continue;
        };
        let (low, high) = ratio.interval_pct().unzip();
        let wall = |p: usize| Cell::measured(data.points[p].summaries.get(names::WALL_S));
        table.rows.push(vec![
            Cell::text(label(&pair)),
            Cell::text(level),
            wall(pair.counterpart),
            wall(pair.point),
            Cell::number(ratio.change_pct()),
            Cell::number(low),
            Cell::number(high),
            Cell::count(ratio.pairs),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn a_restart_is_like_its_checkpoint_by_bytes_and_operations() {
        let of = |reads, read| verdict(9866.0, 114_067_656.0, reads, read);
        // values of an image of DMTCP 4.2, traced by strace
        assert_eq!(of(9869.0, 114_079_944.0), "like the checkpoint, with reads");
        assert_eq!(of(2.0, 114_079_944.0), "same bytes, different operations");
        assert_eq!(of(9869.0, 60e6), "reads less than the checkpoint wrote");
        assert_eq!(of(9869.0, 200e6), "reads more than the checkpoint wrote");
    }
}
