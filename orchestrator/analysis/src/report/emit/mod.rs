//! Emitters: one file for each format. They know the report model, but not what its tables are about.

mod csv;
mod html;
mod json;
mod latex;
mod markdown;

use super::model::Report;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::Format;
use cvc_core::store::{StoreError, write_whole, write_whole_by};
use cvc_index::error::AnalysisError;

/// Writes a report in each of the formats into a directory, which is created if it does not exist. Returns the files, the main one of each
/// format first.
pub fn write_all(
    report: &Report,
    dir: &Utf8Path,
    formats: &[Format],
) -> Result<Vec<Utf8PathBuf>, AnalysisError> {
    let mut written = Vec::new();
    for format in formats {
        let files = match format {
            Format::Html => vec![("report.html".to_owned(), html::page(report)?)],
            Format::Csv => csv::files(report)
                .into_iter()
                .map(|(name, text)| (format!("csv/{name}"), text))
                .collect(),
            Format::Json => vec![("report.json".to_owned(), json::text(report)?)],
            Format::Markdown => vec![("report.md".to_owned(), markdown::text(report))],
            Format::Latex => latex::files(report),
        };
        for (name, text) in files {
            let path = dir.join(name);
            make_parent(&path)?;
            write_whole(&path, text.as_bytes())?;
            written.push(path);
        }
        if let (Format::Csv, Some(name)) = (format, csv::records_file(report)) {
            let path = dir.join("csv").join(name);
            make_parent(&path)?;
            write_whole_by(&path, |out| csv::write_records(report, &path, out))?;
            written.push(path);
        }
    }
    Ok(written)
}

fn make_parent(path: &Utf8Path) -> Result<(), StoreError> {
    match path.parent() {
        Some(parent) => std::fs::create_dir_all(parent).map_err(StoreError::io("create", parent)),
        None => Ok(()),
    }
}
