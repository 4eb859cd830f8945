//! An imported run, before it is written.

use cvc_core::{
    factor_value::{ColumnType, ColumnValue},
    mapping::Mapping,
    point::{Point, UserValue},
    record::Unit,
    source::suggestion,
    units::{ByteSize, MIB},
};
use indexmap::IndexMap;
use std::collections::BTreeMap;

/// A value that somebody measured.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedValue {
    /// Name of the record.
    pub name: String,
    /// In `unit`.
    pub value: f64,
    /// Unit of records.
    pub unit: Unit,
    /// What distinguishes it from others of the same name.
    pub labels: BTreeMap<String, String>,
}

/// One run of somebody else.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedRun {
    /// What ran.
    pub point: Point,
    /// Its values.
    pub values: Vec<ImportedValue>,
    /// What is known of where it ran.
    pub facts: BTreeMap<String, String>,
}

/// The runs of a file, and the name that it gives the campaign.
#[derive(Debug)]
pub struct ReadFile {
    /// Name for the campaign, if the file has one.
    pub name: Option<String>,
    /// The runs, in the order of the file.
    pub runs: Vec<ImportedRun>,
    /// Printed numbers that do not follow from those beside them.
    pub remarks: Vec<String>,
}

/// Names of the columns that a mapping is made of, where a table has no mapping.
pub(crate) const MAPPING_PARTS: [&str; 2] = ["nodes", "processes_per_node"];

/// The neutral level of the factors that every point has, where a table says nothing of them.
fn defaults() -> [(&'static str, &'static str); 5] {
    [
        ("site", "elsewhere"),
        ("class", "-"),
        ("mpi", "unknown"),
        ("storage", "unknown"),
        ("app", "app"),
    ]
}

/// Makes a point of the levels of factors as texts, by name. Names that are no factors of cvc are free factors.
///
/// # Errors
/// What is wrong with a level: message and hint.
pub(crate) fn point_of(levels: &IndexMap<String, String>) -> Result<Point, (String, String)> {
    let mut levels = levels.clone();
    if !levels.contains_key("mapping") {
        let part = |name: &str| levels.get(name).cloned();
        let nodes = part(MAPPING_PARTS[0]).unwrap_or_else(|| "1".to_owned());
        let on_each = part(MAPPING_PARTS[1]).unwrap_or_else(|| "1".to_owned());
        levels.insert("mapping".to_owned(), format!("{nodes}Nx{on_each}P"));
    }
    for part in MAPPING_PARTS {
        levels.shift_remove(part);
    }
    let mapping = levels["mapping"].parse::<Mapping>().map_err(|error| {
        (
            error.to_string(),
            "4Nx2P is two processes on each of four nodes".to_owned(),
        )
    })?;
    levels.shift_remove("processes");
    let neutral: BTreeMap<&str, ColumnValue> = Point::COLUMNS
        .iter()
        .map(|column| column.name)
        .zip(Point::default().to_columns())
        .collect();
    let wrong = |name: &str, level: &str| {
        (
            format!("`{level}` is not a level of {name}"),
            "write it as in a campaign file".to_owned(),
        )
    };
    let written = levels.clone();
    let mut point = Point::from_columns(
        |column| {
            let name = column.strip_suffix("_bytes").unwrap_or(column);
            let Some(text) = levels
                .shift_remove(name)
                .or_else(|| levels.shift_remove(column))
            else {
                let default = defaults().into_iter().find(|(of, _)| *of == name);
                return Ok(match default {
                    Some((_, level)) => ColumnValue::Text(level.to_owned()),
                    None => neutral.get(column).cloned().unwrap_or(ColumnValue::Null),
                });
            };
            column_value(column, &text).ok_or_else(|| wrong(name, &text))
        },
        |column| wrong(column, written.get(column).map_or("", String::as_str)),
    )?;
    point.mapping = mapping;
    point.user = levels
        .into_iter()
        .map(|(name, level)| {
            let value = match (level.parse::<i64>(), level.parse::<f64>()) {
                (Ok(number), _) => UserValue::Integer(number),
                (Err(_), Ok(number)) if number.is_finite() => UserValue::Float(number),
                _ => UserValue::Text(level),
            };
            (name, value)
        })
        .collect();
    Ok(point)
}

/// A level as the index has it; `None` if it is no level of such a column.
fn column_value(column: &str, text: &str) -> Option<ColumnValue> {
    let of = Point::COLUMNS.iter().find(|c| c.name == column)?.of;
    let is_left = matches!(text, "" | "-" | "default");
    match of {
        ColumnType::Text => Some(ColumnValue::Text(text.to_owned())),
        ColumnType::OptionalText if is_left => Some(ColumnValue::Null),
        ColumnType::OptionalText => Some(ColumnValue::Text(text.to_owned())),
        ColumnType::OptionalInteger if is_left => Some(ColumnValue::Null),
        ColumnType::OptionalInteger => {
            let number = text
                .parse::<i64>()
                .ok()
                .or_else(|| i64::try_from(text.parse::<ByteSize>().ok()?.0).ok())?;
            Some(ColumnValue::Integer(number))
        }
    }
}

/// Units that a table may have, with the unit of records and the factor between them.
const UNITS: [(&str, Unit, f64); 18] = [
    ("s", Unit::Seconds, 1.0),
    ("ms", Unit::Seconds, 1e-3),
    ("min", Unit::Seconds, 60.0),
    ("h", Unit::Seconds, 3600.0),
    ("bytes", Unit::Bytes, 1.0),
    ("KiB", Unit::Bytes, 1024.0),
    ("MiB", Unit::Bytes, MIB),
    ("GiB", Unit::Bytes, 1024.0 * MIB),
    ("MB", Unit::Bytes, 1e6),
    ("GB", Unit::Bytes, 1e9),
    ("MiB/s", Unit::MibPerSecond, 1.0),
    ("GiB/s", Unit::MibPerSecond, 1024.0),
    ("MB/s", Unit::MibPerSecond, 1e6 / MIB),
    ("GB/s", Unit::MibPerSecond, 1e9 / MIB),
    ("count", Unit::Count, 1.0),
    ("Mop/s", Unit::MopPerSecond, 1.0),
    ("USD", Unit::Usd, 1.0),
    ("1", Unit::One, 1.0),
];

/// The unit of records for a unit of a table, and by what a value is multiplied.
///
/// # Errors
/// When there is no such unit: a hint.
pub(crate) fn unit_of(name: &str) -> Result<(Unit, f64), String> {
    UNITS
        .iter()
        .find(|(unit, ..)| *unit == name)
        .map(|(_, unit, factor)| (*unit, *factor))
        .ok_or_else(|| suggestion(name, "units", UNITS.iter().map(|(unit, ..)| *unit)))
}
