//! Results that others measured, as campaigns: so that they are compared, advised upon and exported like cvc's own.
//!
//! | file | what |
//! | --- | --- |
//! | `run.rs` | an imported run, before it is written |
//! | `description.rs` | the TOML file that says what the columns of CSV tables are |
//! | `table_description.rs` | what it says of one table |
//! | `table.rs` | the rows of a table as runs |
//! | `plain.rs` | a CSV table whose columns are named like factors and quantities: it needs no description |
//! | `json.rs` | JSON of other programs, recognised by its content |
//! | `reframe.rs` | the JSON report of ReFrame |
//! | `peers.rs` | JSON of HPCAdvisor, Ramble and hyperfine |
//! | `campaign.rs` | the directory of a campaign with these runs |
//!
//! What is imported was measured by somebody else: its records have the source `imported`, its runs no logs and no images.

mod campaign;
mod description;
mod draft;
mod error;
mod json;
mod peers;
mod plain;
mod reframe;
mod run;
mod table;
mod table_description;

pub use campaign::{Imported, write_campaign};
pub use error::ImportError;
pub use run::{ImportedRun, ImportedValue, ReadFile, ReadOptions};

pub use cvc_index::csv::Decimal;

use camino::Utf8Path;
use cvc_core::source::Source;

/// Reads a description (`.toml`), results of another program (JSON, recognised by its content), or a table with plain columns.
///
/// # Errors
/// The first problem of the file, with its place.
pub fn read(file: &Utf8Path, options: &ReadOptions) -> Result<ReadFile, ImportError> {
    let found = if file.extension() == Some("toml") {
        description::read(file, options)?
    } else {
        let source = Source::read(file.as_std_path()).map_err(|mut error| {
            error.hint = error
                .hint
                .map(|hint| hint.replace("a TOML file", "a table"));
            error
        })?;
        parse(source, options)?
    };
    if found.runs.is_empty() {
        return Err(ImportError::Nothing {
            file: file.to_owned(),
            reasons: [found.left_out, found.remarks].concat(),
        });
    }
    Ok(found)
}

/// Reads the text of a file that needs no other: JSON or a table. It may have no run.
///
/// # Errors
/// The first problem of the text, with its place.
pub fn parse(source: Source, options: &ReadOptions) -> Result<ReadFile, ImportError> {
    let is_json = source.path.extension().is_some_and(|end| end == "json")
        || source.text.trim_start().starts_with('{');
    if is_json {
        json::read(&source)
    } else {
        plain::read(source, options)
    }
}
