//! The TOML file that describes the columns of CSV tables.

use crate::{
    error::ImportError,
    run::{ImportOptions, ReadFile},
    table,
    table_description::TableDescription,
};
use camino::Utf8Path;
use cvc_core::source::SourceText;
use indexmap::IndexMap;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// Version of the file format.
const SCHEMA: u32 = 1;

/// A description of one or several tables.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    schema: Spanned<u32>,
    /// Name of the campaign.
    name: String,
    /// Where the numbers come from, as text.
    #[serde(default)]
    source: Option<String>,
    /// Levels of factors that apply to all tables.
    #[serde(default)]
    factors: IndexMap<String, Spanned<String>>,
    /// Facts about all runs.
    #[serde(default)]
    facts: BTreeMap<String, String>,
    #[serde(rename = "table")]
    tables: Vec<TableDescription>,
}

pub(crate) fn read(file: &Utf8Path, options: &ImportOptions) -> Result<ReadFile, ImportError> {
    let source = SourceText::read(file.as_std_path())?;
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
    let mut all = ReadFile {
        name: Some(description.name),
        ..ReadFile::default()
    };
    for table in &description.tables {
        let mut found = table::runs(&source, &description.factors, table, beside, options)?;
        for run in &mut found.runs {
            run.facts.extend(description.facts.clone());
            if let Some(from) = &description.source {
                run.facts.insert("imported.from".to_owned(), from.clone());
            }
        }
        all.extend(found);
    }
    Ok(all)
}
