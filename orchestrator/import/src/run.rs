//! An imported run before it is written.

use cvc_core::{
    factor_value::{ColumnType, ColumnValue},
    mapping::Mapping,
    point::{Point, UserValue},
    record::Unit,
    source::suggestion,
    units::{ByteSize, MIB},
};
use cvc_index::csv::{Decimal, MISSING_WORDS};
use indexmap::IndexMap;
use std::collections::BTreeMap;

/// A measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedValue {
    /// Name of the record.
    pub name: String,
    /// The value, in `unit`.
    pub value: f64,
    /// Unit, one of those in records.
    pub unit: Unit,
    /// Labels that distinguish values with the same name.
    pub labels: BTreeMap<String, String>,
}

/// An imported run.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedRun {
    /// The point of the run.
    pub point: Point,
    /// The measured values.
    pub values: Vec<ImportedValue>,
    /// Facts about where the run took place.
    pub facts: BTreeMap<String, String>,
}

/// Options for reading a file; information in the file takes precedence.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Words that mean a missing value in tables; [`COMMON`] stands for the usual ones.
    pub missing: Vec<String>,
    /// Decimal separator in tables; `None`: detect it.
    pub decimal: Option<Decimal>,
    /// Columns of a plain table that are factors even if their names have a unit as suffix.
    pub factors: Vec<String>,
}

/// Word that stands for [`MISSING_WORDS`].
const COMMON: &str = "common";

/// Returns the words that mean a missing value, with `common` expanded.
pub(crate) fn missing_words(declared: &[String]) -> Vec<&str> {
    declared
        .iter()
        .flat_map(|word| match word.as_str() {
            COMMON => MISSING_WORDS.to_vec(),
            word => vec![word],
        })
        .collect()
}

/// The contents of a file: runs, and a name for the campaign.
#[derive(Debug, Default)]
pub struct ReadFile {
    /// Name for the campaign, if the file has one.
    pub name: Option<String>,
    /// The runs, in the order of the file.
    pub runs: Vec<ImportedRun>,
    /// Remarks: the roles of columns, data omitted on purpose, and printed means that do not match their values.
    pub remarks: Vec<String>,
    /// Rows that cannot be imported, with reasons.
    pub left_out: Vec<String>,
}

impl ReadFile {
    /// Adds the contents of another file.
    pub(crate) fn extend(&mut self, other: Self) {
        self.runs.extend(other.runs);
        self.remarks.extend(other.remarks);
        self.left_out.extend(other.left_out);
    }
}

/// Columns that together form a mapping if a table has no mapping column. Threads may be given in addition to a mapping.
pub(crate) const MAPPING_PARTS: [&str; 4] = ["nodes", "processes_per_node", "processes", "threads"];

/// Index of `threads` in [`MAPPING_PARTS`].
const THREADS: usize = 3;

/// Returns levels that say nothing, for built-in factors that a table lacks.
fn defaults() -> [(&'static str, &'static str); 5] {
    [
        ("site", "elsewhere"),
        ("class", "-"),
        ("mpi", "unknown"),
        ("storage", "unknown"),
        ("app", "app"),
    ]
}

