//! Emitters: one file for each format. They know the model of documents, but not what its tables are about.

mod csv;
mod html;
mod json;
mod latex;
mod markdown;
pub(crate) mod terminal;

use crate::{document::Document, error::ShowError};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::Format;
use cvc_core::store::{StoreError, write_output, write_output_by};
use std::iter;

/// Writes a document in each of the formats into a directory, which is created if it does not exist. Returns the files, the main one of each
/// format first.
pub fn write_all(
    document: &Document,
    dir: &Utf8Path,
    formats: &[Format],
) -> Result<Vec<Utf8PathBuf>, ShowError> {
    let mut written = Vec::new();
    for format in formats {
        // one after another: all of them may be more than memory holds
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

/// The path of a file of the report, whose directory is there.
fn place(dir: &Utf8Path, name: &str) -> Result<Utf8PathBuf, StoreError> {
    let path = dir.join(name);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(StoreError::io("create", parent))?;
    }
    Ok(path)
}
