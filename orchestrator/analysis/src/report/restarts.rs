//! Attempted and verified restarts, and their times: the restart itself, and the computation after it.

use super::{restart_counts::of_point, summary};
use crate::results::data::Data;
use cvc_core::record::names;
use cvc_show::{Block, Cell, Column, Section, Table};

/// Columns of the table: quantity, heading, unit.
const COLUMNS: [(&str, &str, &str); 8] = [
    (names::RESTARTS, "restarts of a run", "count"),
    (names::RESTART_LATENCY_S, "restart", "s"),
    (names::RESTART_BYTES, "restarted size", "bytes"),
    (names::RESTART_BANDWIDTH, "bandwidth", "MiB/s"),
    (names::RESTART_REST_S, "rest of the computation", "s"),
    (names::RESTART_TO_END_S, "restart to the end", "s"),
    (names::RESTART_STEP_GAP, "steps across the restart", "count"),
    (names::RESTART_CKPT_STORED_BYTES, "stored again", "bytes"),
];

pub(super) fn section(data: &Data) -> Section {
    let table = table(data);
    let blocks = if table.rows.is_empty() {
        Vec::new()
    } else {
        vec![Block::Table(table)]
    };
    Section {
        id: "restarts",
        title: "Restarts".to_owned(),
        blocks,
    }
}

/// Makes the table, with a row for each point whose runs were restarted.
fn table(data: &Data) -> Table {
    let is_measured = |quantity: &str| {
        data.points
            .iter()
            .any(|p| p.summaries.contains_key(quantity))
    };
    let shown: Vec<(&str, &str, &str)> = COLUMNS
        .into_iter()
        .filter(|(quantity, ..)| is_measured(quantity))
        .collect();
    let mut columns = summary::point_columns(data);
    columns.push(Column::plain("verified", "verified"));
    columns.extend(
        shown
            .iter()
            .map(|(quantity, heading, unit)| Column::of(quantity, heading, unit)),
    );
    let caption = "Restart: from the start of the restart to the end of the program's first new step; for a program that prints no steps, to its \
                   first new output. Rest: from then to the program's end. Size: the images, or the files of the program's own checkpoint (for a \
                   traced restart, the bytes that it read). Bandwidth: the size over the time of the restart. Steps: from the last one before \
                   the checkpoint to the first one after the restart. Stored again: by checkpoints of restarted programs. Mean over restarts and repeats.";
    let mut table = Table::new("restarts", "Restarts", caption, columns);
    for (i, p) in data.points.iter().enumerate() {
        if !p.summaries.contains_key(names::RESTART_TO_END_S) {
            continue;
        }
        let mut row = summary::point_cells(data, i);
        row.push(Cell::text(of_point(data, p).shown()));
        row.extend(
            shown
                .iter()
                .map(|(quantity, ..)| Cell::measured(p.summaries.get(*quantity))),
        );
        table.rows.push(row);
    }
    table
}
