//! `paper.toml`: the tables of a paper, and its known misprints.

use cvc_show::Confidence;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Version of the format of `paper.toml`.
pub const SCHEMA: u32 = 1;

/// The contents of `paper.toml` before checks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPaper {
    pub schema: u32,
    pub id: String,
    pub title: String,
    pub authors: Vec<String>,
    pub year: Option<u32>,
    #[serde(default)]
    pub published: Option<String>,
    #[serde(default)]
    pub note: Option<String>,
    #[serde(default)]
    pub tables: Vec<TableDefinition>,
    #[serde(default)]
    pub anomaly_cells: Vec<AnomalyCells>,
    #[serde(default)]
    pub figures: Vec<FigureDefinition>,
}

/// A text or a list of texts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts")]
pub enum CellValues {
    /// One text.
    One(String),
    /// Several texts.
    Many(Vec<String>),
}

impl CellValues {
    /// Returns all texts.
    pub fn list(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(list) => list,
        }
    }

    /// Returns whether a cell equals one of the texts.
    pub fn has(&self, cell: &str) -> bool {
        self.list().iter().any(|text| text == cell)
    }
}

/// A figure of the paper whose numbers are in a table.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FigureDefinition {
    /// Identifier: the number of the figure.
    pub id: String,
    /// Heading for display: `Figure 4.3`.
    pub title: String,
    /// Caption in cvc's own words.
    pub caption: String,
    /// The table with the numbers.
    pub table: String,
    /// Rows in the figure: for each column, a cell value or a list of values. Empty for all rows.
    #[serde(default, skip_serializing)]
    pub rows: IndexMap<String, CellValues>,
    /// Name of a row on the horizontal axis; `{column}` is replaced by a cell.
    pub along: String,
    /// Title of the horizontal axis.
    pub along_title: String,
    /// Title of the axis of values, with unit.
    pub axis: String,
    /// How the values are drawn.
    #[serde(default)]
    pub marks: FigureMarks,
    /// Whether values are drawn as percent of the sum of all series.
    #[serde(default)]
    pub percent: bool,
    /// The series to draw.
    pub series: Vec<FigureSeries>,
}

/// How the values of a figure are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureMarks {
    /// Marks joined by lines.
    #[default]
    Lines,
    /// Bars side by side.
    Bars,
}

/// A series of a figure.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSeries {
    /// Name of the series.
    pub name: String,
    /// The column with its values.
    pub column: String,
    /// Rows in the series, out of those in the figure.
    #[serde(default, skip_serializing)]
    pub rows: IndexMap<String, CellValues>,
}

/// A table as defined in the folder of its paper.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TableDefinition {
    /// Identifier: the number of the table, or a word.
    pub id: String,
    /// Heading for display: `Table 5.1`.
    pub title: String,
    /// Path of the file with its values, relative to the folder.
    pub file: String,
    /// Caption in cvc's own words.
    pub caption: String,
    /// Page, as printed.
    #[serde(default)]
    pub page: Option<u32>,
    /// Section.
    #[serde(default)]
    pub section: Option<String>,
    /// MPI library.
    #[serde(default)]
    pub mpi: Option<String>,
    /// The machine on which the authors measured.
    #[serde(default)]
    pub cluster: Option<String>,
    /// The application that was run.
    #[serde(default)]
    pub application: Option<String>,
    /// A note for readers of the file.
    #[serde(default)]
    pub note: Option<String>,
    /// The columns in printed order.
    pub columns: Vec<ColumnDefinition>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnDefinition {
    /// Name in the file.
    pub id: String,
    /// Heading for display.
    pub heading: String,
    /// Unit of its numbers.
    #[serde(default)]
    pub unit: Option<String>,
    /// The content of its cells.
    pub kind: Kind,
    /// Number of decimals in print: a minimum number, or `column` (as many as the longest cell). Needed because zeros at the end are lost in files.
    #[serde(default)]
    pub decimals: Decimals,
    /// Whether cells may be empty.
    #[serde(default)]
    pub optional: bool,
    /// Whether numbers may be negative.
    #[serde(default)]
    pub signed: bool,
    /// Whether numbers may be truncated after the last printed digit instead of rounded.
    #[serde(default)]
    pub cut: bool,
    /// The rule that recomputes its cells.
    #[serde(default)]
    pub rule: Option<RuleUse>,
    /// The rule for the value of another model, which is shown in addition.
    #[serde(default)]
    pub model: Option<RuleUse>,
    /// Tolerance of a recomputed number, with the reason.
    #[serde(default)]
    pub tolerance: Option<Tolerance>,
}

