//! A CSV table whose columns are named like factors and quantities. The end of a name is its unit; every row is a run.

use crate::{
    error::ImportError,
    run::{ImportedRun, ImportedValue, MAPPING_PARTS, point_of},
};
use camino::Utf8Path;
use cvc_core::{point::Point, record::Unit, units::MIB};
use cvc_index::csv::{CsvField, CsvTable};
use indexmap::IndexMap;
use std::collections::BTreeMap;

/// Ends of names, with their units, and by what values are multiplied. The end stays in the name of the record where it is the unit of
/// records.
const ENDS: [(&str, Unit, f64); 6] = [
    ("_mib_per_s", Unit::MibPerSecond, 1.0),
    ("_s", Unit::Seconds, 1.0),
    ("_bytes", Unit::Bytes, 1.0),
    ("_mib", Unit::Bytes, MIB),
    ("_usd", Unit::Usd, 1.0),
    ("_files", Unit::Count, 1.0),
];

/// A column that only numbers rows.
const REPEAT: &str = "repeat";

pub(crate) fn read(file: &Utf8Path) -> Result<Vec<ImportedRun>, ImportError> {
    let table = CsvTable::read(file.as_std_path())?;
    let quantity = |name: &str| {
        let known = is_factor(name);
        ENDS.iter()
            .find(|(end, ..)| !known && name.ends_with(end))
            .map(|(end, unit, factor)| {
                let name = if *end == "_mib" {
                    format!("{}_bytes", name.trim_end_matches(end))
                } else {
                    name.to_owned()
                };
                (name, *unit, *factor)
            })
    };
    let mut runs = Vec::new();
    for row in &table.rows {
        let (mut levels, mut values) = (IndexMap::new(), Vec::new());
        for (head, field) in table.head.iter().zip(row) {
            let text = field.text.trim();
            if text.is_empty() || head.text == REPEAT {
                continue;
            }
            match quantity(&head.text) {
                Some((name, unit, factor)) => values.push(ImportedValue {
                    name,
                    value: number(&table, field)? * factor,
                    unit,
                    labels: BTreeMap::new(),
                }),
                None => {
                    levels.insert(head.text.clone(), text.to_owned());
                }
            }
        }
        if values.is_empty() {
            continue;
        }
        let at = row.first().map(|field| field.span.clone());
        let point = point_of(&levels)
            .map_err(|(message, hint)| table.source.error(at, message, Some(hint)))?;
        runs.push(ImportedRun {
            point,
            values,
            facts: BTreeMap::new(),
        });
    }
    if runs.is_empty() {
        return Err(ImportError::Nothing {
            file: file.to_owned(),
        });
    }
    Ok(runs)
}

fn is_factor(name: &str) -> bool {
    Point::FACTORS.contains(&name)
        || MAPPING_PARTS.contains(&name)
        || Point::COLUMNS.iter().any(|column| column.name == name)
}

/// The number in a field.
pub(crate) fn number(table: &CsvTable, field: &CsvField) -> Result<f64, ImportError> {
    field
        .text
        .trim()
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite())
        .ok_or_else(|| {
            table
                .source
                .error(
                    Some(field.span.clone()),
                    format!("`{}` is not a number", field.text),
                    "write a number as 12.5, or leave the field empty".to_owned(),
                )
                .into()
        })
}
