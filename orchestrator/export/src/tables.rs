//! Flat tables (CSV, RFC 4180) with their schema, a Data Package of Frictionless (<https://specs.frictionlessdata.io>).

use crate::{
    error::ExportError,
    target::{Exported, json, make},
};
use camino::Utf8Path;
use cvc_core::store::{StoreError, write_whole};
use cvc_index::{FlatTable, FlatType, Index, csv::inert};
use serde_json::{Value, json};
use std::{borrow::Cow, fs::File, io::BufWriter};

/// Version of the tables. Its first number counts changes after which a reader of the version before reads wrong; the second one, what was added.
pub const SCHEMA: &str = "1.0";

/// The file that describes the tables.
pub(crate) const PACKAGE: &str = "datapackage.json";

/// Writes the tables of a campaign into a directory of their own.
///
/// # Errors
/// When something is there that may not be replaced, the index cannot be read, or a file cannot be written.
pub fn export_tables(
    index: &Index,
    dir: &Utf8Path,
    replace: bool,
) -> Result<Exported, ExportError> {
    make(dir, replace, |dir| write(index, dir).map(drop))
}

/// Writes the tables into an existing directory. Returns the names of the files.
pub(crate) fn write(index: &Index, dir: &Utf8Path) -> Result<Vec<String>, ExportError> {
    let tables = index.flat_tables()?;
    let mut names = Vec::new();
    for table in &tables {
        let name = format!("{}.csv", table.name);
        write_table(index, table, &dir.join(&name))?;
        names.push(name);
    }
    let meta = index.meta()?;
    let path = dir.join(PACKAGE);
    let mut package = json!({
        "profile": "tabular-data-package",
        "name": package_name(meta.get("campaign").map_or("campaign", String::as_str)),
        "version": SCHEMA,
        "description": "Points, runs, values, facts and leases of a campaign of cvc. `version` is that of the tables.",
    });
    if let Some(title) = meta.get("title").or(meta.get("campaign")) {
        package["title"] = json!(title);
    }
    if let Some(date) = meta.get("last_entry") {
        package["created"] = json!(date);
    }
    package["resources"] = tables.iter().map(resource).collect();
    write_whole(&path, &json(&package, &path)?)?;
    names.push(PACKAGE.to_owned());
    Ok(names)
}

/// The name of a package has small letters, digits, `.`, `_` and `-` only.
fn package_name(campaign: &str) -> String {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
    campaign
        .to_lowercase()
        .chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .collect()
}

fn resource(table: &FlatTable) -> Value {
    let fields: Vec<Value> = table
        .columns
        .iter()
        .map(|column| {
            let mut field = json!({
                "name": column.name,
                "type": match column.of {
                    FlatType::Text => "string",
                    FlatType::Integer => "integer",
                    FlatType::Number => "number",
                    FlatType::Boolean => "boolean",
                    FlatType::Time => "datetime",
                },
                "description": column.description,
            });
            if column.of == FlatType::Time {
                field["format"] = json!("any");
            }
            if let Some(unit) = column.unit {
                field["unit"] = json!(unit);
            }
            if column.required {
                field["constraints"] = json!({ "required": true });
            }
            field
        })
        .collect();
    let mut schema = json!({
        "fields": fields,
        "missingValues": [""],
        "primaryKey": table.key,
    });
    if let Some((column, other)) = table.refers {
        schema["foreignKeys"] = json!([{
            "fields": column, "reference": { "resource": other, "fields": "id" },
        }]);
    }
    json!({
        "profile": "tabular-data-resource",
        "name": table.name,
        "path": format!("{}.csv", table.name),
        "description": format!("a row is {}", table.description),
        "format": "csv",
        "mediatype": "text/csv",
        "encoding": "utf-8",
        "dialect": { "delimiter": ",", "lineTerminator": "\r\n", "quoteChar": "\"", "doubleQuote": true, "header": true },
        "schema": schema,
    })
}

/// Writes the rows one after another: facts and values of a long campaign are more than memory should hold.
fn write_table(index: &Index, table: &FlatTable, path: &Utf8Path) -> Result<(), ExportError> {
    let failed = |error: csv::Error| StoreError::io("write", path)(error.into());
    let file = File::create(path).map_err(StoreError::io("create", path))?;
    let mut out = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(BufWriter::new(file));
    out.write_record(
        table
            .columns
            .iter()
            .map(|column| inert(&column.name).into_owned()),
    )
    .map_err(failed)?;
    index.each_flat_row(table, |texts| {
        for (column, text) in table.columns.iter().zip(texts) {
            let text = text.as_deref().unwrap_or_default();
            let text = match column.of {
                FlatType::Text => inert(text),
                _ => Cow::Borrowed(text),
            };
            out.write_field(text.as_bytes()).map_err(failed)?;
        }
        // ends the row
        out.write_record(None::<&[u8]>).map_err(failed)?;
        Ok::<_, ExportError>(())
    })?;
    out.flush().map_err(StoreError::io("write", path))?;
    Ok(())
}
