//! `measured.toml` in the folder of a paper: the campaigns that rerun its tables, and the runs and records for each cell.

use crate::paper::{CellValues, Test, UnmeasuredReason, check_test};
use cvc_core::source::{SourceError, SourceErrors, SourceText, suggestion};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::path::Path;
use toml::{Spanned, de::DeValue};

/// Version of the format.
pub const SCHEMA: u32 = 1;
/// Name of the file in the folder of a paper.
pub const FILE: &str = "measured.toml";

/// Factors of a point by which rows are matched.
pub const FACTOR_NAMES: [&str; 15] = [
    "app",
    "class",
    "mapping",
    "nodes",
    "processes",
    "mpi",
    "checkpointer",
    "compression",
    "aggregators",
    "cb_buffer",
    "strategy",
    "layout",
    "writers",
    "storage",
    "tracer",
];

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Version of the format: 1.
    schema: u32,
    /// A note for readers about the runs made here.
    #[serde(default)]
    pub note: Option<String>,
    /// Campaigns that measure the part that is possible on one machine.
    pub campaigns: Vec<Campaign>,
    /// Tables whose cells are measured.
    #[serde(default)]
    pub tables: Vec<RerunTable>,
    /// Series of checkpoints, which a paper may describe without a table.
    #[serde(default)]
    pub series: Vec<SeriesDefinition>,
    /// Comparisons of rows, which can agree even if the values themselves do not.
    #[serde(default)]
    pub differences: Vec<Differences>,
    /// Counts by kind, shown next to printed ones.
    #[serde(default)]
    pub counts: Vec<CountsDefinition>,
    /// Tests of the paper's claims.
    #[serde(default)]
    pub claims: Vec<ClaimTests>,
}

/// Tests of a claim on runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimTests {
    /// Name of the claim in `claims.toml`.
    pub claim: String,
    /// A factor: each of its levels is also judged by itself.
    #[serde(default)]
    pub by: Option<String>,
    /// The tests; the claim holds if all of them pass.
    pub tests: Vec<Test<RunSide>>,
}

/// One side of a test: points of campaigns.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSide {
    /// Factors of the points: a value or a list of values each. Empty for all points.
    #[serde(default)]
    pub point: IndexMap<String, CellValues>,
    /// How the value of a run is computed from its records.
    pub value: RerunValue,
    /// Whether the number of a point is the coefficient of variation of its runs, in percent, instead of their mean.
    #[serde(default)]
    pub scatter: bool,
}

/// Counts by kind, as printed and as measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountsDefinition {
    /// Name in links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// The printed table.
    pub table: String,
    /// Its column with the counts.
    pub column: String,
    /// Columns whose cells distinguish settings of the printed counts.
    pub series: Vec<String>,
    /// The kind in records for a printed row.
    pub kind: FromCell,
    /// The level of `factor` for a printed row.
    pub level: FromCell,
    /// The compared factor.
    pub factor: String,
    /// The factor whose levels were measured in place of the paper's, such as `storage`.
    pub by: String,
    /// Name of the records.
    pub record: String,
    /// Known file system whose totals are shown for the measured numbers of clients and checkpoints, if `factor` is `layout`.
    #[serde(default)]
    pub law: Option<String>,
    /// Levels of `by` that have no runs, each with the reason.
    #[serde(default)]
    pub not_measured: IndexMap<String, String>,
}

/// A campaign file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Campaign {
    /// Path relative to the folder of the paper.
    pub file: String,
    /// The variant of the file for one machine.
    pub variant: String,
}

/// The runs and records of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RerunTable {
    /// Identifier of the table in `paper.toml`.
    pub table: String,
    /// Factors of the points whose runs belong to a row.
    pub point: IndexMap<String, RowValue>,
    /// The reason why the measured rows differ from the printed ones, if they do.
    #[serde(default)]
    pub note: Option<String>,
    /// The measured columns of the table.
    pub columns: Vec<RerunColumn>,
    /// Reasons why rows are not measured, if no campaign measured them; the first match counts.
    #[serde(default)]
    pub not_measured: Vec<NotMeasured>,
}

/// A value that may depend on the row.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a text, a number, or a table with `column`")]
pub enum RowValue {
    /// The same number in every row.
    Number(i64),
    /// A text in which `{column}` is replaced by the row's cell in that column.
    Text(String),
    /// A value derived from a cell.
    Cell(FromCell),
}

/// A value derived from a cell of the row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromCell {
    /// The column.
    pub column: String,
    /// A regular expression with one group, which selects the part of the cell to use.
    #[serde(default)]
    pub pattern: Option<String>,
    /// The level in campaigns for each cell text; a cell that is not in the list is not measured. Without a list, the cell itself is the level.
    #[serde(default)]
    pub values: IndexMap<String, String>,
}

