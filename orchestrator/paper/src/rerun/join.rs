//! Measured values beside the printed ones, cell by cell.

use super::{
    definition::{Column, Definition, Differences, RowValue, Table, Value},
    runs::{CampaignMeasurements, MeasuredPoint, has},
    select::{RowCells, RowProblem, factors, matches, resolve},
    series::{self, JoinedSeries},
};
use crate::paper::{
    Agreement, CellKey, Kind, Likely, MeasuredHere, Measurements, Misprint, Paper, PrintedTable,
    Reason, agreement,
};
use cvc_core::mapping::Mapping;
use indexmap::{IndexMap, IndexSet};
use serde::Serialize;

/// A printed number with what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JoinedCell {
    /// Which cell.
    pub key: CellKey,
    /// In print.
    pub printed: f64,
    /// What was probably meant, if print is wrong.
    pub likely: Option<f64>,
    /// Measured here.
    pub measured: MeasuredHere,
    /// What follows.
    pub agreement: Agreement,
}

/// A row of a table of which nothing was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnmeasuredRow {
    /// Its number, from 0.
    pub row: usize,
    /// Why.
    pub because: String,
}

/// A table with what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JoinedTable {
    /// Its identifier.
    pub table: String,
    /// What a reader has to know of the measured rows.
    pub note: Option<String>,
    /// Cells with a measurement, by row.
    pub cells: Vec<JoinedCell>,
    /// Rows without.
    pub missing: Vec<UnmeasuredRow>,
}

/// A difference between two rows, in print and measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesStep {
    /// What the rows have in common.
    pub series: Vec<String>,
    /// From this value of what rises along the series.
    pub from: f64,
    /// To this one.
    pub to: f64,
    /// In print.
    pub printed: f64,
    /// Measured here.
    pub measured: f64,
    /// What follows.
    pub agreement: Agreement,
}

/// Differences along the series of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JoinedDifferences {
    /// Identifier of the table.
    #[serde(skip)]
    pub table: String,
    /// Name in links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// What it shows.
    pub caption: String,
    /// Unit of the values.
    pub unit: Option<&'static str>,
    /// Tolerance against print, in percent.
    pub tolerance_pct: f64,
    /// Why some differ by more.
    pub reason: Option<Reason>,
    /// Names of the misprints among their cells; what was probably meant stands for them.
    pub corrected: Vec<String>,
    /// Names of the misprints for which nothing stands: their rows are left out.
    pub left_out: Vec<String>,
    /// One after the other.
    pub steps: Vec<SeriesStep>,
    /// The campaigns behind them, each once.
    #[serde(skip)]
    pub campaigns: Vec<String>,
}

/// A paper with what was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Joined {
    /// Table by table.
    pub tables: Vec<JoinedTable>,
    /// Differences.
    pub differences: Vec<JoinedDifferences>,
    /// Series of checkpoints.
    pub series: Vec<JoinedSeries>,
    /// Mistakes in `measured.toml` that only show with the tables: unknown tables, columns, words.
    pub mistakes: Vec<String>,
}

impl Joined {
    /// What was measured, for the cells of the paper.
    pub fn measurements(&self) -> Measurements {
        self.tables
            .iter()
            .flat_map(|t| &t.cells)
            .map(|c| (c.key.clone(), c.measured.clone()))
            .collect()
    }

    /// Whether a campaign measured a cell, a difference or a series.
    pub fn is_measured_by(&self, campaign: &str) -> bool {
        let cells = self.tables.iter().flat_map(|t| &t.cells);
        let mut names = cells
            .flat_map(|c| &c.measured.campaigns)
            .chain(self.differences.iter().flat_map(|d| &d.campaigns))
            .chain(self.series.iter().filter_map(|s| s.campaign.as_ref()));
        names.any(|name| name == campaign)
    }
}

/// The programs that some tables of a paper are about, in the order of the definition; of all tables without a list.
pub fn programs(paper: &Paper, definition: &Definition, only: &[&str]) -> IndexSet<String> {
    let tables = definition.tables.iter();
    let wanted = tables.filter(|t| only.is_empty() || only.contains(&t.table.as_str()));
    wanted
        .filter_map(|t| Some((paper.table(&t.table)?, t.point.get("app")?)))
        .flat_map(|(printed, app)| {
            let all = rows(printed).into_iter();
            all.filter_map(move |row| resolve(app, &row).ok())
        })
        .collect()
}

