//! What was measured of a paper's tables, as sections of a report.

use super::{
    join::{Joined, JoinedCell, JoinedDifferences, JoinedTable},
    series,
};
use crate::paper::{Agreement, Paper, PrintedTable, Reason};
use cvc_index::error::AnalysisError;
use cvc_show::{Block, Cell, Column, Section, Table};
use indexmap::IndexMap;
use serde::Serialize;

/// Numbers of cells by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Within their tolerance.
    pub within: usize,
    /// Not, for a known reason.
    pub differs: usize,
    /// Not, for no known reason.
    pub unexplained: usize,
    /// Rows of which nothing was measured.
    pub rows_not_measured: usize,
}

impl Tally {
    fn add(&mut self, agreement: Agreement) {
        match agreement {
            Agreement::WithPrint | Agreement::WithLikely => self.within += 1,
            Agreement::Explained => self.differs += 1,
            Agreement::Differs => self.unexplained += 1,
        }
    }

    /// Cells with a measurement.
    pub fn measured(&self) -> usize {
        self.within + self.differs + self.unexplained
    }
}

/// How the cells of a table came out.
pub fn tally(table: &JoinedTable) -> Tally {
    let mut tally = Tally {
        rows_not_measured: table.missing.len(),
        ..Tally::default()
    };
    table.cells.iter().for_each(|c| tally.add(c.agreement));
    tally
}

fn heading(table: &PrintedTable, column: &str) -> String {
    table
        .definition
        .columns
        .iter()
        .find(|c| c.id == column)
        .map_or_else(|| column.to_owned(), |c| c.heading.clone())
}

fn words(
    agreement: Agreement,
    tolerance_pct: f64,
    likely: Option<f64>,
    reason: Option<&Reason>,
) -> String {
    match agreement {
        Agreement::WithPrint if tolerance_pct == 0.0 => "equal".to_owned(),
        Agreement::WithPrint => format!("within {tolerance_pct} %"),
        Agreement::WithLikely => {
            let likely = likely.map(|l| format!(" {l}")).unwrap_or_default();
            format!("within {tolerance_pct} % of what was probably meant:{likely}")
        }
        Agreement::Explained => format!("differs: {}", reason.map_or("", |r| &r.because)),
        Agreement::Differs => "differs, and nothing that is known explains it".to_owned(),
    }
}

fn pct(printed: f64, measured: f64) -> Cell {
    if printed == 0.0 {
        return Cell::Empty;
    }
    let text = format!("{:+.2}", 100.0 * (measured - printed) / printed.abs());
    // what rounds to nothing has no sign
    Cell::text(if text.ends_with("0.00") && text.len() == 5 {
        "0.00".to_owned()
    } else {
        text
    })
}

/// A measured number with as many decimals as print has.
fn digits(printed: &str, measured: f64) -> String {
    let decimals = printed.split_once('.').map_or(0, |(_, after)| after.len());
    format!("{measured:.decimals$}")
}

fn of_table(printed: &PrintedTable, joined: &JoinedTable) -> Vec<Block> {
    let id = joined.table.replace('.', "-");
    let mut blocks = Vec::new();
    let tally = tally(joined);
    if !joined.cells.is_empty() {
        let caption = format!(
            "{}. {} cells within their tolerance, {} differ for a known reason, {} for none that is known.",
            printed.definition.caption, tally.within, tally.differs, tally.unexplained
        );
        let columns = vec![
            Column::plain("row", "row"),
            Column::plain("quantity", "quantity"),
            Column::plain("printed", "printed"),
            Column::plain("measured", "measured here"),
            Column::plain("deviation_pct", "deviation, %"),
            Column::plain("runs", "runs"),
            Column::plain("verdict", "verdict"),
            Column::plain("from", "from").data_only(),
        ];
        let mut table = Table::new(
            &format!("measured-{id}"),
            &printed.definition.title,
            &caption,
            columns,
        );
        table.rows = joined.cells.iter().map(|cell| row(printed, cell)).collect();
        blocks.push(Block::Table(table));
        if let Some(note) = &joined.note {
            blocks.push(Block::Text { text: note.clone() });
        }
    }
    if !joined.missing.is_empty() {
        let title = format!("{}: rows that were not measured", printed.definition.title);
        let columns = vec![
            Column::plain("rows", "rows"),
            Column::plain("because", "not measured because"),
        ];
        let mut table = Table::new(
            &format!("not-measured-{id}"),
            &title,
            "The reason of each.",
            columns,
        );
        table.folded = true;
        let mut reasons: IndexMap<&str, Vec<String>> = IndexMap::new();
        for missing in &joined.missing {
            let of_reason = reasons.entry(&missing.because).or_default();
            let name = printed.row_name(missing.row);
            if !of_reason.contains(&name) {
                of_reason.push(name);
            }
        }
        table.rows = reasons
            .into_iter()
            .map(|(because, rows)| vec![Cell::text(rows.join("; ")), Cell::text(because)])
            .collect();
        blocks.push(Block::Table(table));
    }
    blocks
}

