//! Shows the measurements for a paper's tables as sections of a report.

use super::{
    counts::JoinedCounts,
    definition::StepComparison,
    join::{Joined, JoinedCell, JoinedDifferences, JoinedTable},
    series,
};
use crate::paper::{Agreement, Paper, PrintedTable, UnmeasuredReason};
use cvc_index::error::AnalysisError;
use cvc_show::{Block, Cell, Column, Section, Table};
use indexmap::IndexMap;
use serde::Serialize;

/// Number of cells by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerdictTally {
    /// Cells within their tolerance.
    pub within: usize,
    /// Cells outside their tolerance for a known reason.
    pub differs: usize,
    /// Cells outside their tolerance for no known reason.
    pub unexplained: usize,
    /// Rows without a measurement.
    pub rows_not_measured: usize,
}

impl VerdictTally {
    fn add(&mut self, agreement: Agreement) {
        match agreement {
            Agreement::WithPrint | Agreement::WithLikely => self.within += 1,
            Agreement::Explained => self.differs += 1,
            Agreement::Differs => self.unexplained += 1,
        }
    }

    /// Returns the number of cells with a measurement.
    pub fn measured(&self) -> usize {
        self.within + self.differs + self.unexplained
    }
}

/// Counts the cells of a table by verdict.
pub fn tally(table: &JoinedTable) -> VerdictTally {
    let mut tally = VerdictTally {
        rows_not_measured: table.missing.len(),
        ..VerdictTally::default()
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

fn describe(
    agreement: Agreement,
    tolerance_pct: f64,
    likely: Option<f64>,
    reason: Option<&UnmeasuredReason>,
) -> String {
    match agreement {
        Agreement::WithPrint if tolerance_pct == 0.0 => "equal".to_owned(),
        Agreement::WithPrint => format!("within {tolerance_pct} %"),
        Agreement::WithLikely => {
            let likely = likely.map(|l| format!(" {l}")).unwrap_or_default();
            format!("within {tolerance_pct} % of the probable value:{likely}")
        }
        Agreement::Explained => format!("differs: {}", reason.map_or("", |r| &r.because)),
        Agreement::Differs => "differs for no known reason".to_owned(),
    }
}

fn pct(printed: f64, measured: f64) -> Cell {
    if printed == 0.0 {
        return Cell::Empty;
    }
    let text = format!("{:+.2}", 100.0 * (measured - printed) / printed.abs());
    // a number that rounds to zero is shown without sign
    Cell::text(if text.ends_with("0.00") && text.len() == 5 {
        "0.00".to_owned()
    } else {
        text
    })
}

/// Formats a measured number with as many decimals as the printed one.
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
            "{}. {} cells within their tolerance, {} differ for a known reason, {} for no known reason.",
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
        let title = format!("{}: rows not measured", printed.definition.title);
        let columns = vec![
            Column::plain("rows", "rows"),
            Column::plain("because", "reason"),
        ];
        let mut table = Table::new(
            &format!("not-measured-{id}"),
            &title,
            "Rows by reason.",
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
        Cell::text(describe(
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
    match joined.compare {
        StepComparison::Difference => {}
        StepComparison::Ratio => caption.push_str(" The later value divided by the previous one."),
        StepComparison::Order => caption
            .push_str(" The later value divided by the previous one: only the order is compared."),
    }
    if !joined.corrected.is_empty() {
        caption.push_str(&format!(
            " Misprints ({}) are replaced by the probable values.",
            joined.corrected.join(", ")
        ));
    }
    if !joined.left_out.is_empty() {
        caption.push_str(&format!(
            " Rows with misprints are left out ({}).",
            joined.left_out.join(", ")
        ));
    }
    let mut table = Table::new(
        &format!("differences-{}", joined.id),
        &joined.title,
        &caption,
        columns,
    );
    let level = |at: f64| match joined.between.get(at as usize) {
        Some(heading) => Cell::text(heading),
        None => Cell::number(at),
    };
    for step in &joined.steps {
        let verdict = match (step.agreement, joined.compare) {
            (None, _) => "undecided: the runs scatter too much".to_owned(),
            (Some(Agreement::WithPrint), StepComparison::Order) => "the same order".to_owned(),
            (Some(_), StepComparison::Order) => "the opposite order".to_owned(),
            (Some(agreement), StepComparison::Difference | StepComparison::Ratio) => describe(
                agreement,
                joined.tolerance_pct,
                None,
                joined.reason.as_ref(),
            ),
        };
        table.rows.push(vec![
            Cell::text(step.series.join(", ")),
            level(step.from),
            level(step.to),
            Cell::text(format!("{:.2}", step.printed)),
            Cell::text(format!("{:.2}", step.measured)),
            pct(step.printed, step.measured),
            Cell::text(verdict),
        ]);
    }
    Block::Table(table)
}

/// Returns the measurements as sections: first the cells of each table, then the comparisons.
///
/// # Errors
/// A plot cannot be drawn.
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
    blocks.extend(joined.counts.iter().flat_map(JoinedCounts::blocks));
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