/// The rows of a table as text, with what was probably meant where print is wrong.
fn rows(table: &PrintedTable) -> Vec<RowCells> {
    let text = |row: usize, column: &str, printed: &str| match table
        .misprint(row, column)
        .and_then(|m| m.likely)
    {
        Some(Likely::Text(text)) => text.clone(),
        Some(Likely::Number(number)) => number.to_string(),
        None => printed.to_owned(),
    };
    let row = |(row, cells): (usize, &Vec<crate::paper::Cell>)| {
        table
            .definition
            .columns
            .iter()
            .zip(cells)
            .map(|(c, cell)| (c.id.clone(), text(row, &c.id, cell.text())))
            .collect()
    };
    table.rows().iter().enumerate().map(row).collect()
}

/// A value of a run.
struct Found<'m> {
    campaign: &'m str,
    run: &'m str,
    value: f64,
}

/// Names of campaigns, each once.
fn campaigns(found: &[Found<'_>]) -> Vec<String> {
    let names: IndexSet<&str> = found.iter().map(|f| f.campaign).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// The values of all runs of a row, and where they come from.
fn collect<'m>(
    measured: &'m CampaignMeasurements,
    wanted: &IndexMap<String, String>,
    value: &Value,
    row: &RowCells,
) -> Result<Vec<Found<'m>>, RowProblem> {
    let images = resolve(&value.images, row)?.parse()?;
    let points = measured.points.iter().filter(|p| p.is(wanted));
    let of_point = |point: &'m MeasuredPoint| {
        let values = point.values(value, &images).into_iter();
        values.map(|(run, value)| Found {
            campaign: &point.campaign,
            run,
            value,
        })
    };
    Ok(points.flat_map(of_point).collect())
}

