//! What a description says of one table.

use camino::Utf8PathBuf;
use indexmap::IndexMap;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// What the columns of a table are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableDescription {
    /// CSV file, relative to the description.
    pub file: Utf8PathBuf,
    /// Only rows that have one of these texts in these columns.
    #[serde(default, rename = "where")]
    pub only: BTreeMap<String, Spanned<Vec<String>>>,
    /// Words that stand for a missing value; `common` is a list of them.
    #[serde(default)]
    pub missing: Vec<String>,
    /// The sign before decimals: `point` or `comma`. By default it is recognised.
    #[serde(default)]
    pub decimal: Option<Spanned<String>>,
    /// Other words for the texts of columns, where factors and facts use them.
    #[serde(default)]
    pub words: BTreeMap<String, BTreeMap<String, String>>,
    /// Levels of factors; `{column}` stands for the text of a column.
    #[serde(default)]
    pub factors: IndexMap<String, Spanned<String>>,
    /// Facts of the runs, written in the same way.
    #[serde(default)]
    pub facts: BTreeMap<String, Spanned<String>>,
    /// Whether rows of the same point are one run, each with a part of its values.
    #[serde(default)]
    pub merge_rows: bool,
    /// What was measured.
    #[serde(rename = "quantity")]
    pub quantities: Vec<QuantityDescription>,
}

/// What a column, or several columns, hold.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuantityDescription {
    /// Name of the quantity, as in cvc's records.
    pub name: String,
    /// Unit of the column.
    pub unit: Spanned<String>,
    /// The columns: each is a repeat.
    pub columns: Spanned<Vec<String>>,
    /// A column that values are multiplied by: the number of equal files.
    #[serde(default)]
    pub times: Option<Spanned<String>>,
    /// A column with the mean of these columns, as it is printed: where it is another, the import says so.
    #[serde(default)]
    pub printed_mean: Option<Spanned<String>>,
    /// Labels of the records, in which `{column}` stands for the text of a column: `kind = "rank"`.
    #[serde(default)]
    pub labels: BTreeMap<String, Spanned<String>>,
}