fn row(printed: &PrintedTable, cell: &JoinedCell) -> Vec<Cell> {
    let in_print = printed
        .cell(cell.key.row, &cell.key.column)
        .map_or("", |c| c.text());
    vec![
        Cell::text(printed.row_name(cell.key.row)),
        Cell::text(heading(printed, &cell.key.column)),
        Cell::text(in_print),
        Cell::text(digits(in_print, cell.measured.value)),
        pct(cell.printed, cell.measured.value),
        Cell::count(cell.measured.n),
        Cell::text(words(
            cell.agreement,
            cell.measured.tolerance_pct,
            cell.likely,
            cell.measured.reason.as_ref(),
        )),
        Cell::text(cell.measured.from.clone()),
    ]
}

fn of_differences(joined: &JoinedDifferences) -> Block {
    let columns = vec![
        Column::plain("series", "series"),
        Column::plain("from", "from"),
        Column::plain("to", "to"),
        Column::plain("printed", "printed"),
        Column::plain("measured", "measured here"),
        Column::plain("deviation_pct", "deviation, %"),
        Column::plain("verdict", "verdict"),
    ];
    let mut caption = joined.caption.clone();
    if let Some(unit) = joined.unit {
        caption.push_str(&format!(" In {unit}."));
    }
    if !joined.corrected.is_empty() {
        caption.push_str(&format!(
            " What is wrong in print ({}) enters as what was probably meant.",
            joined.corrected.join(", ")
        ));
    }
    if !joined.left_out.is_empty() {
        caption.push_str(&format!(
            " Rows that are wrong in print are left out ({}).",
            joined.left_out.join(", ")
        ));
    }
    let mut table = Table::new(
        &format!("differences-{}", joined.id),
        &joined.title,
        &caption,
        columns,
    );
    for step in &joined.steps {
        table.rows.push(vec![
            Cell::text(step.series.join(", ")),
            Cell::number(step.from),
            Cell::number(step.to),
            Cell::text(format!("{:.2}", step.printed)),
            Cell::text(format!("{:.2}", step.measured)),
            pct(step.printed, step.measured),
            Cell::text(words(
                step.agreement,
                joined.tolerance_pct,
                None,
                joined.reason.as_ref(),
            )),
        ]);
    }
    Block::Table(table)
}

/// What was measured, as sections: the cells of each table, then the differences.
///
/// # Errors
/// When a plot cannot be drawn.
pub fn sections(
    paper: &Paper,
    joined: &Joined,
    note: Option<&str>,
) -> Result<Vec<Section>, AnalysisError> {
    let mut blocks: Vec<Block> = note
        .map(|text| Block::Text {
            text: text.to_owned(),
        })
        .into_iter()
        .collect();
    for table in &joined.tables {
        if let Some(printed) = paper.table(&table.table) {
            blocks.extend(of_table(printed, table));
        }
    }
    let mut sections = vec![Section {
        id: "measured",
        title: "Measured here".to_owned(),
        blocks,
    }];
    let differences: Vec<Block> = joined
        .differences
        .iter()
        .filter(|d| !d.steps.is_empty())
        .map(of_differences)
        .collect();
    let mut of_series = Vec::new();
    for one in &joined.series {
        of_series.extend(series::blocks(one)?);
    }
    let further = [
        ("differences", "Differences between rows", differences),
        ("series", "Series of checkpoints", of_series),
    ];
    for (id, title, blocks) in further {
        if !blocks.is_empty() {
            sections.push(Section {
                id,
                title: title.to_owned(),
                blocks,
            });
        }
    }
    sections.retain(|s| !s.blocks.is_empty());
    Ok(sections)
}
