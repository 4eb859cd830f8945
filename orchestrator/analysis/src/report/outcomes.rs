//! Failed, disturbed, skipped and not attempted runs, with the reasons.

use super::{noise, summary};
use crate::results::{data::Data, quantity, rows::RunRow};
use cvc_index::RunOutcome;
use cvc_show::{Block, Cell, Column, Section, Table};

/// Identifier of the table of all runs.
const ALL: &str = "run_directories";

pub(super) fn section(data: &Data) -> Section {
    let mut blocks = Vec::new();
    let runs = |id: &str, title: &str, caption: &str, which: &dyn Fn(&RunRow) -> bool| {
        runs(data, id, title, caption, which)
    };
    let tables = [
        runs(
            "failed",
            "Failed runs",
            "Runs that did not succeed, with cause and detail. Their output is in the files stderr and stdout (of a restart: restart.stderr, restart.stdout) of their directory, relative to the campaign.",
            &|r| r.state == RunOutcome::Failed,
        ),
        runs(
            "quarantined",
            "Not tried",
            "Runs that were not tried because other runs of their point had failed too often.",
            &|r| r.state == RunOutcome::Quarantined,
        ),
        runs(
            "retried",
            "Succeeded after retries",
            "Runs that succeeded, but not at the first attempt.",
            &|r| r.state == RunOutcome::Succeeded && r.attempts > 1,
        ),
        noise::table(data),
        decided(data),
        records(data),
        skipped(data),
    ];
    blocks.extend(
        tables
            .into_iter()
            .filter(|t| !t.rows.is_empty())
            .map(Block::Table),
    );
    if blocks.is_empty() {
        blocks.push(Block::Text {
            text: "No run failed, and none was skipped.".to_owned(),
        });
    }
    let mut all = runs(
        ALL,
        "Runs and their directories",
        "Every run with its point and the directory of its results.",
        &|r| r.dir.is_some(),
    );
    all.folded = true;
    blocks.extend((!all.rows.is_empty()).then_some(Block::Table(all)));
    Section {
        id: "outcomes",
        title: "Outcomes".to_owned(),
        blocks,
    }
}

fn runs(
    data: &Data,
    id: &str,
    title: &str,
    caption: &str,
    which: &dyn Fn(&RunRow) -> bool,
) -> Table {
    let mut columns = summary::factor_columns(data);
    let state = Column::plain("state", "state");
    columns.extend([
        Column::plain("repeat", "repeat"),
        if id == ALL { state } else { state.data_only() },
    ]);
    columns.extend(["attempts", "cause"].map(|c| Column::plain(c, c)));
    columns.extend(["detail", "directory"].map(|c| Column::plain(c, c)));
    columns.push(Column::plain("run", "run").data_only());
    let mut table = Table::new(id, title, caption, columns);
    for r in data.runs.iter().filter(|r| which(r)) {
        let mut row = summary::factor_cells(data, r.point);
        row.extend([Cell::text(repeat(r)), Cell::text(r.state.as_str())]);
        row.push(Cell::count(r.attempts as usize));
        row.extend(
            [&r.cause, &r.detail, &r.dir].map(|t| Cell::text(t.clone().unwrap_or_default())),
        );
        row.push(Cell::text(&r.id));
        table.rows.push(row);
    }
    table
}

/// Makes the table of points whose repeats ended by the campaign's stopping rule; points with wide intervals come first.
fn decided(data: &Data) -> Table {
    let mut columns = summary::factor_columns(data);
    columns.extend(["repeats", "narrow"].map(|c| Column::plain(c, c)));
    columns.push(Column::plain("reason", "interval"));
    let caption = "Points that were repeated until their interval was narrow, with its half width in percent of the mean. Because repeats that \
                   happen to agree end a point early, intervals have a level of 97 %. For normal values 93 to 98 in 100 cover the mean; for values with a \
                   tail or two states fewer do (docs/calibration.md).";
    let mut table = Table::new(
        "decided",
        "Repeats until intervals were narrow",
        caption,
        columns,
    );
    let mut decisions: Vec<_> = data.decisions.iter().collect();
    decisions.sort_by_key(|(point, decision)| (decision.is_narrow, **point));
    for (point, decision) in decisions {
        let mut row = summary::factor_cells(data, *point);
        row.push(Cell::count(decision.repeats as usize));
        row.extend([
            Cell::text(if decision.is_narrow { "yes" } else { "no" }),
            Cell::text(&decision.reason),
        ]);
        table.rows.push(row);
    }
    table
}

fn records(data: &Data) -> Table {
    let mut columns = summary::factor_columns(data);
    columns.extend(["repeat", "records"].map(|c| Column::plain(c, c)));
    columns.extend(["detail", "directory"].map(|c| Column::plain(c, c)));
    columns.push(Column::plain("run", "run").data_only());
    let caption = "Runs that finished, but whose records cannot be read, or changed after the run had finished (the checksum differs). This report excludes missing \
                   and damaged records and includes changed ones.";
    let mut table = Table::new(
        "records_state",
        "Records missing, damaged or changed",
        caption,
        columns,
    );
    for r in data.runs.iter().filter(|r| r.records.is_unsound()) {
        let mut row = summary::factor_cells(data, r.point);
        row.extend([Cell::text(repeat(r)), Cell::text(r.records.as_str())]);
        row.extend([&r.records_detail, &r.dir].map(|t| Cell::text(t.clone().unwrap_or_default())));
        row.push(Cell::text(&r.id));
        table.rows.push(row);
    }
    table
}

fn skipped(data: &Data) -> Table {
    // Excluded points may differ in a factor that is constant for all points that run.
    let same = |f: &str| {
        let first = data.excluded.first().and_then(|e| e.factors.get(f));
        data.excluded.iter().all(|e| e.factors.get(f) == first)
            && data
                .points
                .iter()
                .all(|p| Some(p.factor(f)) == first.map(String::as_str))
    };
    let mut columns: Vec<Column> = data
        .factors
        .iter()
        .map(|f| {
            let plain = Column::plain(&quantity::factor_column(f), &quantity::factor_heading(f));
            if same(f) || f == "processes" {
                plain.data_only()
            } else {
                plain
            }
        })
        .collect();
    columns.extend([
        Column::plain("excluded_by", "by"),
        Column::plain("reason", "reason"),
    ]);
    let mut table = Table::new(
        "excluded",
        "Excluded points",
        "Combinations of the matrix that are not run, with the excluding rule and the reason.",
        columns,
    );
    for e in &data.excluded {
        let mut row: Vec<Cell> = data
            .factors
            .iter()
            .map(|f| summary::level(e.factors.get(f).map(String::as_str).unwrap_or_default()))
            .collect();
        row.extend([Cell::text(&e.by), Cell::text(&e.reason)]);
        table.rows.push(row);
    }
    table
}

fn repeat(r: &RunRow) -> String {
    if r.warmup {
        format!("warm-up {}", r.repeat)
    } else {
        r.repeat.to_string()
    }
}