/// Creates a point from levels of factors, by name. Other names than those of built-in factors become free factors.
///
/// # Errors
/// The problem of a level, as message and hint.
pub(crate) fn point_of(levels: &IndexMap<String, String>) -> Result<Point, (String, String)> {
    let mut levels = levels.clone();
    let mapping = mapping_of(&mut levels)?;
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

/// Removes the levels that describe the mapping, and returns the mapping. They are either `mapping`, or the numbers of nodes, processes per node and
/// processes.
fn mapping_of(levels: &mut IndexMap<String, String>) -> Result<Mapping, (String, String)> {
    let written = levels.shift_remove("mapping");
    let parts = MAPPING_PARTS.map(|part| levels.shift_remove(part));
    let number = |place: usize| -> Result<Option<u32>, (String, String)> {
        let Some(text) = &parts[place] else {
            return Ok(None);
        };
        if place == THREADS && matches!(text.as_str(), "" | "-" | "default") {
            return Ok(None);
        }
        // spreadsheets and data frames write whole numbers as 4.0
        let whole = text.strip_suffix(".0").unwrap_or(text);
        let number = whole.parse().ok().filter(|number| *number > 0);
        number.map(Some).ok_or_else(|| {
            (
                format!("`{text}` is not a number of {}", MAPPING_PARTS[place]),
                "write a whole number, 1 or more".to_owned(),
            )
        })
    };
    let (nodes, on_each, processes) = (number(0)?, number(1)?, number(2)?);
    let text = match (written, nodes, on_each, processes) {
        (Some(text), ..) => text,
        (None, nodes, Some(on_each), _) => format!("{}Nx{on_each}P", nodes.unwrap_or(1)),
        (None, nodes, None, Some(processes)) => spread(processes, nodes.unwrap_or(1)),
        (None, nodes, None, None) => format!("{}Nx1P", nodes.unwrap_or(1)),
    };
    let mapping = text.parse::<Mapping>().map_err(|error| {
        (
            error.to_string(),
            "4Nx2P is two processes on each of four nodes".to_owned(),
        )
    })?;
    let mapping = match (number(THREADS)?, mapping.threads()) {
        (Some(threads), Some(own)) if threads != own => {
            return Err((
                format!("{threads} threads, but {mapping} has {own}"),
                "correct the mapping or the threads".to_owned(),
            ));
        }
        (Some(threads), _) => mapping.with_threads(threads),
        (None, _) => mapping,
    };
    match processes {
        Some(processes) if processes != mapping.processes() => Err((
            format!(
                "{processes} processes, but {mapping} has {}",
                mapping.processes()
            ),
            "correct the nodes or the processes".to_owned(),
        )),
        Some(_) | None => Ok(mapping),
    }
}

/// Returns the mapping of processes distributed evenly over nodes. If the division has a remainder, the first nodes have one process more.
pub(crate) fn spread(processes: u32, nodes: u32) -> String {
    let nodes = nodes.clamp(1, processes.max(1));
    let (on_each, more) = (processes / nodes, processes % nodes);
    match more {
        0 => format!("{nodes}Nx{on_each}P"),
        _ => format!("{more}Nx{}P+{}Nx{on_each}P", on_each + 1, nodes - more),
    }
}

/// Returns whether a name is that of a built-in factor or of a part of the mapping.
pub(crate) fn is_factor(name: &str) -> bool {
    Point::FACTORS.contains(&name)
        || MAPPING_PARTS.contains(&name)
        || Point::COLUMNS.iter().any(|column| column.name == name)
}

/// Converts a level to the type of its column in the index; `None` if it is not a valid level.
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

/// Units listed in hints.
const UNITS: [&str; 16] = [
    "s", "ms", "us", "ns", "min", "h", "bytes", "KiB", "MiB", "GiB", "MB", "GB", "MB/s", "count",
    "Mop/s", "USD",
];

/// The unit is unknown.
#[derive(Debug, thiserror::Error)]
#[error("unknown unit `{unit}`")]
pub(crate) struct UnknownUnit {
    unit: String,
    /// The supported units, as a hint.
    pub hint: String,
}

/// Converts a unit of a table to a unit of records, with the factor for the values. Bits (Mbit, Gb) are not supported, because `b` may also mean
/// bytes.
///
/// # Errors
/// The unit is unknown.
pub(crate) fn unit_of(name: &str) -> Result<(Unit, f64), UnknownUnit> {
    let known = match name {
        "s" | "sec" | "secs" | "second" | "seconds" => Some((Unit::Seconds, 1.0)),
        "ms" | "msec" => Some((Unit::Seconds, 1e-3)),
        "us" | "usec" | "\u{b5}s" | "\u{3bc}s" => Some((Unit::Seconds, 1e-6)),
        "ns" | "nsec" => Some((Unit::Seconds, 1e-9)),
        "min" | "minutes" => Some((Unit::Seconds, 60.0)),
        "h" | "hours" => Some((Unit::Seconds, 3600.0)),
        "bytes" | "byte" => Some((Unit::Bytes, 1.0)),
        "count" => Some((Unit::Count, 1.0)),
        "USD" | "$" => Some((Unit::Usd, 1.0)),
        "" | "1" => Some((Unit::One, 1.0)),
        _ => None,
    };
    known
        .or_else(|| size_or_rate(name))
        .ok_or_else(|| UnknownUnit {
            unit: name.to_owned(),
            hint: suggestion(name, "units", UNITS),
        })
}

/// Parses units of sizes and rates with metric or binary (ISO 80000-13) prefixes: `kB`, `GiB/s`, `Gflop/s`, `MFLOPS`.
fn size_or_rate(name: &str) -> Option<(Unit, f64)> {
    let prefix = |text: &str, base: f64| {
        let power = ["", "k", "m", "g", "t", "p"]
            .iter()
            .position(|prefix| *prefix == text.to_ascii_lowercase())?;
        Some(base.powi(i32::try_from(power).ok()?))
    };
    let (size, unit, scale) = match name.strip_suffix("/s").or(name.strip_suffix("ps")) {
        Some(size) => (size, Unit::MibPerSecond, 1.0 / MIB),
        None => (name, Unit::Bytes, 1.0),
    };
    if let Some(size) = size.strip_suffix('B') {
        let factor = match size.strip_suffix('i') {
            Some(binary) if !binary.is_empty() => prefix(binary, 1024.0),
            Some(_) => None,
            // a lower-case m means a thousandth
            None if size == "m" => None,
            None => prefix(size, 1000.0),
        };
        return Some((unit, factor? * scale));
    }
    let lower = name.to_ascii_lowercase();
    let rate = ["flop/s", "flops/s", "flops", "op/s", "ops/s", "ops"]
        .iter()
        .find_map(|end| {
            lower
                .strip_suffix(end)
                .filter(|rest| prefix(rest, 1.0).is_some())
        })?;
    // without a prefix, `ops` may mean the number of operations
    let is_rate = lower.ends_with("/s") || !rate.is_empty();
    is_rate.then_some((Unit::MopPerSecond, prefix(rate, 1000.0)? / 1e6))
}

/// Returns the name of a record, which ends with its unit.
pub(crate) fn with_unit(stem: &str, unit: Unit) -> String {
    let end = match unit {
        Unit::Seconds => "_s",
        Unit::Bytes => "_bytes",
        Unit::MibPerSecond => "_mib_per_s",
        Unit::MopPerSecond => "_mop_per_s",
        Unit::Usd => "_usd",
        Unit::Count | Unit::Bool | Unit::One => "",
    };
    format!("{}{end}", stem.strip_suffix(end).unwrap_or(stem))
}

/// Converts a value with a unit of another program. An unknown unit becomes part of the name.
pub(crate) fn value_in(name: &str, value: f64, unit: &str) -> ImportedValue {
    let (name, unit, factor) = match unit_of(unit) {
        Ok((unit, factor)) => (name.to_owned(), unit, factor),
        Err(_) => (format!("{name} [{unit}]"), Unit::One, 1.0),
    };
    ImportedValue {
        name,
        value: value * factor,
        unit,
        labels: BTreeMap::new(),
    }
}
