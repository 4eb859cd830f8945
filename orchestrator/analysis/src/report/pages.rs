//! Pages that programs wrote between two checkpoints, compared with pages whose content changed.

use super::summary;
use crate::results::data::Data;
use cvc_core::record::names;
use cvc_show::{Block, Cell, Column, Section, Table};

pub(super) fn section(data: &Data) -> Section {
    let table = table(data);
    Section {
        id: "pages",
        title: "Pages written and changed".to_owned(),
        blocks: if table.rows.is_empty() {
            Vec::new()
        } else {
            vec![Block::Table(table)]
        },
    }
}

/// Makes the table, with a row for each point whose program counts its pages.
fn table(data: &Data) -> Table {
    let has_series = data
        .points
        .iter()
        .any(|p| p.summaries.contains_key(names::SERIES_CHANGED_BYTES));
    let mut columns = summary::point_columns(data);
    columns.push(Column::plain("n", "n"));
    for (name, heading) in [
        (names::PAGES_TRACKED, "pages"),
        (names::PAGES_WRITTEN, "written"),
        (names::PAGES_CHANGED, "changed"),
    ] {
        columns.push(Column::of(name, heading, "count"));
    }
    columns.push(Column::of(
        "pages_changed_of_written_pct",
        "changed, of written",
        "%",
    ));
    let bytes = Column::of(names::PAGES_CHANGED_BYTES, "changed bytes", "bytes");
    columns.push(bytes);
    columns.push(Column::of(names::PAGES_SCAN_S, "time to list written", "s"));
    let compare = Column::of(names::PAGES_COMPARE_S, "time to compare", "s");
    columns.push(compare);
    let mut caption =
        "Memory pages that a program tracks itself, all ranks together, between two checkpoints; mean over checkpoints and repeats. Written: \
         the system detected a write. Changed: the content differs from a copy. Bytes: those that differ. Times are of the slowest rank: to list the \
         written pages, and to compare all pages."
            .to_owned();
    if has_series {
        columns.push(Column::of(
            names::SERIES_CHANGED_BYTES,
            "changed blocks of the checkpoint, by hash",
            "bytes",
        ));
        columns.push(Column::of(names::SERIES_HASH_S, "time to hash it", "s"));
        caption += " By hash: blocks of the checkpoint's files that differ from those of the previous checkpoint; \
                    mean over checkpoints for which the previous one was read, too.";
    }
    let mut table = Table::new("pages", "Pages written and changed", &caption, columns);
    for (i, p) in data.points.iter().enumerate() {
        let Some(written) = p.summaries.get(names::PAGES_WRITTEN) else {
            continue;
        };
        let of = |quantity: &str| p.summaries.get(quantity);
        let mut row = summary::point_cells(data, i);
        row.push(Cell::count(p.counted(&data.runs)));
        row.push(Cell::measured(of(names::PAGES_TRACKED)));
        row.push(Cell::measured(Some(written)));
        row.push(Cell::measured(of(names::PAGES_CHANGED)));
        let share = of(names::PAGES_CHANGED).filter(|_| written.mean > 0.0);
        row.push(Cell::number(
            share.map(|changed| changed.mean / written.mean * 100.0),
        ));
        for quantity in [
            names::PAGES_CHANGED_BYTES,
            names::PAGES_SCAN_S,
            names::PAGES_COMPARE_S,
        ] {
            row.push(Cell::measured(of(quantity)));
        }
        if has_series {
            row.push(Cell::measured(of(names::SERIES_CHANGED_BYTES)));
            row.push(Cell::measured(of(names::SERIES_HASH_S)));
        }
        table.rows.push(row);
    }
    table
}
