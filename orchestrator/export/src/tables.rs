//! Exports flat tables as CSV (RFC 4180), with their schema.

use crate::{
    error::ExportError,
    package::{self, PACKAGE, PackageFormat},
    target::{Exported, make},
};
use camino::Utf8Path;
use cvc_core::store::StoreError;
use cvc_core::visible::inert;
use cvc_index::{FlatTable, FlatType, Index};
use std::{
    fs::File,
    io::{BufWriter, Write},
};

/// Writes the tables of a campaign into a new directory.
///
/// # Errors
/// The target exists and may not be replaced, the index cannot be read, or a file cannot be written.
pub fn export_tables(
    index: &Index,
    dir: &Utf8Path,
    replace: bool,
) -> Result<Exported, ExportError> {
    make(dir, replace, |dir| write(index, dir).map(drop))
}

/// Writes the tables into an existing directory. Returns the names of the files written.
pub(crate) fn write(index: &Index, dir: &Utf8Path) -> Result<Vec<String>, ExportError> {
    let tables = index.flat_tables()?;
    let mut names = Vec::new();
    for table in &tables {
        let name = PackageFormat::Csv.file(table);
        write_table(index, table, &dir.join(&name))?;
        names.push(name);
    }
    package::write(index, &tables, PackageFormat::Csv, dir)?;
    names.push(PACKAGE.to_owned());
    Ok(names)
}

fn write_table(index: &Index, table: &FlatTable, path: &Utf8Path) -> Result<(), ExportError> {
    let file = File::create(path).map_err(StoreError::io("create", path))?;
    let mut out = BufWriter::new(file);
    write_rows(index, table, path, &mut out, |_, _| None)?;
    out.flush().map_err(StoreError::io("write", path))?;
    Ok(())
}

/// Writes the rows one after another, because the facts and values of a long campaign may not fit into memory. `instead` receives the texts of a
/// row and the index of a text column, and may return a replacement for the text in that column.
pub(crate) fn write_rows(
    index: &Index,
    table: &FlatTable,
    path: &Utf8Path,
    out: impl Write,
    mut instead: impl FnMut(&[Option<String>], usize) -> Option<String>,
) -> Result<(), ExportError> {
    let failed = |error: csv::Error| StoreError::io("write", path)(error.into());
    let mut out = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(out);
    out.write_record(
        table
            .columns
            .iter()
            .map(|column| inert(&column.name).into_owned()),
    )
    .map_err(failed)?;
    index.each_flat_row(table, |texts| {
        for (at, (column, text)) in table.columns.iter().zip(texts).enumerate() {
            let text = text.as_deref().unwrap_or_default();
            if column.of == FlatType::Text {
                let other = instead(texts, at);
                let text = inert(other.as_deref().unwrap_or(text));
                out.write_field(text.as_bytes()).map_err(failed)?;
            } else {
                out.write_field(text).map_err(failed)?;
            }
        }
        // ends the row
        out.write_record(None::<&[u8]>).map_err(failed)?;
        Ok::<_, ExportError>(())
    })?;
    out.flush().map_err(StoreError::io("write", path))?;
    Ok(())
}
