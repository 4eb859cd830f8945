//! `measured.toml` in the folder of a paper: which campaigns rerun its tables, and which runs and records belong to which cells.

use crate::paper::Reason;
use cvc_core::source::{Source, SourceError, SourceErrors, suggestion};
use indexmap::IndexMap;
use serde::Deserialize;
use std::path::Path;
use toml::{Spanned, de::DeValue};

/// Version of the format.
pub const SCHEMA: u32 = 1;
/// The file in the folder of a paper.
pub const FILE: &str = "measured.toml";

/// Factors of a point by which rows are matched.
pub const FACTOR_NAMES: [&str; 9] = [
    "app",
    "class",
    "mapping",
    "nodes",
    "processes",
    "mpi",
    "checkpointer",
    "compression",
    "aggregators",
];

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Version of the format: 1.
    schema: u32,
    /// What a reader has to know of today's runs.
    #[serde(default)]
    pub note: Option<String>,
    /// Campaigns that measure what one machine can.
    pub campaigns: Vec<Campaign>,
    /// Tables whose cells are measured.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Series of checkpoints, of which a paper may say much without printing a table.
    #[serde(default)]
    pub series: Vec<SeriesDefinition>,
    /// Differences between rows: they can agree where levels cannot.
    #[serde(default)]
    pub differences: Vec<Differences>,
}

/// A campaign file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Campaign {
    /// Relative to the folder of the paper.
    pub file: String,
    /// The variant for one machine.
    pub variant: String,
}

/// The runs and records of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its identifier in `paper.toml`.
    pub table: String,
    /// Which runs a row is about: factors of their points.
    pub point: IndexMap<String, RowValue>,
    /// Why the measured rows are not quite what is printed, if they are not.
    #[serde(default)]
    pub note: Option<String>,
    /// What its columns are.
    pub columns: Vec<Column>,
    /// Why rows are not measured, where no campaign says it; the first that fits counts.
    #[serde(default)]
    pub not_measured: Vec<NotMeasured>,
}

/// A value that depends on the row.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a text, a number, or a table with `column`")]
pub enum RowValue {
    /// The same in every row.
    Number(i64),
    /// The same in every row; `{column}` stands for the cell of a column.
    Text(String),
    /// Out of a cell.
    Cell(FromCell),
}

/// A value out of a cell of the row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromCell {
    /// The column.
    pub column: String,
    /// A regular expression with one group: the part of the cell that counts.
    #[serde(default)]
    pub pattern: Option<String>,
    /// What stands for it in campaigns; a cell that is not in the list is not measured. Without a list, the cell itself.
    #[serde(default)]
    pub values: IndexMap<String, String>,
}

/// What of the records belongs into a column.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The column of the table.
    pub column: String,
    /// Rows that this is about: values that their cells must have, or lists of them. Without any, all rows.
    #[serde(default)]
    pub rows: IndexMap<String, CellValues>,
    /// Factors of the points that differ from those of the table.
    #[serde(default)]
    pub point: IndexMap<String, RowValue>,
    /// How the value comes out of the records.
    pub value: Value,
    /// Tolerance against print, in percent of print.
    pub tolerance_pct: f64,
    /// Why it differs by more.
    #[serde(default)]
    pub because: Option<String>,
    /// The reason holds only for such a distance from print: lowest and highest of measured - printed, in the unit of the column. It must
    /// be there if the reason is.
    #[serde(default)]
    pub explains: Option<[f64; 2]>,
}

/// How a value comes out of the records of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// Name of the records; those of one image that match are added up.
    pub record: String,
    /// Zones; without any, all.
    #[serde(default)]
    pub zones: Vec<String>,
    /// Parts of zones; without any, all.
    #[serde(default)]
    pub subs: Vec<String>,
    /// Kind of files.
    #[serde(default)]
    pub kind: Option<String>,
    /// Whose images: `ranks`, `largest N`, `but-largest N`, `launcher NAME`, `whole`.
    #[serde(default = "all_ranks")]
    pub images: RowValue,
    /// What the sum is divided by.
    #[serde(default)]
    pub unit: PrintUnit,
}

/// The unit of a column of print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PrintUnit {
    /// 2^20 bytes.
    #[default]
    MiB,
    /// 2^30 bytes.
    GiB,
    /// As in the records.
    #[serde(rename = "as-is")]
    AsIs,
}

impl PrintUnit {
    /// How many of the records' units it is.
    pub fn size(self) -> f64 {
        match self {
            Self::MiB => cvc_core::units::MIB,
            Self::GiB => cvc_core::units::MIB * 1024.0,
            Self::AsIs => 1.0,
        }
    }

