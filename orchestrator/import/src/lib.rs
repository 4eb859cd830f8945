//! Results that others measured, as campaigns: so that they are compared, advised upon and exported like cvc's own.
//!
//! | file | what |
//! | --- | --- |
//! | `run.rs` | an imported run, before it is written |
//! | `description.rs` | the TOML file that says what the columns of CSV tables are |
//! | `table_description.rs` | what it says of one table |
//! | `table.rs` | the rows of a table as runs |
//! | `plain.rs` | a CSV table whose columns are named like factors and quantities: it needs no description |
//! | `reframe.rs` | the JSON report of ReFrame |
//! | `campaign.rs` | the directory of a campaign with these runs |
//!
//! What is imported was measured by somebody else: its records have the source `imported`, its runs no logs and no images.

mod campaign;
mod description;
mod error;
mod plain;
mod reframe;
mod run;
mod table;
mod table_description;

pub use campaign::{Imported, write_campaign};
pub use error::ImportError;
pub use run::{ImportedRun, ImportedValue, ReadFile};

use camino::Utf8Path;

/// Reads a description (`.toml`), a table with plain columns (`.csv`) or a report of ReFrame (`.json`).
///
/// # Errors
/// The first problem of the file, with its place.
pub fn read(file: &Utf8Path) -> Result<ReadFile, ImportError> {
    match file.extension() {
        Some("toml") => description::read(file),
        Some("csv") => Ok(ReadFile {
            name: None,
            runs: plain::read(file)?,
            remarks: Vec::new(),
        }),
        Some("json") => Ok(ReadFile {
            name: None,
            runs: reframe::read(file)?,
            remarks: Vec::new(),
        }),
        _ => Err(ImportError::Unknown {
            file: file.to_owned(),
        }),
    }
}
