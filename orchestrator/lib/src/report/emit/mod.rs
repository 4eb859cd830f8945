//! Emitters: one file for each format. They know the model of a report and nothing of what its tables are about.

mod csv;
mod html;
mod json;
mod markdown;

use super::model::Report;
use crate::store::StoreError;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

/// What a report can be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// One self-contained page: `report.html`.
    Html,
    /// One file for each table, and all records: `csv/*.csv`.
    Csv,
    /// The whole report: `report.json`.
    Json,
    /// The tables for a README or a pull request: `report.md`.
    Markdown,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Html, Self::Csv, Self::Json, Self::Markdown];
}

/// Writes a report into a directory, which is made if need be, in each of the formats. Returns the files, the main one of each format first.
pub fn write_all(report: &Report, dir: &Path, formats: &[Format]) -> Result<Vec<PathBuf>, StoreError> {
    let mut written = Vec::new();
    for format in formats {
        let files = match format {
            Format::Html => vec![("report.html".to_owned(), html::page(report)?)],
            Format::Csv => csv::files(report).into_iter().map(|(name, text)| (format!("csv/{name}"), text)).collect(),
            Format::Json => vec![("report.json".to_owned(), json::text(report)?)],
            Format::Markdown => vec![("report.md".to_owned(), markdown::text(report))],
        };
        for (name, text) in files {
            let path = dir.join(name);
            replace(&path, text.as_bytes())?;
            written.push(path);
        }
    }
    Ok(written)
}

/// Writes a file beside its place and moves it there: a reader sees the old one or the new one.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(StoreError::io("create", dir))?;
    let mut file = tempfile::Builder::new().prefix(".report-").tempfile_in(dir).map_err(StoreError::io("create a file in", dir))?;
    file.write_all(bytes).map_err(StoreError::io("write", path))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o644)).map_err(StoreError::io("set the permissions of", path))?;
    }
    file.persist(path).map(|_| ()).map_err(|e| StoreError::io("write", path)(e.error))
}
