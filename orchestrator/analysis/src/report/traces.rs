//! What traces show: operations, bursts, who writes; and what tracing adds to the time of a program.

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

/// The columns of a point, with their units.
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

/// Most reasons for gaps that are told one by one.
const MOST_REASONS: usize = 5;

/// Facts that say why a trace does not tell everything.
const GAPS: [&str; 2] = ["trace_not_read", "trace_gaps"];

pub(super) fn section(data: &Data) -> Section {
    let mut blocks: Vec<Block> = gaps(data)
        .into_iter()
        .map(|text| Block::Text { text })
        .collect();
    let tables = [operations(data), overhead(data)];
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

/// Says which traces do not tell everything, and why; each reason once, with the number of its runs.
fn gaps(data: &Data) -> Vec<String> {
    let mut reasons: IndexMap<&str, usize> = IndexMap::new();
    for (text, runs) in GAPS.iter().filter_map(|key| data.facts.get(*key)).flatten() {
        // the others of a run mostly follow from the first
        let first = text.lines().next().unwrap_or_default();
        *reasons.entry(first).or_default() += runs.len();
    }
    let mut told: Vec<(&str, usize)> = reasons.into_iter().collect();
    told.sort_by_key(|(_, runs)| std::cmp::Reverse(*runs));
    let more = told.len().saturating_sub(MOST_REASONS);
    let mut texts: Vec<String> = told
        .into_iter()
        .take(MOST_REASONS)
        .map(|(reason, runs)| {
            format!(
                "The traces of {} do not tell everything: {reason}.",
                counted(runs as u32, "run")
            )
        })
        .collect();
    if more > 0 {
        texts.push(format!(
            "There are {} why traces do not tell everything, in the facts of the runs.",
            counted(more as u32, "more reason")
        ));
    }
    texts
}

/// Makes the table of what was done to files, a row for each point.
fn operations(data: &Data) -> Table {
    let mut columns = summary::point_columns(data);
    columns.push(Column::plain("n", "n"));
    for (name, unit) in COLUMNS {
        if name == names::TRACE_WRITERS {
            columns.push(Column::plain(
                "aggregators_asked_for",
                "aggregators asked for",
            ));
        }
        columns.push(Column::of(name, &quantity::heading(name), unit));
    }
    let caption = "Operations on the run's own files, as the tracer saw them below MPI-IO; mean over repeats. Bandwidth: bytes of all writes over the time in \
                   which at least one process was writing. A burst ends with a pause of a hundredth of the trace, at least 1 ms. Writers are the \
                   processes that wrote to the file that most was written to, to be compared with the aggregators that were asked for; evenness is the \
                   least that one of them wrote over the most, so that 1 is even. Times of reads, writes and everything else are added up over processes, and include what the tracer itself takes.";
    let mut table = Table::new("traces", "What was traced", caption, columns);
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

/// Makes the table of what tracing adds to the wall time, a row for each pair of points.
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
                   with the same number. It includes what the tracer does when programs start and end. Runs that end at their checkpoint have no wall \
                   time and are not here.";
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