    /// As in headings.
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

/// A text or a list of texts.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts")]
pub enum CellValues {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl CellValues {
    /// Whether a cell is one of them.
    pub fn has(&self, cell: &str) -> bool {
        match self {
            Self::One(text) => text == cell,
            Self::Many(list) => list.iter().any(|text| text == cell),
        }
    }
}

/// Rows that are not measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotMeasured {
    /// Values that the cells of the row must have.
    #[serde(default)]
    pub rows: IndexMap<String, CellValues>,
    /// Why.
    pub because: String,
}

/// Differences of a column between rows of a series.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Differences {
    /// Name in links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// What it shows, in a sentence.
    pub caption: String,
    /// The table.
    pub table: String,
    /// Its column.
    pub column: String,
    /// Rows that take part, as in a column.
    #[serde(default)]
    pub rows: IndexMap<String, CellValues>,
    /// What the rows of a series have in common: columns of the table.
    pub series: Vec<RowValue>,
    /// What rises along a series, a number in each row.
    pub along: RowValue,
    /// Runs instead of those of the table.
    #[serde(default)]
    pub point: Option<IndexMap<String, RowValue>>,
    /// How the value comes out of the records.
    pub value: Value,
    /// Tolerance of a difference against the printed one, in percent of it.
    pub tolerance_pct: f64,
    /// Why it differs by more.
    #[serde(default)]
    pub because: Option<String>,
    /// The reason holds only for such a distance, as in a column; it must be there if the reason is.
    #[serde(default)]
    pub explains: Option<[f64; 2]>,
}

/// A series of checkpoints.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesDefinition {
    /// Name in links and files.
    pub id: String,
    /// Heading.
    pub title: String,
    /// What it shows, in a sentence.
    pub caption: String,
    /// Which runs: factors of their points.
    pub point: IndexMap<String, String>,
    /// What is judged.
    #[serde(default)]
    pub claims: Vec<SeriesClaim>,
    /// What print says of the switches of ADCA's base.
    #[serde(default)]
    pub printed: Option<PrintedSwitch>,
}

/// What may be said of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeriesClaim {
    /// The volume of differential checkpoints grows.
    DifferentialGrows,
    /// That of incremental ones does not.
    IncrementalStays,
    /// ADCA stores nearly what incremental checkpoints do.
    AdcaNearIncremental,
    /// There is a threshold with which the base moves once; with `printed`, at that checkpoint.
    OneSwitch,
    /// How many files restore a checkpoint until the base moves and afterwards.
    FilesToRestore,
}

/// The printed switch of ADCA's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedSwitch {
    /// Checkpoints of the series.
    pub checkpoints: u32,
    /// The checkpoint, from 1, that becomes the base.
    pub switch: u32,
    /// Files that restore a checkpoint up to it.
    pub files_before: u32,
    /// Files that restore a later one.
    pub files_after: u32,
}

fn reason(because: Option<&String>, explains: Option<[f64; 2]>) -> Option<Reason> {
    because.zip(explains).map(|(because, explains)| Reason {
        because: because.clone(),
        explains,
    })
}

impl Column {
    /// Why its cells may differ by more than the tolerance, and by how much.
    pub fn reason(&self) -> Option<Reason> {
        reason(self.because.as_ref(), self.explains)
    }
}

impl Differences {
    /// Why differences may differ by more than the tolerance, and by how much.
    pub fn reason(&self) -> Option<Reason> {
        reason(self.because.as_ref(), self.explains)
    }
}

/// Reads the file of a paper; `None` if it has none: nothing of it is rerun.
///
/// # Errors
/// What is wrong in the file, with its position.
pub fn load(folder: &Path) -> Result<Option<Definition>, SourceErrors> {
    let path = folder.join(FILE);
    if !path.is_file() {
        return Ok(None);
    }
    let source = Source::read(&path)?;
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

/// The problems of a definition.
struct Check<'d> {
    source: &'d Source,
    definition: &'d Definition,
    errors: Vec<SourceError>,
}

fn check(source: &Source, definition: &Definition) -> Vec<SourceError> {
    let mut check = Check {
        source,
        definition,
        errors: Vec::new(),
    };
    if definition.schema != SCHEMA {
        let found = definition.schema;
        check.fail(
            format!("format {found} of measured tables is not known"),
            "this version reads `schema = 1`",
        );
    }
    check.reasons();
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

    /// A reason has the range that it explains.
    fn reasons(&mut self) {
        let definition = self.definition;
        let columns = definition.tables.iter().flat_map(|t| {
            let of_column = |c: &Column| {
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

    /// Series have names of their own, and switches at one of their checkpoints.
    fn series(&mut self) {
        let all = &self.definition.series;
        for (i, series) in all.iter().enumerate() {
            if all[..i].iter().any(|s| s.id == series.id) {
                self.fail(
                    format!("two series have the id `{}`", series.id),
                    "give each its own",
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

    /// All points of tables and differences.
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
                .filter_map(|d| d.point.as_ref()),
        )
    }

    fn factors(&mut self) {
        let of_series = self.definition.series.iter().flat_map(|s| s.point.keys());
        for factor in self.points().flat_map(|p| p.keys()).chain(of_series) {
            if !FACTOR_NAMES.contains(&factor.as_str()) {
                self.fail(
                    format!("unknown factor `{factor}`"),
                    &suggestion(factor, "factors", FACTOR_NAMES),
                );
            }
        }
    }

    /// Patterns are regular expressions with one group.
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
                    "put (parentheses) around the part that counts",
                ),
                Err(_) => self.fail(
                    format!("`{pattern}` is not a regular expression"),
                    "see https://docs.rs/regex for the syntax",
                ),
            }
        }
    }
}