/// The records for a column.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RerunColumn {
    /// The column of the table.
    pub column: String,
    /// The rows that are measured: for each column, a cell value or a list of values. Empty for all rows.
    #[serde(default)]
    pub rows: IndexMap<String, CellValues>,
    /// Factors of the points that differ from the table's.
    #[serde(default)]
    pub point: IndexMap<String, RowValue>,
    /// How the value is computed from the records.
    pub value: RerunValue,
    /// Tolerance in percent of the printed number.
    pub tolerance_pct: f64,
    /// The reason for a larger difference.
    #[serde(default)]
    pub because: Option<String>,
    /// Differences that the reason explains: minimum and maximum of measured - printed, in the unit of the column. Required if there is a reason.
    #[serde(default)]
    pub explains: Option<[f64; 2]>,
}

/// How a value is computed from the records of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RerunValue {
    /// Name of the records. Matching records of one image are added up.
    pub record: String,
    /// Zones of the records; empty for all.
    #[serde(default)]
    pub zones: Vec<String>,
    /// Parts of zones; empty for all.
    #[serde(default)]
    pub subs: Vec<String>,
    /// Kind of files.
    #[serde(default)]
    pub kind: Option<String>,
    /// The images: `ranks`, `largest N`, `but-largest N`, `launcher NAME`, `whole`.
    #[serde(default = "all_ranks")]
    pub images: RowValue,
    /// The unit of the printed value, by which the sum is divided.
    #[serde(default)]
    pub unit: PrintUnit,
}

impl RerunValue {
    /// Returns the value of records of the whole run.
    pub fn of_run(record: &str, kind: Option<&str>, unit: PrintUnit) -> Self {
        Self {
            record: record.to_owned(),
            zones: Vec::new(),
            subs: Vec::new(),
            kind: kind.map(str::to_owned),
            images: RowValue::Text("whole".to_owned()),
            unit,
        }
    }

    /// Returns whether values differ between equal runs, as times do; sizes do not.
    pub fn scatters(&self) -> bool {
        self.record.ends_with("_s")
    }
}

/// The unit of a printed column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PrintUnit {
    /// 2^20 bytes.
    #[default]
    MiB,
    /// 2^30 bytes.
    GiB,
    /// The unit of the records.
    #[serde(rename = "as-is")]
    AsIs,
}

impl PrintUnit {
    /// Returns the size of the unit, in the unit of the records.
    pub fn size(self) -> f64 {
        match self {
            Self::MiB => cvc_core::units::MIB,
            Self::GiB => cvc_core::units::MIB * 1024.0,
            Self::AsIs => 1.0,
        }
    }

    /// Returns the name of the unit in headings.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::MiB => Some("MiB"),
            Self::GiB => Some("GiB"),
            Self::AsIs => None,
        }
    }
}

fn all_ranks() -> RowValue {
    RowValue::Text("ranks".into())
}

/// Rows that are not measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotMeasured {
    /// Values that the cells of the row must have.
    #[serde(default)]
    pub rows: IndexMap<String, CellValues>,
    /// The reason why the rows are not measured.
    pub because: String,
}

/// Comparisons of a column between the rows of a series.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Differences {
    /// Name in links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Caption, one sentence.
    pub caption: String,
    /// The table.
    pub table: String,
    /// The column; empty if `between` names several.
    #[serde(default)]
    pub column: String,
    /// How two rows are compared.
    #[serde(default)]
    pub compare: StepComparison,
    /// Columns to compare within a row, each with the previous one, instead of rows.
    #[serde(default)]
    pub between: Vec<ColumnOfRuns>,
    /// Rows to compare, in the form of [`RerunColumn::rows`].
    #[serde(default)]
    pub rows: IndexMap<String, CellValues>,
    /// Columns with equal cells in all rows of a series.
    pub series: Vec<RowValue>,
    /// The rising key: a number in each row that orders the rows of a series. Not used with `between`.
    #[serde(default = "nothing")]
    pub along: RowValue,
    /// Factors of the points, instead of the table's.
    #[serde(default)]
    pub point: Option<IndexMap<String, RowValue>>,
    /// How the value is computed from the records.
    pub value: RerunValue,
    /// Tolerance of a difference or a ratio, in percent of the printed one; not used for an order.
    #[serde(default)]
    pub tolerance_pct: f64,
    /// The reason for a larger difference.
    #[serde(default)]
    pub because: Option<String>,
    /// Differences that the reason explains, in the form of [`RerunColumn::explains`]; required if there is a reason.
    #[serde(default)]
    pub explains: Option<[f64; 2]>,
}

