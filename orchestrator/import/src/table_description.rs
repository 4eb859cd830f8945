//! The description of one table.

use camino::Utf8PathBuf;
use indexmap::IndexMap;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// Describes the columns of one table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableDescription {
    /// Path of the CSV file, relative to the description.
    pub file: Utf8PathBuf,
    /// Selects the rows to import: in each of these columns, a row must have one of the listed texts.
    #[serde(default, rename = "where")]
    pub only: BTreeMap<String, Spanned<Vec<String>>>,
    /// Words that mean a missing value; `common` stands for the usual ones.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Decimal separator: `point` or `comma`. Detected if absent.
    #[serde(default)]
    pub decimal: Option<Spanned<String>>,
    /// Replacements for texts in columns: for each column, texts and what replaces them. They are used in factors and facts.
    #[serde(default)]
    pub words: BTreeMap<String, BTreeMap<String, String>>,
    /// Levels of factors; `{column}` is replaced by the text of a column.
    #[serde(default)]
    pub factors: IndexMap<String, Spanned<String>>,
    /// Facts about the runs; `{column}` is replaced as in `factors`.
    #[serde(default)]
    pub facts: BTreeMap<String, Spanned<String>>,
    /// Whether rows with the same point form one run, each row contributing some of its values.
    #[serde(default)]
    pub merge_rows: bool,
    /// The measured quantities.
    #[serde(rename = "quantity")]
    pub quantities: Vec<QuantityDescription>,
}

/// A quantity that is in one or several columns.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuantityDescription {
    /// Name of the quantity, as in cvc's records.
    pub name: String,
    /// Unit of the column.
    pub unit: Spanned<String>,
    /// The columns; each is one repeat.
    pub columns: Spanned<Vec<String>>,
    /// A column with a number by which the values are multiplied, such as the number of equal files.
    #[serde(default)]
    pub times: Option<Spanned<String>>,
    /// A column with the printed mean of the values; the import reports differences from the computed mean.
    #[serde(default)]
    pub printed_mean: Option<Spanned<String>>,
    /// Labels of the records, such as `kind = "rank"`; `{column}` is replaced by the text of a column.
    #[serde(default)]
    pub labels: BTreeMap<String, Spanned<String>>,
}
