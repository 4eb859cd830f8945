//! `paper.toml`: the tables of a paper, and the cells that are known to be wrong.

use cvc_show::Confidence;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Version of the format of `paper.toml`.
pub const SCHEMA: u32 = 1;

/// `paper.toml` as it is written.
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
}

/// A table, as the folder of its paper describes it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TableDefinition {
    /// Its identifier: its number in print, or a word.
    pub id: String,
    /// Heading for people: `Table 5.1`.
    pub title: String,
    /// Its values, relative to the folder.
    pub file: String,
    /// What it shows, in own words.
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
    /// Where it was measured.
    #[serde(default)]
    pub cluster: Option<String>,
    /// What was run.
    #[serde(default)]
    pub application: Option<String>,
    /// What a reader of the file has to know.
    #[serde(default)]
    pub note: Option<String>,
    /// The columns, in the order of print.
    pub columns: Vec<ColumnDefinition>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnDefinition {
    /// Name in the file.
    pub id: String,
    /// Heading for people.
    pub heading: String,
    /// Unit of its numbers.
    #[serde(default)]
    pub unit: Option<String>,
    /// What its cells are.
    pub kind: Kind,
    /// Decimals that it is printed with: at least a number, or `column` (as many as the longest cell has). Files lose zeros at the end.
    #[serde(default)]
    pub decimals: Decimals,
    /// Cells may be empty.
    #[serde(default)]
    pub optional: bool,
    /// Numbers may be negative.
    #[serde(default)]
    pub signed: bool,
    /// Numbers may be cut off behind their last digit instead of rounded.
    #[serde(default)]
    pub cut: bool,
    /// The rule that recomputes its cells.
    #[serde(default)]
    pub rule: Option<RuleUse>,
    /// The rule that gives what another model says beside it.
    #[serde(default)]
    pub model: Option<RuleUse>,
    /// Tolerance of a recomputed number against print, in the unit of the column, with the reason.
    #[serde(default)]
    pub tolerance: Option<Tolerance>,
}

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Text that says what a row is about.
    Label,
    /// A number that says what a row is about: processes, nodes.
    Setting,
    /// Measured by the authors.
    Measured,
    /// Predicted by the authors, by a model.
    Predicted,
    /// Computed by the authors from other numbers.
    Derived,
}

/// With how many decimals a column is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Decimals {
    /// At least this number; more if a cell has more.
    AtLeast(u32),
    /// As many as the cell has that has most.
    Column(ColumnDecimals),
}

impl Default for Decimals {
    fn default() -> Self {
        Self::Column(ColumnDecimals::Column)
    }
}

/// The word for it in `paper.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnDecimals {
    /// `decimals = "column"`.
    Column,
}

/// A rule with what it is applied to.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum RuleUse {
    /// A rule that needs nothing else.
    Plain(String),
    /// A rule with names of columns or other words.
    With {
        /// Its name.
        name: String,
        /// What it is applied to, in the order that the rule's own page gives.
        of: Vec<String>,
    },
}

impl RuleUse {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Plain(name) | Self::With { name, .. } => name,
        }
    }

    /// What it is applied to.
    pub fn of(&self) -> &[String] {
        match self {
            Self::Plain(_) => &[],
            Self::With { of, .. } => of,
        }
    }
}

/// A distance within which two numbers count as the same.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// Distance in the unit of the column.
    #[serde(default)]
    pub by: Option<f64>,
    /// Distance in percent of print.
    #[serde(default)]
    pub pct: Option<f64>,
    /// Why the printed digits cannot be expected.
    pub because: String,
}

/// A cell, a table or a passage that is wrong or doubtful in print: one row of `anomalies.csv`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Anomaly {
    /// Its name: `A34`.
    pub id: String,
    /// Table or passage, in words.
    pub table: String,
    /// Cell, in words.
    pub cell: String,
    /// What is printed.
    pub printed: String,
    /// What was probably meant.
    pub likely: String,
    /// Why.
    pub why: String,
    /// How sure that is.
    pub confidence: Confidence,
}

/// Where an anomaly belongs, for programs.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AnomalyCells {
    /// Its name in `anomalies.csv`.
    pub id: String,
    /// The table; without one it concerns the paper as a whole.
    #[serde(default)]
    pub table: Option<String>,
    /// Values that the cells of a row must have; without any, every row.
    #[serde(default)]
    pub rows: IndexMap<String, String>,
    /// Columns; without any, the table as a whole.
    #[serde(default)]
    pub columns: Vec<String>,
    /// What it does to the cells.
    #[serde(default)]
    pub effect: Effect,
    /// What was probably meant: a number, or text in a column of text.
    #[serde(default)]
    pub likely: Option<Likely>,
}

/// What was probably meant in a cell.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Likely {
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
}

impl Likely {
    /// The number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(*value),
            Self::Text(_) => None,
        }
    }

    /// The text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) => None,
        }
    }
}

/// What an anomaly does to its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The printed value is wrong.
    Wrong,
    /// A reader has to know something; the value stands.
    #[default]
    Note,
}
