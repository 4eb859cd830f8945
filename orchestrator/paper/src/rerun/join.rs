//! Joins measured values with printed ones, cell by cell.

use super::{
    claims,
    counts::{self, JoinedCounts},
    definition::{
        Definition, Differences, RerunColumn, RerunTable, RerunValue, RowValue, StepComparison,
    },
    runs::{CampaignMeasurements, MeasuredPoint, has},
    select::{RowCells, RowProblem, factors, matches, resolve},
    series::{self, JoinedSeries},
};
use crate::paper::{
    Agreement, CellKey, Kind, Likely, MeasuredHere, Measurements, Misprint, Paper, PrintedTable,
    UnmeasuredReason, agreement,
};
use cvc_core::mapping::Mapping;
use cvc_model::stats::compare;
use indexmap::{IndexMap, IndexSet};
use serde::Serialize;

/// A printed number with its measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JoinedCell {
    /// The cell.
    pub key: CellKey,
    /// The printed number.
    pub printed: f64,
    /// The probable value, if the printed number is wrong.
    pub likely: Option<f64>,
    /// The measurement made here.
    pub measured: MeasuredHere,
    /// The result of the comparison.
    pub agreement: Agreement,
}

/// A row of a table without measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnmeasuredRow {
    /// Row number, counted from 0.
    pub row: usize,
    /// The reason why the row has no measurement.
    pub because: String,
}

/// A table with its measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JoinedTable {
    /// Identifier of the table.
    pub table: String,
    /// A note for readers about the measured rows.
    pub note: Option<String>,
    /// Cells with a measurement, in the order of rows.
    pub cells: Vec<JoinedCell>,
    /// Rows without a measurement.
    pub missing: Vec<UnmeasuredRow>,
}

/// A comparison of two rows or columns (difference, ratio or order), as printed and as measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesStep {
    /// The cells that the compared rows have in common.
    pub series: Vec<String>,
    /// Value of the rising key in the first row; for columns, the index of the first column.
    pub from: f64,
    /// Value of the rising key in the second row; for columns, the index of the second column.
    pub to: f64,
    /// The difference or ratio of the printed numbers.
    pub printed: f64,
    /// The difference or ratio of the numbers measured here.
    pub measured: f64,
    /// The result of the comparison; `None` if the runs scatter too much.
    pub agreement: Option<Agreement>,
}

/// Comparisons of neighbouring rows or columns of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JoinedDifferences {
    /// Identifier of the table.
    #[serde(skip)]
    pub table: String,
    /// Name in links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Caption.
    pub caption: String,
    /// How rows or columns are compared.
    pub compare: StepComparison,
    /// Headings of the compared columns, with `from` and `to` of the steps as indices; empty if rows are compared.
    pub between: Vec<String>,
    /// Unit of the values.
    pub unit: Option<&'static str>,
    /// Tolerance relative to the printed number, in percent.
    pub tolerance_pct: f64,
    /// The reason why some measurements differ by more than the tolerance.
    pub reason: Option<UnmeasuredReason>,
    /// Names of the misprints in the compared cells; their probable values are used instead.
    pub corrected: Vec<String>,
    /// Names of the misprints without a probable value; their rows are skipped.
    pub left_out: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<SeriesStep>,
    /// The campaigns that measured the values, without duplicates.
    #[serde(skip)]
    pub campaigns: Vec<String>,
}

/// A paper with its measurements.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Joined {
    /// Table by table.
    pub tables: Vec<JoinedTable>,
    /// Comparisons of rows or columns.
    pub differences: Vec<JoinedDifferences>,
    /// Series of checkpoints.
    pub series: Vec<JoinedSeries>,
    /// Counts by kind.
    #[serde(skip)]
    pub counts: Vec<JoinedCounts>,
    /// Errors in `measured.toml` that only the tables reveal: unknown tables, columns or images.
    pub mistakes: Vec<String>,
}

impl Joined {
    /// Returns the measurements by cell of the paper.
    pub fn measurements(&self) -> Measurements {
        self.tables
            .iter()
            .flat_map(|t| &t.cells)
            .map(|c| (c.key.clone(), c.measured.clone()))
            .collect()
    }

    /// Returns whether a campaign measured a cell, a difference or a series.
    pub fn is_measured_by(&self, campaign: &str) -> bool {
        let cells = self.tables.iter().flat_map(|t| &t.cells);
        let mut names = cells
            .flat_map(|c| &c.measured.campaigns)
            .chain(self.differences.iter().flat_map(|d| &d.campaigns))
            .chain(self.series.iter().filter_map(|s| s.campaign.as_ref()))
            .chain(self.counts.iter().flat_map(|c| &c.campaigns));
        names.any(|name| name == campaign)
    }
}

