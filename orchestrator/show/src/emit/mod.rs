//! Emitters, one file for each format. They depend on the document model, not on what documents contain.

mod csv;
mod html;
mod json;
mod latex;
mod markdown;

pub use csv::line as csv_line;
pub use markdown::escape as escape_markdown;
pub(crate) mod policy;
pub(crate) mod terminal;

use crate::{document::Document, error::ShowError};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::Format;
use cvc_core::store::{StoreError, write_output, write_output_by};
use std::iter;

/// Writes a document in each of the formats into a directory, which is created if it does not exist. Returns the paths of the files, the main file of
/// each format first.
pub fn write_all(
    document: &Document,
    dir: &Utf8Path,
    formats: &[Format],
) -> Result<Vec<Utf8PathBuf>, ShowError> {
    let mut written = Vec::new();
    for format in formats {
        // the files are made one after another, because together they may exceed memory
        let files: &mut dyn Iterator<Item = (String, String)> = match format {
            Format::Html => &mut iter::once(("report.html".to_owned(), html::page(document)?)),
            Format::Csv => &mut csv::files(document),
            Format::Json => {
                let path = place(dir, "report.json")?;
                write_output_by(&path, |out| json::write(document, &path, out))?;
                written.push(path);
                continue;
            }
            Format::Markdown => &mut iter::once(("report.md".to_owned(), markdown::text(document))),
            Format::Latex => &mut latex::files(document).into_iter(),
        };
        for (name, text) in files {
            let path = place(dir, &name)?;
            write_output(&path, text.as_bytes())?;
            written.push(path);
        }
        if let (Format::Csv, Some(rows)) = (format, &document.long_rows) {
            let path = place(dir, &format!("csv/{}.csv", rows.name()))?;
            write_output_by(&path, |out| csv::write_rows(rows.as_ref(), &path, out))?;
            written.push(path);
        }
    }
    Ok(written)
}

/// Returns the path of a file of the report, and creates its directory.
fn place(dir: &Utf8Path, name: &str) -> Result<Utf8PathBuf, StoreError> {
    let path = dir.join(name);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(StoreError::io("create", parent))?;
    }
    Ok(path)
}
