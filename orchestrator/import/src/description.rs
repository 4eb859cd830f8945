//! The file that says what the columns of CSV tables are.

use crate::{ImportError, ReadFile, table};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::source::Source;
use indexmap::IndexMap;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// The only version of the file.
const SCHEMA: u32 = 1;

/// A description of tables.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    schema: Spanned<u32>,
    /// Name of the campaign.
    name: String,
    /// Where the numbers are from, in words.
    #[serde(default)]
    source: Option<String>,
    /// Levels of factors that hold for all tables.
    #[serde(default)]
    factors: IndexMap<String, Spanned<String>>,
    /// Facts of all runs.
    #[serde(default)]
    facts: BTreeMap<String, String>,
    #[serde(rename = "table")]
    tables: Vec<TableDescription>,
}

/// What the columns of a table are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableDescription {
    /// CSV file, relative to the description.
    pub file: Utf8PathBuf,
    /// Only rows that have one of these texts in these columns.
    #[serde(default, rename = "where")]
    pub only: BTreeMap<String, Spanned<Vec<String>>>,
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
    /// Labels of the records, in which `{column}` stands for the text of a column: `kind = "rank"`.
    #[serde(default)]
    pub labels: BTreeMap<String, Spanned<String>>,
}

pub(crate) fn read(file: &Utf8Path) -> Result<ReadFile, ImportError> {
    let source = Source::read(file.as_std_path())?;
    let parsed = source.parse().map_err(|mut errors| errors.swap_remove(0))?;
    let whole = Spanned::new(0..source.text.len(), toml::de::DeValue::Table(parsed));
    let description: Description = source.decode(&whole)?;
    if *description.schema.get_ref() != SCHEMA {
        return Err(source
            .error(
                Some(description.schema.span()),
                format!("unknown schema {}", description.schema.get_ref()),
                format!("write `schema = {SCHEMA}`"),
            )
            .into());
    }
    let beside = file.parent().unwrap_or(Utf8Path::new(""));
    let mut runs = Vec::new();
    for table in &description.tables {
        let mut found = table::runs(&source, &description.factors, table, beside)?;
        for run in &mut found {
            run.facts.extend(description.facts.clone());
            if let Some(from) = &description.source {
                run.facts.insert("imported.from".to_owned(), from.clone());
            }
        }
        runs.append(&mut found);
    }
    if runs.is_empty() {
        return Err(ImportError::Nothing {
            file: file.to_owned(),
        });
    }
    Ok(ReadFile {
        name: Some(description.name),
        runs,
    })
}
