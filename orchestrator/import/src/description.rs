//! The file that says what the columns of CSV tables are.

use crate::{error::ImportError, run::ReadFile, table, table_description::TableDescription};
use camino::Utf8Path;
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
    let (mut runs, mut remarks) = (Vec::new(), Vec::new());
    for table in &description.tables {
        let (mut found, mut told) = table::runs(&source, &description.factors, table, beside)?;
        remarks.append(&mut told);
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
        remarks,
    })
}