fn summarise(
    found: &[Found<'_>],
    tolerance_pct: f64,
    reason: Option<Reason>,
) -> Option<MeasuredHere> {
    let n = found.len();
    let value = found.iter().map(|f| f.value).sum::<f64>() / n as f64;
    let sd = (n > 1).then(|| {
        (found.iter().map(|f| (f.value - value).powi(2)).sum::<f64>() / (n - 1) as f64).sqrt()
    });
    let mut from: Vec<String> = found
        .iter()
        .take(3)
        .map(|f| format!("{} {}", f.campaign, f.run))
        .collect();
    if n > 3 {
        from.push("…".to_owned());
    }
    (n > 0).then(|| MeasuredHere {
        value,
        n,
        sd,
        from: from.join(", "),
        campaigns: campaigns(found),
        tolerance_pct,
        reason,
    })
}

/// Puts what campaigns measured beside the tables of a paper.
pub fn join(paper: &Paper, definition: &Definition, measured: &CampaignMeasurements) -> Joined {
    let mut joined = Joined::default();
    for table in &definition.tables {
        match paper.table(&table.table) {
            Some(printed) => {
                let one = one_table(printed, table, measured, &mut joined.mistakes);
                joined.tables.push(one);
            }
            None => joined
                .mistakes
                .push(format!("the paper has no table `{}`", table.table)),
        }
    }
    for wanted in &definition.differences {
        let Some(printed) = paper.table(&wanted.table) else {
            joined
                .mistakes
                .push(format!("the paper has no table `{}`", wanted.table));
            continue;
        };
        let own = definition
            .tables
            .iter()
            .find(|t| t.table == wanted.table)
            .map(|t| &t.point);
        let Some(point) = wanted.point.as_ref().or(own) else {
            joined.mistakes.push(format!(
                "`{}` says of no row which runs it is about",
                wanted.id
            ));
            continue;
        };
        let one = differences(
            paper,
            (printed, wanted, point),
            measured,
            &mut joined.mistakes,
        );
        joined.differences.push(one);
    }
    joined.series = series::join(&definition.series, measured);
    joined.mistakes.sort_unstable();
    joined.mistakes.dedup();
    joined
}

fn one_table(
    printed: &PrintedTable,
    table: &Table,
    measured: &CampaignMeasurements,
    mistakes: &mut Vec<String>,
) -> JoinedTable {
    let id = &printed.definition.id;
    let mut joined = JoinedTable {
        table: id.clone(),
        note: table.note.clone(),
        cells: Vec::new(),
        missing: Vec::new(),
    };
    for column in &table.columns {
        let Some(at) = printed.column(&column.column) else {
            mistakes.push(format!("table {id} has no column `{}`", column.column));
            continue;
        };
        if printed.definition.columns[at].kind == Kind::Label {
            mistakes.push(format!(
                "the column `{}` of table {id} has no numbers",
                column.column
            ));
        }
    }
    for (number, row) in rows(printed).iter().enumerate() {
        let wanted = match factors(&table.point, row) {
            Ok(wanted) => wanted,
            Err(because) => {
                joined.missing.push(UnmeasuredRow {
                    row: number,
                    because: declared(table, row).unwrap_or_else(|| because.to_string()),
                });
                continue;
            }
        };
        let before = joined.cells.len();
        for column in table.columns.iter().filter(|c| matches(&c.rows, row)) {
            let mut wanted = wanted.clone();
            match factors(&column.point, row) {
                Ok(own) => wanted.extend(own),
                Err(mistake) => {
                    mistakes.push(format!("table {id}, `{}`: {mistake}", column.column));
                    continue;
                }
            }
            let Some(number_in_print) = printed
                .cell(number, &column.column)
                .and_then(|c| c.number())
                .map(|p| p.value())
            else {
                continue;
            };
            match collect(measured, &wanted, &column.value, row) {
                Ok(found) => {
                    let likely = printed
                        .misprint(number, &column.column)
                        .and_then(|m| m.likely?.number());
                    joined.cells.extend(cell(
                        CellKey::new(id, number, &column.column),
                        column,
                        (number_in_print, likely),
                        &found,
                    ));
                }
                Err(mistake) => {
                    mistakes.push(format!("table {id}, `{}`: {mistake}", column.column))
                }
            }
        }
        if joined.cells.len() == before {
            joined.missing.push(UnmeasuredRow {
                row: number,
                because: why(measured, &wanted, table, row),
            });
        }
    }
    joined
}

fn cell(
    key: CellKey,
    column: &Column,
    (printed, likely): (f64, Option<f64>),
    found: &[Found<'_>],
) -> Option<JoinedCell> {
    let measured = summarise(found, column.tolerance_pct, column.reason())?;
    let agreement = measured.agreement(printed, likely);
    Some(JoinedCell {
        key,
        printed,
        likely,
        measured,
        agreement,
    })
}

fn declared(table: &Table, row: &RowCells) -> Option<String> {
    table
        .not_measured
        .iter()
        .find(|n| matches(&n.rows, row))
        .map(|n| n.because.clone())
}

/// Why nothing was measured of a row: what became of its runs, why a campaign left its point out, or what the paper's file says.
fn why(
    measured: &CampaignMeasurements,
    wanted: &IndexMap<String, String>,
    table: &Table,
    row: &RowCells,
) -> String {
    if let Some(problem) = measured
        .points
        .iter()
        .filter(|p| p.is(wanted))
        .find_map(|p| p.problem.clone())
    {
        return problem;
    }
    if let Some(left_out) = measured.left_out.iter().find(|l| has(&l.factors, wanted)) {
        return left_out.reason.clone();
    }
    if let Some(because) = declared(table, row) {
        return because;
    }
    if let Some(nodes) = wanted
        .get("mapping")
        .and_then(|m| m.parse::<Mapping>().ok())
        .map(|m| m.nodes())
        .filter(|n| *n > 1)
    {
        return format!("it needs {nodes} nodes");
    }
    if measured.points.is_empty() && measured.left_out.is_empty() {
        return "no campaign has been run".to_owned();
    }
    "no campaign has such a point".to_owned()
}

/// Rows of a series with the same value of what rises along it.
struct Level {
    along: f64,
    printed: Vec<f64>,
    measured: Vec<f64>,
}

/// Adds what was printed and measured at a value of what rises along a series.
fn add_level(levels: &mut Vec<Level>, along: f64, printed: f64, measured: &[Found<'_>]) {
    let at = levels
        .iter()
        .position(|l| l.along == along)
        .unwrap_or_else(|| {
            levels.push(Level {
                along,
                printed: Vec::new(),
                measured: Vec::new(),
            });
            levels.len() - 1
        });
    levels[at].printed.push(printed);
    levels[at].measured.extend(measured.iter().map(|f| f.value));
}

/// The differences between neighbouring levels of each series.
fn steps(
    series: IndexMap<Vec<String>, Vec<Level>>,
    tolerance_pct: f64,
    reason: Option<&Reason>,
) -> Vec<SeriesStep> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mut steps = Vec::new();
    for (named, mut levels) in series {
        levels.sort_by(|a, b| a.along.total_cmp(&b.along));
        for pair in levels.windows(2) {
            let printed = mean(&pair[1].printed) - mean(&pair[0].printed);
            let measured = mean(&pair[1].measured) - mean(&pair[0].measured);
            let agreement = agreement(measured, (printed, None), tolerance_pct, reason);
            steps.push(SeriesStep {
                series: named.clone(),
                from: pair[0].along,
                to: pair[1].along,
                printed,
                measured,
                agreement,
            });
        }
    }
    steps
}

/// The misprints of a row of a series: of the value itself, or of what says which row it is.
fn misprints<'t>(printed: &'t PrintedTable, row: usize, column: &str) -> Vec<Misprint<'t>> {
    let about = printed
        .definition
        .columns
        .iter()
        .filter(|c| c.id == column || matches!(c.kind, Kind::Label | Kind::Setting));
    about.filter_map(|c| printed.misprint(row, &c.id)).collect()
}