/// Returns the programs in the tables `only` of a paper, or in all tables if `only` is empty. They are in the order of the definition.
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

/// Returns the rows of a table as text, with probable values instead of misprints.
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

/// A value of one run.
struct FoundValue<'m> {
    campaign: &'m str,
    run: &'m str,
    value: f64,
}

/// Returns the names of the campaigns without duplicates.
fn campaigns(found: &[FoundValue<'_>]) -> Vec<String> {
    let names: IndexSet<&str> = found.iter().map(|f| f.campaign).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// Returns the values of all runs of a row, and a text about their source.
fn collect<'m>(
    measured: &'m CampaignMeasurements,
    wanted: &IndexMap<String, String>,
    value: &RerunValue,
    row: &RowCells,
) -> Result<Vec<FoundValue<'m>>, RowProblem> {
    let images = resolve(&value.images, row)?.parse()?;
    let points = measured.points.iter().filter(|p| p.is(wanted));
    let of_point = |point: &'m MeasuredPoint| {
        let values = point.values(value, &images).into_iter();
        values.map(|(run, value)| FoundValue {
            campaign: &point.campaign,
            run,
            value,
        })
    };
    Ok(points.flat_map(of_point).collect())
}

fn summarise(
    found: &[FoundValue<'_>],
    tolerance_pct: f64,
    reason: Option<UnmeasuredReason>,
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

/// Joins the measurements of campaigns with the tables of a paper.
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
            joined
                .mistakes
                .push(format!("`{}` selects runs for no row", wanted.id));
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
    for wanted in &definition.counts {
        match counts::join(paper, wanted, measured, rows) {
            Ok(counts) => joined.counts.push(counts),
            Err(mistake) => joined.mistakes.push(mistake),
        }
    }
    joined.mistakes.extend(claims::unknown(paper, definition));
    joined.mistakes.sort_unstable();
    joined.mistakes.dedup();
    joined
}

fn one_table(
    printed: &PrintedTable,
    table: &RerunTable,
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
    column: &RerunColumn,
    (printed, likely): (f64, Option<f64>),
    found: &[FoundValue<'_>],
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

fn declared(table: &RerunTable, row: &RowCells) -> Option<String> {
    table
        .not_measured
        .iter()
        .find(|n| matches(&n.rows, row))
        .map(|n| n.because.clone())
}

/// Returns the reason why a row was not measured: the outcome of its runs, the reason for excluding its point, or the reason in the paper's file.
fn why(
    measured: &CampaignMeasurements,
    wanted: &IndexMap<String, String>,
    table: &RerunTable,
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

/// The rows of a series in which the rising key has the value `along`.
struct Level {
    along: f64,
    printed: Vec<f64>,
    measured: Vec<f64>,
}

/// Adds the printed and measured numbers of a row in which the rising key has the value `along`.
fn add_level(levels: &mut Vec<Level>, along: f64, printed: f64, measured: &[FoundValue<'_>]) {
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

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the comparisons of rows with neighbouring values of the rising key, for each series.
fn steps(series: IndexMap<Vec<String>, Vec<Level>>, wanted: &Differences) -> Vec<SeriesStep> {
    let reason = wanted.reason();
    let mut steps = Vec::new();
    for (named, mut levels) in series {
        levels.sort_by(|a, b| a.along.total_cmp(&b.along));
        for pair in levels.windows(2) {
            let [before, later] = pair else { continue };
            let of = |of: fn(&Level) -> &Vec<f64>| match wanted.compare {
                StepComparison::Difference => mean(of(later)) - mean(of(before)),
                StepComparison::Ratio | StepComparison::Order => mean(of(later)) / mean(of(before)),
            };
            let (printed, measured) = (of(|l| &l.printed), of(|l| &l.measured));
            let agreement = match wanted.compare {
                StepComparison::Difference => Some(agreement(
                    measured,
                    (printed, None),
                    wanted.tolerance_pct,
                    reason.as_ref(),
                )),
                StepComparison::Ratio => ratio_agrees((printed, measured), (before, later), wanted),
                StepComparison::Order => order_agrees((printed, measured), (before, later), wanted),
            };
            steps.push(SeriesStep {
                series: named.clone(),
                from: before.along,
                to: later.along,
                printed,
                measured,
                agreement,
            });
        }
    }
    steps
}

/// Returns whether a measured ratio agrees with the printed one. Returns `None` if it differs, but the scatter of the runs leaves this undecided: the
/// ratio has no interval, or the interval includes the printed ratio.
fn ratio_agrees(
    (printed, measured): (f64, f64),
    (before, later): (&Level, &Level),
    wanted: &Differences,
) -> Option<Agreement> {
    let reason = wanted.reason();
    let found = agreement(
        measured,
        (printed, None),
        wanted.tolerance_pct,
        reason.as_ref(),
    );
    let is_open = || {
        let compared = compare(&later.measured, &before.measured);
        let interval = compared.and_then(|c| c.interval);
        interval.is_none_or(|i| i.holds(printed))
    };
    (found != Agreement::Differs || !wanted.value.scatters() || !is_open()).then_some(found)
}

/// Returns whether two values are in the same order as in print. Returns `None` if they are equal in print, or if the scatter of the runs leaves the
/// order undecided.
fn order_agrees(
    (printed, measured): (f64, f64),
    (before, later): (&Level, &Level),
    wanted: &Differences,
) -> Option<Agreement> {
    let differs = || compare(&later.measured, &before.measured).is_some_and(|c| c.differs());
    let is_decided = printed != 1.0 && (!wanted.value.scatters() || differs());
    is_decided.then_some(match (measured > 1.0) == (printed > 1.0) {
        true => Agreement::WithPrint,
        false => Agreement::Differs,
    })
}

/// Returns the misprints in a row of a series, both in the value itself and in the cells that identify the row.
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
    // one column whose rows are compared, or several columns of the same row
    let columns: Vec<(&str, Option<&IndexMap<String, RowValue>>)> = match &wanted.between[..] {
        [] => vec![(&wanted.column, None)],
        several => several
            .iter()
            .map(|c| (&*c.column, Some(&c.point)))
            .collect(),
    };
    let mut headings = Vec::new();
    for (column, _) in &columns {
        match printed.column(column) {
            Some(at) => headings.push(printed.definition.columns[at].heading.clone()),
            None => mistakes.push(format!("table {} has no column `{column}`", wanted.table)),
        }
    }
    let mut series: IndexMap<Vec<String>, Vec<Level>> = IndexMap::new();
    let (mut corrected, mut left_out): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut by: IndexSet<String> = IndexSet::new();
    let rows = rows(printed);
    let chosen = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| matches(&wanted.rows, row));
    for ((number, row), (at, (column, own))) in
        chosen.flat_map(|row| columns.iter().enumerate().map(move |c| (row, c)))
    {
        let cell = printed.cell(number, column).and_then(|c| c.number());
        let Some(in_print) = cell.map(|p| p.value()) else {
            continue;
        };
        let named: Result<Vec<String>, RowProblem> =
            wanted.series.iter().map(|w| resolve(w, row)).collect();
        let along = match own {
            Some(_) => Ok(at as f64),
            None => resolve(&wanted.along, row)
                .and_then(|t| t.parse::<f64>().map_err(|_| RowProblem::NotANumber(t))),
        };
        let of_column = own.map_or_else(|| Ok(IndexMap::new()), |own| factors(own, row));
        let (Ok(named), Ok(along), Ok(mut of_row), Ok(of_column)) =
            (named, along, factors(point, row), of_column)
        else {
            continue;
        };
        of_row.extend(of_column);
        let found = match collect(measured, &of_row, &wanted.value, row) {
            Ok(found) if !found.is_empty() => found,
            Ok(_) => continue,
            Err(mistake) => {
                mistakes.push(format!("`{}`: {mistake}", wanted.id));
                continue;
            }
        };
        let misprints = misprints(printed, number, column);
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
            .misprint(number, column)
            .and_then(|m| m.likely?.number())
            .unwrap_or(in_print);
        by.extend(campaigns(&found));
        add_level(series.entry(named).or_default(), along, in_print, &found);
    }
    let steps = steps(series, wanted);
    JoinedDifferences {
        campaigns: by.into_iter().filter(|_| !steps.is_empty()).collect(),
        table: wanted.table.clone(),
        id: wanted.id.clone(),
        title: wanted.title.clone(),
        caption: wanted.caption.clone(),
        compare: wanted.compare,
        between: if wanted.between.is_empty() {
            Vec::new()
        } else {
            headings
        },
        unit: match wanted.compare {
            StepComparison::Difference => wanted.value.unit.word(),
            StepComparison::Ratio | StepComparison::Order => None,
        },
        tolerance_pct: wanted.tolerance_pct,
        steps,
        reason: wanted.reason(),
        corrected,
        left_out,
    }
}