/// The content of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Text that names the subject of a row.
    Label,
    /// A number that names the subject of a row, such as processes or nodes.
    Setting,
    /// Measured by the authors.
    Measured,
    /// Predicted by the authors, by a model.
    Predicted,
    /// Computed by the authors from other numbers.
    Derived,
}

/// Number of decimals in a printed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Decimals {
    /// At least this number; more if a cell has more.
    AtLeast(u32),
    /// As many as the cell with the most.
    Column(ColumnDecimals),
}

impl Default for Decimals {
    fn default() -> Self {
        Self::Column(ColumnDecimals::Column)
    }
}

/// The word `column` as a number of decimals in `paper.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnDecimals {
    /// `decimals = "column"`.
    Column,
}

/// A rule with its arguments.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum RuleUse {
    /// A rule without arguments.
    Plain(String),
    /// A rule with arguments: names of columns, or other words.
    With {
        /// Name of the rule.
        name: String,
        /// The arguments, in the order documented by the rule.
        of: Vec<String>,
    },
}

impl RuleUse {
    /// Returns the name of the rule.
    pub fn name(&self) -> &str {
        match self {
            Self::Plain(name) | Self::With { name, .. } => name,
        }
    }

    /// Returns the arguments of the rule.
    pub fn of(&self) -> &[String] {
        match self {
            Self::Plain(_) => &[],
            Self::With { of, .. } => of,
        }
    }
}

/// A distance within which two numbers count as equal.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// Distance in the unit of the column.
    #[serde(default)]
    pub by: Option<f64>,
    /// Distance in percent of the printed number.
    #[serde(default)]
    pub pct: Option<f64>,
    /// The reason why the printed digits cannot be reproduced exactly.
    pub because: String,
}

/// A cell, a table or a passage of the paper that is wrong or doubtful: one row of `anomalies.csv`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Anomaly {
    /// Name, such as `A34`.
    pub id: String,
    /// Table or passage, as text.
    pub table: String,
    /// Cell, as text.
    pub cell: String,
    /// The printed text.
    pub printed: String,
    /// The probable value.
    pub likely: String,
    /// The reason why the printed text is wrong or doubtful.
    pub why: String,
    /// The confidence that the cell, table or passage is wrong or doubtful.
    pub confidence: Confidence,
}

/// The cells of an anomaly, in machine-readable form.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AnomalyCells {
    /// Name of the anomaly in `anomalies.csv`.
    pub id: String,
    /// The table; `None` if the anomaly concerns the paper as a whole.
    #[serde(default)]
    pub table: Option<String>,
    /// The rows: for each column, the value of the cell. Empty for every row.
    #[serde(default)]
    pub rows: IndexMap<String, String>,
    /// The columns; empty if the anomaly concerns the whole rows or the whole table.
    #[serde(default)]
    pub columns: Vec<String>,
    /// Effect of the anomaly on the cells.
    #[serde(default)]
    pub effect: Effect,
    /// The probable value: a number, or a text in a column of text.
    #[serde(default)]
    pub likely: Option<Likely>,
}

/// The probable value of a cell.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Likely {
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
}

impl Likely {
    /// Returns the number; `None` for a text.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(*value),
            Self::Text(_) => None,
        }
    }

    /// Returns the text; `None` for a number.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) => None,
        }
    }
}

/// Effect of an anomaly on its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The printed value is wrong.
    Wrong,
    /// A note for readers; the value is correct.
    #[default]
    Note,
}