fn differences(
    paper: &Paper,
    (printed, wanted, point): (&PrintedTable, &Differences, &IndexMap<String, RowValue>),
    measured: &CampaignMeasurements,
    mistakes: &mut Vec<String>,
) -> JoinedDifferences {
    if printed.column(&wanted.column).is_none() {
        mistakes.push(format!(
            "table {} has no column `{}`",
            wanted.table, wanted.column
        ));
    }
    let mut series: IndexMap<Vec<String>, Vec<Level>> = IndexMap::new();
    let (mut corrected, mut left_out): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut by: IndexSet<String> = IndexSet::new();
    for (number, row) in rows(printed)
        .iter()
        .enumerate()
        .filter(|(_, row)| matches(&wanted.rows, row))
    {
        let Some(in_print) = printed
            .cell(number, &wanted.column)
            .and_then(|c| c.number())
            .map(|p| p.value())
        else {
            continue;
        };
        let named: Result<Vec<String>, RowProblem> =
            wanted.series.iter().map(|w| resolve(w, row)).collect();
        let along = resolve(&wanted.along, row)
            .and_then(|t| t.parse::<f64>().map_err(|_| RowProblem::NotANumber(t)));
        let (Ok(named), Ok(along), Ok(of_row)) = (named, along, factors(point, row)) else {
            continue;
        };
        let found = match collect(measured, &of_row, &wanted.value, row) {
            Ok(found) if !found.is_empty() => found,
            Ok(_) => continue,
            Err(mistake) => {
                mistakes.push(format!("`{}`: {mistake}", wanted.id));
                continue;
            }
        };
        let misprints = misprints(printed, number, &wanted.column);
        let unknown = misprints.iter().any(|m| m.likely.is_none());
        for misprint in &misprints {
            let name = &paper.anomalies[misprint.anomaly].id;
            let list = if unknown {
                &mut left_out
            } else {
                &mut corrected
            };
            if !list.contains(name) {
                list.push(name.clone());
            }
        }
        if unknown {
            continue;
        }
        let in_print = printed
            .misprint(number, &wanted.column)
            .and_then(|m| m.likely?.number())
            .unwrap_or(in_print);
        by.extend(campaigns(&found));
        add_level(series.entry(named).or_default(), along, in_print, &found);
    }
    let reason = wanted.reason();
    let steps = steps(series, wanted.tolerance_pct, reason.as_ref());
    JoinedDifferences {
        campaigns: by.into_iter().filter(|_| !steps.is_empty()).collect(),
        table: wanted.table.clone(),
        id: wanted.id.clone(),
        title: wanted.title.clone(),
        caption: wanted.caption.clone(),
        unit: wanted.value.unit.word(),
        tolerance_pct: wanted.tolerance_pct,
        steps,
        reason,
        corrected,
        left_out,
    }
}
