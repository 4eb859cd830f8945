//! The description of tables as a Data Package of Frictionless (<https://specs.frictionlessdata.io>).

use crate::{error::ExportError, target::json};
use camino::Utf8Path;
use cvc_core::store::write_whole;
use cvc_index::{FlatTable, FlatType, Index};
use serde_json::{Value, json};

/// Version of the tables. Its first number counts changes after which a reader of the version before reads wrong; the second one, what was added.
pub const SCHEMA: &str = "1.1";

/// The file that describes the tables.
pub(crate) const PACKAGE: &str = "datapackage.json";

/// How tables are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    Parquet,
}

impl Format {
    /// The name of a table's file.
    pub(crate) fn file(self, table: &FlatTable) -> String {
        let ending = match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        };
        format!("{}.{ending}", table.name)
    }
}

/// Writes [`PACKAGE`] into the directory of the tables.
pub(crate) fn write(
    index: &Index,
    tables: &[FlatTable],
    format: Format,
    dir: &Utf8Path,
) -> Result<(), ExportError> {
    let path = dir.join(PACKAGE);
    let package = describe(index, tables, format)?;
    write_whole(&path, &json(&package, &path)?)?;
    Ok(())
}

/// What [`PACKAGE`] says.
pub(crate) fn describe(
    index: &Index,
    tables: &[FlatTable],
    format: Format,
) -> Result<Value, ExportError> {
    let meta = index.meta()?;
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
    package["resources"] = tables.iter().map(|table| resource(table, format)).collect();
    Ok(package)
}

/// The name of a package has small letters, digits, `.`, `_` and `-` only.
pub(crate) fn package_name(campaign: &str) -> String {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
    campaign
        .to_lowercase()
        .chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .collect()
}

fn resource(table: &FlatTable, format: Format) -> Value {
    let mut resource = json!({
        "profile": "tabular-data-resource",
        "name": table.name,
        "path": format.file(table),
        "description": format!("a row is {}", table.description),
    });
    match format {
        Format::Csv => {
            resource["format"] = json!("csv");
            resource["mediatype"] = json!("text/csv");
            resource["encoding"] = json!("utf-8");
            resource["dialect"] = json!({ "delimiter": ",", "lineTerminator": "\r\n", "quoteChar": "\"", "doubleQuote": true, "header": true });
        }
        Format::Parquet => {
            resource["format"] = json!("parquet");
            resource["mediatype"] = json!("application/vnd.apache.parquet");
        }
    }
    resource["schema"] = schema(table);
    resource
}

/// The schema of a table.
pub(crate) fn schema(table: &FlatTable) -> Value {
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
    schema
}