/// How two rows are compared. Times measured on other machines can agree in order and in ratio, but not in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepComparison {
    /// The later value minus the previous one.
    #[default]
    Difference,
    /// The later value divided by the previous one.
    Ratio,
    /// Which of the two is larger.
    Order,
}

/// A column, with the runs that measure it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnOfRuns {
    /// The column.
    pub column: String,
    /// Factors of its points that differ from the table's.
    #[serde(default)]
    pub point: IndexMap<String, RowValue>,
}

fn nothing() -> RowValue {
    RowValue::Number(0)
}

/// A series of checkpoints.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesDefinition {
    /// Name in links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Caption, one sentence.
    pub caption: String,
    /// Factors of the points whose runs are used.
    pub point: IndexMap<String, String>,
    /// The claims to judge.
    #[serde(default)]
    pub claims: Vec<SeriesClaim>,
    /// The paper's statement about when ADCA's base moves.
    #[serde(default)]
    pub printed: Option<PrintedSwitch>,
}

/// A claim about a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeriesClaim {
    /// The volume of differential checkpoints grows.
    DifferentialGrows,
    /// The volume of incremental checkpoints does not grow.
    IncrementalStays,
    /// ADCA stores nearly as much as incremental checkpoints.
    AdcaNearIncremental,
    /// There is a threshold with which the base moves only once. If the series has `printed`, the base moves at the checkpoint given there.
    OneSwitch,
    /// The number of files needed to restore a checkpoint, before and after the base moves.
    FilesToRestore,
}

/// A paper's statement about when ADCA's base moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedSwitch {
    /// Number of checkpoints of the series.
    pub checkpoints: u32,
    /// The checkpoint that becomes the base, counted from 1.
    pub switch: u32,
    /// Number of files needed to restore a checkpoint up to and including `switch`.
    pub files_before: u32,
    /// Number of files needed to restore a checkpoint after `switch`.
    pub files_after: u32,
}

fn reason(because: Option<&String>, explains: Option<[f64; 2]>) -> Option<UnmeasuredReason> {
    because
        .zip(explains)
        .map(|(because, explains)| UnmeasuredReason {
            because: because.clone(),
            explains,
        })
}

impl RerunColumn {
    /// Returns the reason why measurements of this column may differ by more than the tolerance, with the differences that it explains.
    pub fn reason(&self) -> Option<UnmeasuredReason> {
        reason(self.because.as_ref(), self.explains)
    }
}

impl Differences {
    /// Returns the reason why comparisons may differ by more than the tolerance, with the differences that it explains.
    pub fn reason(&self) -> Option<UnmeasuredReason> {
        reason(self.because.as_ref(), self.explains)
    }
}

/// Reads the file of a paper; returns `None` if there is none.
///
/// # Errors
/// The problem in the file, with its position.
pub fn load(folder: &Path) -> Result<Option<Definition>, SourceErrors> {
    let path = folder.join(FILE);
    if !path.is_file() {
        return Ok(None);
    }
    let source = SourceText::read(&path)?;
    let table = source.parse().map_err(SourceErrors)?;
    let value = Spanned::new(0..source.text.len(), DeValue::Table(table));
    let definition: Definition = source.decode(&value)?;
    let errors = check(&source, &definition);
    if errors.is_empty() {
        Ok(Some(definition))
    } else {
        Err(SourceErrors(errors))
    }
}

/// Checks a definition, and collects its problems.
struct Check<'d> {
    source: &'d SourceText,
    definition: &'d Definition,
    errors: Vec<SourceError>,
}

fn check(source: &SourceText, definition: &Definition) -> Vec<SourceError> {
    let mut check = Check {
        source,
        definition,
        errors: Vec::new(),
    };
    if definition.schema != SCHEMA {
        let found = definition.schema;
        check.fail(
            format!("unknown format {found} of measured tables"),
            "this version reads `schema = 1`",
        );
    }
    check.reasons();
    check.claims();
    check.series();
    check.factors();
    check.patterns();
    check.errors
}

impl<'d> Check<'d> {
    fn fail(&mut self, message: String, hint: &str) {
        let error = self.source.error(Some(0..0), message, hint.to_owned());
        self.errors.push(error);
    }

