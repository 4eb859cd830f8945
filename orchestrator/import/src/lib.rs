//! Imports results of other tools as campaigns, so that they can be compared, advised on and exported like cvc's own.
//!
//! | file | contents |
//! | --- | --- |
//! | `run.rs` | an imported run, before it is written |
//! | `description.rs` | the TOML file that describes the columns of CSV tables |
//! | `table_description.rs` | its description of one table |
//! | `table.rs` | the rows of a table as runs |
//! | `plain.rs` | a CSV table whose columns have names of factors and quantities: it needs no description |
//! | `json.rs` | JSON of other programs, recognised by its content |
//! | `reframe.rs` | the JSON report of ReFrame |
//! | `peers.rs` | JSON of HPCAdvisor, Ramble and hyperfine |
//! | `sacct/` | jobs of a cluster, from Slurm's accounting: resource usage instead of results |
//! | `campaign.rs` | the directory of a campaign with these runs |
//!
//! Imported records have the source `imported`; imported runs have no logs and no images.

mod campaign;
mod description;
mod draft;
mod error;
mod json;
mod peers;
mod plain;
mod reframe;
mod run;
mod sacct;
mod table;
mod table_description;

pub use campaign::{Imported, write_campaign};
pub use error::ImportError;
pub use run::{ImportOptions, ImportedRun, ImportedValue, ReadFile};

pub use sacct::{ClusterJob, ClusterJobs, read_jobs};

pub use cvc_index::csv::Decimal;

use camino::Utf8Path;
use cvc_core::source::SourceText;

/// Reads a file: a description (`.toml`), results of another program (JSON, recognised by its content), or a plain table that needs no description.
///
/// # Errors
/// The first problem in the file, with its position.
pub fn read(file: &Utf8Path, options: &ImportOptions) -> Result<ReadFile, ImportError> {
    let found = if file.extension() == Some("toml") {
        description::read(file, options)?
    } else {
        let source = SourceText::read(file.as_std_path()).map_err(|mut error| {
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

/// Parses the text of a self-contained file: JSON or a plain table. The result may have no runs.
///
/// # Errors
/// The first problem in the text, with its position.
pub fn parse(source: SourceText, options: &ImportOptions) -> Result<ReadFile, ImportError> {
    let is_json = source.path.extension().is_some_and(|end| end == "json")
        || source.text.trim_start().starts_with('{');
    if is_json {
        json::read(&source)
    } else {
        plain::read(source, options)
    }
}
