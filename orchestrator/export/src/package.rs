//! Describes the tables as a Frictionless Data Package (<https://specs.frictionlessdata.io>).

use crate::{error::ExportError, target::json};
use camino::Utf8Path;
use cvc_core::store::write_whole;
use cvc_index::{FlatTable, FlatType, Index};
use serde_json::{Value, json};

/// Version of the tables. The major number increases with changes after which readers for the previous version would read wrong values; the minor
/// number increases with additions.
pub const SCHEMA: &str = "1.1";

/// Name of the file that describes the tables.
pub(crate) const PACKAGE: &str = "datapackage.json";

/// File formats of tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackageFormat {
    Csv,
    #[cfg(feature = "parquet")]
    Parquet,
}

impl PackageFormat {
    /// Returns the file name of a table.
    pub(crate) fn file(self, table: &FlatTable) -> String {
        let ending = match self {
            Self::Csv => "csv",
            #[cfg(feature = "parquet")]
            Self::Parquet => "parquet",
        };
        format!("{}.{ending}", table.name)
    }
}

/// Writes [`PACKAGE`] into the directory of the tables.
pub(crate) fn write(
    index: &Index,
    tables: &[FlatTable],
    format: PackageFormat,
    dir: &Utf8Path,
) -> Result<(), ExportError> {
    let path = dir.join(PACKAGE);
    let package = describe(index, tables, format)?;
    write_whole(&path, &json(&package, &path)?)?;
    Ok(())
}

/// Returns the content of [`PACKAGE`].
pub(crate) fn describe(
    index: &Index,
    tables: &[FlatTable],
    format: PackageFormat,
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

/// Converts a campaign's name to a valid package name: only lower-case letters, digits, `.`, `_` and `-`.
pub(crate) fn package_name(campaign: &str) -> String {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
    campaign
        .to_lowercase()
        .chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .collect()
}

fn resource(table: &FlatTable, format: PackageFormat) -> Value {
    let mut resource = json!({
        "profile": "tabular-data-resource",
        "name": table.name,
        "path": format.file(table),
        "description": format!("a row is {}", table.description),
    });
    match format {
        PackageFormat::Csv => {
            resource["format"] = json!("csv");
            resource["mediatype"] = json!("text/csv");
            resource["encoding"] = json!("utf-8");
            resource["dialect"] = json!({ "delimiter": ",", "lineTerminator": "\r\n", "quoteChar": "\"", "doubleQuote": true, "header": true });
        }
        #[cfg(feature = "parquet")]
        PackageFormat::Parquet => {
            resource["format"] = json!("parquet");
            resource["mediatype"] = json!("application/vnd.apache.parquet");
        }
    }
    resource["schema"] = schema(table);
    resource
}

/// Returns the schema of a table as JSON.
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