    /// Checks that each reason has the differences that it explains.
    fn reasons(&mut self) {
        let definition = self.definition;
        let columns = definition.tables.iter().flat_map(|t| {
            let of_column = |c: &RerunColumn| {
                let place = format!("table {}, `{}`", t.table, c.column);
                (place, c.because.is_some(), c.explains)
            };
            t.columns.iter().map(of_column)
        });
        let differences = definition
            .differences
            .iter()
            .map(|d| (format!("`{}`", d.id), d.because.is_some(), d.explains));
        for (place, because, explains) in columns.chain(differences) {
            let range = "write `explains = [lowest, highest]` with `because`: the distances measured - printed that the reason explains";
            match (because, explains) {
                (true, None) => self.fail(
                    format!("{place}: `because` without `explains` would explain any number"),
                    range,
                ),
                (false, Some(_)) => {
                    self.fail(format!("{place}: `explains` without `because`"), range);
                }
                (true, Some([low, high]))
                    if !(low.is_finite() && high.is_finite() && low <= high) =>
                {
                    self.fail(format!("{place}: [{low}, {high}] is not a range"), range);
                }
                (true, Some(_)) | (false, None) => {}
            }
        }
    }

    /// Checks that tests of claims have exactly one comparison and one bound.
    fn claims(&mut self) {
        for tests in &self.definition.claims {
            for wrong in tests.tests.iter().filter_map(|t| check_test(t).err()) {
                self.fail(
                    format!("claim `{}`: {}", tests.claim, wrong.message),
                    &wrong.hint,
                );
            }
        }
    }

    /// Checks that series have unique names, and that printed switches are at one of their checkpoints.
    fn series(&mut self) {
        let all = &self.definition.series;
        for (i, series) in all.iter().enumerate() {
            if all[..i].iter().any(|s| s.id == series.id) {
                self.fail(
                    format!("two series have the id `{}`", series.id),
                    "rename one",
                );
            }
            if let Some(printed) = series.printed
                && !(2..=printed.checkpoints).contains(&printed.switch)
            {
                self.fail(
                    format!(
                        "series `{}`: a switch at checkpoint {} of {}",
                        series.id, printed.switch, printed.checkpoints
                    ),
                    "the first checkpoint is the first base: later ones, from 2, can become one",
                );
            }
        }
    }

    /// Returns the factors of all points in tables and differences.
    fn points(&self) -> impl Iterator<Item = &'d IndexMap<String, RowValue>> + use<'d> {
        let definition = self.definition;
        let of_tables = definition
            .tables
            .iter()
            .flat_map(|t| std::iter::once(&t.point).chain(t.columns.iter().map(|c| &c.point)));
        of_tables.chain(
            definition
                .differences
                .iter()
                .flat_map(|d| d.point.iter().chain(d.between.iter().map(|c| &c.point))),
        )
    }

    fn factors(&mut self) {
        let definition = self.definition;
        let of_series = definition.series.iter().flat_map(|s| s.point.keys());
        let sides = definition.claims.iter().flat_map(|c| &c.tests);
        let sides = sides.flat_map(|t| [Some(&t.each), t.than.as_ref(), t.minus.as_ref()]);
        let of_claims = sides.flatten().flat_map(|s| s.point.keys());
        let of_rows = self.points().flat_map(|p| p.keys());
        let by_claims = definition.claims.iter().filter_map(|c| c.by.as_ref());
        let of_counts = definition.counts.iter().flat_map(|c| [&c.factor, &c.by]);
        let others = by_claims.chain(of_counts);
        for factor in of_rows.chain(of_series).chain(of_claims).chain(others) {
            if !FACTOR_NAMES.contains(&factor.as_str()) {
                self.fail(
                    format!("unknown factor `{factor}`"),
                    &suggestion(factor, "factors", FACTOR_NAMES),
                );
            }
        }
    }

    /// Checks that patterns are regular expressions with one group.
    fn patterns(&mut self) {
        let definition = self.definition;
        let of_columns = definition.tables.iter().flat_map(|t| &t.columns);
        let values = of_columns
            .map(|c| &c.value)
            .chain(definition.differences.iter().map(|d| &d.value));
        let series = definition
            .differences
            .iter()
            .flat_map(|d| d.series.iter().chain([&d.along]));
        let all = self.points().flat_map(|p| p.values());
        for value in all.chain(values.map(|v| &v.images)).chain(series) {
            let RowValue::Cell(FromCell {
                pattern: Some(pattern),
                ..
            }) = value
            else {
                continue;
            };
            match regex::Regex::new(pattern) {
                Ok(regex) if regex.captures_len() == 2 => {}
                Ok(_) => self.fail(
                    format!("`{pattern}` must have one group"),
                    "put (parentheses) around the part to use",
                ),
                Err(_) => self.fail(
                    format!("`{pattern}` is not a regular expression"),
                    "see https://docs.rs/regex for the syntax",
                ),
            }
        }
    }
}
