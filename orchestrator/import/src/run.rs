//! An imported run, before it is written.

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

/// How a file is read, as far as it does not say so itself.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Words that stand for a missing value in tables; [`COMMON`] is a list of them.
    pub missing: Vec<String>,
    /// The sign before decimals in tables; `None`: it is recognised.
    pub decimal: Option<Decimal>,
    /// Columns of a plain table that are factors whatever their names end in.
    pub factors: Vec<String>,
}

/// Stands for [`MISSING_WORDS`].
const COMMON: &str = "common";

/// Words that stand for a missing value.
pub(crate) fn missing_words(declared: &[String]) -> Vec<&str> {
    declared
        .iter()
        .flat_map(|word| match word.as_str() {
            COMMON => MISSING_WORDS.to_vec(),
            word => vec![word],
        })
        .collect()
}

/// The runs of a file, and the name that it gives the campaign.
#[derive(Debug, Default)]
pub struct ReadFile {
    /// Name for the campaign, if the file has one.
    pub name: Option<String>,
    /// The runs, in the order of the file.
    pub runs: Vec<ImportedRun>,
    /// What was made of the columns, what was left out on purpose, and printed numbers that do not follow from those beside them.
    pub remarks: Vec<String>,
    /// Rows that would be lost, with the reason.
    pub left_out: Vec<String>,
}

impl ReadFile {
    /// Adds what another file has.
    pub(crate) fn extend(&mut self, other: Self) {
        self.runs.extend(other.runs);
        self.remarks.extend(other.remarks);
        self.left_out.extend(other.left_out);
    }
}

/// Names of the columns that a mapping is made of, where a table has no mapping.
pub(crate) const MAPPING_PARTS: [&str; 3] = ["nodes", "processes_per_node", "processes"];

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

/// Takes the columns of the mapping out of the levels: `mapping`, or what of nodes, processes on each and processes in all is given.
fn mapping_of(levels: &mut IndexMap<String, String>) -> Result<Mapping, (String, String)> {
    let written = levels.shift_remove("mapping");
    let parts = MAPPING_PARTS.map(|part| levels.shift_remove(part));
    let number = |place: usize| -> Result<Option<u32>, (String, String)> {
        let Some(text) = &parts[place] else {
            return Ok(None);
        };
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

/// The mapping of processes that are spread evenly over nodes: the first have one more where they cannot be equal.
pub(crate) fn spread(processes: u32, nodes: u32) -> String {
    let nodes = nodes.clamp(1, processes.max(1));
    let (on_each, more) = (processes / nodes, processes % nodes);
    match more {
        0 => format!("{nodes}Nx{on_each}P"),
        _ => format!("{more}Nx{}P+{}Nx{on_each}P", on_each + 1, nodes - more),
    }
}

/// Whether a name is that of a factor that every point has, or of a part of the mapping.
pub(crate) fn is_factor(name: &str) -> bool {
    Point::FACTORS.contains(&name)
        || MAPPING_PARTS.contains(&name)
        || Point::COLUMNS.iter().any(|column| column.name == name)
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

/// Units that a hint names.
const UNITS: [&str; 16] = [
    "s", "ms", "us", "ns", "min", "h", "bytes", "KiB", "MiB", "GiB", "MB", "GB", "MB/s", "count",
    "Mop/s", "USD",
];

/// The unit of records for a unit of a table, and by what a value is multiplied. Bits (Mbit, Gb) are not among them, as `b` is written for bytes
/// too.
///
/// # Errors
/// When there is no such unit: a hint.
pub(crate) fn unit_of(name: &str) -> Result<(Unit, f64), String> {
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
        .ok_or_else(|| suggestion(name, "units", UNITS))
}

/// Sizes and rates with the prefixes of the metric system and of ISO 80000-13: `kB`, `GiB/s`, `Gflop/s`, `MFLOPS`.
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
            // a small m is a thousandth
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
    // without a prefix `ops` may be their number
    let is_rate = lower.ends_with("/s") || !rate.is_empty();
    is_rate.then_some((Unit::MopPerSecond, prefix(rate, 1000.0)? / 1e6))
}

/// What a record is called whose name ends in its unit.
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

/// A value in a unit as another program writes it. One that is not known stays in the name, as text.
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
