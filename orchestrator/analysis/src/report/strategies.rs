//! Time for which checkpoints stopped the program, compared with the time until the checkpoints were safe.

use super::summary;
use crate::results::data::Data;
use cvc_core::record::names;
use cvc_show::{Block, Cell, Column, Section, Table};

/// Builds the section; it is empty if no point has a strategy other than `sync`.
pub(super) fn section(data: &Data) -> Section {
    let is_compared = has_strategies(data) && data.quantities.contains_key(names::CKPT_STOP_S);
    Section {
        id: "strategies",
        title: "Stop and latency of checkpoints".to_owned(),
        blocks: if is_compared {
            vec![Block::Table(table(data))]
        } else {
            Vec::new()
        },
    }
}

/// Returns whether any point has a strategy other than `sync`.
pub(super) fn has_strategies(data: &Data) -> bool {
    data.factors.iter().any(|factor| factor == "strategy")
}

/// Makes the table, with a row for each point whose program prints the stop times of its checkpoints.
fn table(data: &Data) -> Table {
    let mut columns = summary::point_columns(data);
    columns.push(Column::plain("n", "n"));
    columns.push(Column::of(names::CKPT_STOP_S, "program stopped", "s"));
    columns.push(Column::of(names::CKPT_LATENCY_S, "safe after", "s"));
    columns.push(Column::of(
        "stopped_pct",
        "stopped, of the time until safe",
        "%",
    ));
    columns.push(Column::of(names::CKPT_SKIPPED, "skipped", "count"));
    columns.push(Column::of(names::WALL_S, "wall time", "s"));
    let caption = "Mean over checkpoints and repeats. Stopped: time in which the program did not compute because of a checkpoint, including the wait for the \
                   previous one. Safe after: time from its request until it replaced the previous one on storage. Skipped: checkpoints of a run \
                   omitted because the previous one was not safe yet.";
    let mut table = Table::new(
        "strategies",
        "Stop and latency of checkpoints",
        caption,
        columns,
    );
    for (i, p) in data.points.iter().enumerate() {
        let of = |quantity: &str| p.summaries.get(quantity);
        let Some(stop) = of(names::CKPT_STOP_S) else {
            continue;
        };
        let latency = of(names::CKPT_LATENCY_S);
        let share = latency
            .filter(|latency| latency.mean > 0.0)
            .map(|latency| stop.mean / latency.mean * 100.0);
        let mut row = summary::point_cells(data, i);
        row.extend([
            Cell::count(p.counted(&data.runs)),
            Cell::measured(Some(stop)),
            Cell::measured(latency),
            Cell::number(share),
            Cell::measured(of(names::CKPT_SKIPPED)),
            Cell::measured(of(names::WALL_S)),
        ]);
        table.rows.push(row);
    }
    table
}
