//! Reads a table whose columns are named after factors and quantities. The unit is a suffix of the name or in brackets; every row is a run.

use crate::{
    error::ImportError,
    run::{
        ImportOptions, ImportedRun, ImportedValue, ReadFile, is_factor, missing_words, point_of,
        unit_of, with_unit,
    },
};
use cvc_core::{
    record::{Unit, names},
    source::{SourceError, SourceText, suggestion},
    units::counted,
};
use cvc_index::csv::{CsvField, CsvTable, Decimal};
use indexmap::IndexMap;
use std::collections::{BTreeMap, HashSet};

/// Suffixes of column names, with the units that they stand for. Suffixes that cvc's records use come first.
const ENDS: [(&str, &str); 22] = [
    ("_mib_per_s", "MiB/s"),
    ("_mib_s", "MiB/s"),
    ("_bytes", "bytes"),
    ("_usd", "USD"),
    ("_files", "count"),
    ("_mb_per_s", "MB/s"),
    ("_gb_per_s", "GB/s"),
    ("_gib_per_s", "GiB/s"),
    ("_mb_s", "MB/s"),
    ("_gb_s", "GB/s"),
    ("_gib_s", "GiB/s"),
    ("_mop_s", "Mop/s"),
    ("_gflop_s", "Gflop/s"),
    ("_gflops", "Gflop/s"),
    ("_ns", "ns"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("_sec", "s"),
    ("_seconds", "s"),
    ("_hours", "h"),
    ("_mib", "MiB"),
];

/// cvc's names of some columns, each with other common names of that column. Without this list, a column with such a name would be imported as a
/// factor. Such a name may end in an ambiguous unit (`_min` can also mean a minimum).
const MEANT: [(&str, &str); 4] = [
    (
        names::WALL_S,
        "wall walltime wall_time wall_clock wall_clock_time time total_time elapsed elapsed_time run_time runtime exec_time \
         execution_time time_to_solution duration makespan",
    ),
    (
        "processes",
        "procs nprocs n_procs num_procs mpi_procs np ranks nranks n_ranks num_ranks mpi_ranks mpi_processes num_processes ntasks \
         num_tasks tasks",
    ),
    (
        "processes_per_node",
        "ppn procs_per_node ranks_per_node tasks_per_node ntasks_per_node num_tasks_per_node",
    ),
    ("nodes", "nnodes n_nodes num_nodes node_count"),
];

/// Name of a column with the numbers of repeats, which is ignored.
const REPEAT: &str = "repeat";

/// Maximum number of lines that a message lists.
const LISTED: usize = 8;

/// The role of a column.
enum Role {
    Quantity {
        name: String,
        unit: Unit,
        factor: f64,
    },
    /// A factor, and the unit of its levels, if any.
    Factor {
        name: String,
        unit: Option<String>,
    },
    Ignored,
}

pub(crate) fn read(source: SourceText, options: &ImportOptions) -> Result<ReadFile, ImportError> {
    let mut table = CsvTable::parse(source)?;
    table.clear_missing(&missing_words(&options.missing));
    for name in &options.factors {
        if !table.head.iter().any(|head| head.text == *name) {
            let known = table.head.iter().map(|head| head.text.as_str());
            let hint = suggestion(name, "its columns", known);
            let message = format!("unknown column `{name}`");
            return Err(table.source.error(Some(0..0), message, hint).into());
        }
    }
    let roles = (0..table.head.len())
        .map(|place| role(&table, place, options))
        .collect::<Result<Vec<Role>, SourceError>>()?;
    let measured = table.rows.iter().flat_map(|row| {
        let of_column = row.iter().zip(&roles);
        of_column.filter(|(_, role)| matches!(role, Role::Quantity { .. }))
    });
    let decimal = decimal_of(&table, options.decimal, measured.map(|(field, _)| field))?;
    let mut runs = Vec::new();
    let mut empty = Vec::new();
    for (row, line) in table.rows.iter().zip(&table.lines) {
        let Some(first) = row.iter().find(|field| !field.text.is_empty()) else {
            continue;
        };
        let (mut levels, mut values) = (IndexMap::new(), Vec::new());
        for (role, field) in roles
            .iter()
            .zip(row)
            .filter(|(_, f)| !f.text.trim().is_empty())
        {
            match role {
                Role::Quantity { name, unit, factor } => {
                    let value = number(&table, field, decimal, *factor)?;
                    if value < 0.0 && *unit != Unit::One {
                        let message = format!("`{}` is negative", field.text.trim());
                        let hint = format!(
                            "correct it, or declare it as a missing value: --missing '{}'",
                            field.text.trim()
                        );
                        return Err(table
                            .source
                            .error(Some(field.span.clone()), message, hint)
                            .into());
                    }
                    values.push(ImportedValue {
                        name: name.clone(),
                        value,
                        unit: *unit,
                        labels: BTreeMap::new(),
                    });
                }
                Role::Factor { name, unit } => {
                    let level = match decimal {
                        Decimal::Comma if decimal.number(&field.text).is_some() => {
                            field.text.replacen(',', ".", 1)
                        }
                        Decimal::Point | Decimal::Comma => field.text.trim().to_owned(),
                    };
                    levels.insert(name.clone(), level + unit.as_deref().unwrap_or(""));
                }
                Role::Ignored => {}
            }
        }
        if values.is_empty() {
            empty.push(*line);
            continue;
        }
        let point = point_of(&levels).map_err(|(message, hint)| {
            table
                .source
                .error(Some(first.span.clone()), message, Some(hint))
        })?;
        runs.push(ImportedRun {
            point,
            values,
            facts: BTreeMap::new(),
        });
    }
    Ok(ReadFile {
        name: None,
        runs,
        remarks: remarks(&table, &roles),
        left_out: without_value(&empty).into_iter().collect(),
    })
}

/// Returns a remark about the rows without a value, given their line numbers; `None` if there are none.
pub(crate) fn without_value(lines: &[usize]) -> Option<String> {
    let verb = if lines.len() == 1 { "has" } else { "have" };
    let listed: Vec<String> = lines.iter().take(LISTED).map(usize::to_string).collect();
    let more = match lines.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let noun = if lines.len() == 1 { "line" } else { "lines" };
    (!lines.is_empty()).then(|| {
        format!(
            "{} {verb} no value of a quantity: {noun} {}{more}",
            counted(lines.len(), "row"),
            listed.join(", ")
        )
    })
}

/// Determines the role of a column from its name.
fn role(table: &CsvTable, place: usize, options: &ImportOptions) -> Result<Role, SourceError> {
    let head = &table.head[place];
    let written = head.text.as_str();
    // data frames write row numbers into a column without a name
    if written == REPEAT || written.is_empty() {
        return Ok(Role::Ignored);
    }
    let lower = written.to_ascii_lowercase();
    // `Nodes` means `nodes`, unless both columns exist
    let has = |name: &str| table.head.iter().any(|head| head.text == name);
    let own_name = || match lower.as_str() {
        lower if is_factor(lower) && !has(lower) => lower.to_owned(),
        _ => written.to_owned(),
    };
    let as_factor = || Role::Factor {
        name: own_name(),
        unit: None,
    };
    if is_factor(&own_name()) || options.factors.iter().any(|name| name == written) {
        return Ok(as_factor());
    }
    if let Some((stem, unit_text)) = bracketed(written) {
        let stem = stem
            .to_lowercase()
            .replace(|c: char| !c.is_alphanumeric(), "_");
        let found = unit_of(unit_text);
        return Ok(match found {
            _ if is_factor(&stem) => Role::Factor {
                name: stem,
                unit: Some(unit_text.to_owned()),
            },
            Ok((unit, factor)) => Role::Quantity {
                name: with_unit(&stem, unit),
                unit,
                factor,
            },
            Err(_) if written.ends_with(']') && is_numeric(table, place) => Role::Quantity {
                name: written.to_owned(),
                unit: Unit::One,
                factor: 1.0,
            },
            Err(_) => as_factor(),
        });
    }
    if let Some((end, unit)) = ENDS.iter().find(|(end, _)| lower.ends_with(end)) {
        let (unit, factor) = unit_of(unit).unwrap_or((Unit::One, 1.0));
        let is_record_end = ENDS[..5].iter().any(|(of_record, _)| of_record == end);
        let name = if is_record_end || *end == "_s" {
            written.to_owned()
        } else {
            with_unit(&written[..written.len() - end.len()], unit)
        };
        return Ok(Role::Quantity { name, unit, factor });
    }
    let plain = lower.replace([' ', '-'], "_");
    let stem = ["_min", "_h", "_m", "_mean", "_avg", "_median"]
        .iter()
        .find_map(|end| plain.strip_suffix(end))
        .unwrap_or(&plain);
    let meant = MEANT.iter().find(|(name, others)| {
        let is_other = |other| other == stem || other == plain;
        others.split_whitespace().any(is_other) && !has(name)
    });
    match meant {
        Some((name, _))
            if has_number(table, place) && !(*name != names::WALL_S && has("mapping")) =>
        {
            let hint = if *name == names::WALL_S {
                format!(
                    "did you mean `{name}`? Add the unit of the values to the name: _s, _ms, _hours, [min]; or use --factor {written} for a factor"
                )
            } else {
                format!("did you mean `{name}`? Use --factor {written} for a free factor")
            };
            let message = format!("column `{written}` may stand for `{name}`");
            Err(table.source.error(Some(head.span.clone()), message, hint))
        }
        Some(_) | None => Ok(as_factor()),
    }
}

/// Splits a name with a unit in brackets, such as `time [ms]` or `rate (MB/s)`.
fn bracketed(head: &str) -> Option<(&str, &str)> {
    let (stem, unit) = match head.strip_suffix(']') {
        Some(rest) => rest.rsplit_once('[')?,
        None => head.strip_suffix(')')?.rsplit_once('(')?,
    };
    let (stem, unit) = (stem.trim(), unit.trim());
    (!stem.is_empty() && !unit.is_empty()).then_some((stem, unit))
}

/// Returns whether a column contains a number.
fn has_number(table: &CsvTable, place: usize) -> bool {
    table.rows.iter().any(|row| is_number(&row[place]))
}

/// Returns whether a column contains only numbers and empty fields.
fn is_numeric(table: &CsvTable, place: usize) -> bool {
    let fits = |field: &CsvField| field.text.trim().is_empty() || is_number(field);
    has_number(table, place) && table.rows.iter().all(|row| fits(&row[place]))
}

fn is_number(field: &CsvField) -> bool {
    let number = |decimal: Decimal| decimal.number(field.text.trim());
    number(Decimal::Point).or(number(Decimal::Comma)).is_some()
}

/// Returns remarks about the roles of the columns.
fn remarks(table: &CsvTable, roles: &[Role]) -> Vec<String> {
    let (mut quantities, mut factors, mut ignored) = (Vec::new(), Vec::new(), Vec::new());
    let mut remarks = Vec::new();
    for (place, (head, role)) in table.head.iter().zip(roles).enumerate() {
        let written = &head.text;
        match role {
            Role::Quantity { name, unit, .. } if name == written => {
                quantities.push(written.clone());
                if bracketed(written).is_some() && *unit == Unit::One {
                    remarks.push(format!(
                        "column `{written}`: unknown unit, so its values are unchanged"
                    ));
                }
            }
            Role::Quantity { name, .. } => quantities.push(format!("{written} as {name}")),
            Role::Factor { name, .. } => {
                factors.push(name.clone());
                let texts: Vec<&str> = table
                    .rows
                    .iter()
                    .map(|row| row[place].text.as_str())
                    .collect();
                let different: HashSet<&&str> = texts.iter().collect();
                let is_fraction = |text: &&str| text.contains(['.', ',']);
                if !is_factor(name)
                    && texts.len() > 2
                    && different.len() == texts.len()
                    && is_numeric(table, place)
                    && texts.iter().any(is_fraction)
                {
                    remarks.push(format!(
                        "column `{name}` has a different number in each row, so there are no repeats: if it was measured, add its unit to the name, as in `{name} [s]`"
                    ));
                }
            }
            Role::Ignored if written.is_empty() => {
                ignored.push(format!("column {} (without a name)", place + 1));
            }
            Role::Ignored => ignored.push(format!("{written} (numbers the rows)")),
        }
    }
    let places = ["mapping", "nodes", "processes_per_node", "processes"];
    if !factors.iter().any(|name| places.contains(&name.as_str())) {
        remarks.push("no column has nodes or processes: each run is assumed to be one process on one node (1Nx1P)".to_owned());
    }
    let listed = [
        ("quantities", quantities),
        ("factors", factors),
        ("ignored", ignored),
    ];
    let listed: Vec<String> = listed
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(role, names)| format!("{role}: {}", names.join(", ")))
        .collect();
    remarks.insert(0, listed.join("; "));
    remarks
}

/// Returns the declared decimal separator of a table or, if none is declared, the one detected from its numbers.
pub(crate) fn decimal_of<'f>(
    table: &CsvTable,
    declared: Option<Decimal>,
    numbers: impl Iterator<Item = &'f CsvField>,
) -> Result<Decimal, SourceError> {
    match declared {
        Some(decimal) => Ok(decimal),
        None => Decimal::of(numbers).map_err(|field| {
            let message = format!("`{}` is ambiguous: thousands or a fraction", field.text);
            let hint = "specify --decimal comma or --decimal point (in a description `decimal = \"comma\"`); write thousands without a separator";
            table.source.error(Some(field.span.clone()), message, hint.to_owned())
        }),
    }
}

/// Returns the number in a field, multiplied by a factor.
pub(crate) fn number(
    table: &CsvTable,
    field: &CsvField,
    decimal: Decimal,
    factor: f64,
) -> Result<f64, SourceError> {
    let number = decimal
        .number(field.text.trim())
        .map(|number| number * factor);
    number.filter(|number| number.is_finite()).ok_or_else(|| {
        let text = field.text.trim();
        if decimal.number(text).is_some() {
            let message = format!("`{text}` is too large");
            return table.source.error(Some(field.span.clone()), message, None);
        }
        let hint = if text.bytes().any(|byte| byte.is_ascii_digit()) {
            match decimal {
                Decimal::Point => "write a number as 12.5, without unit and thousands separators".to_owned(),
                Decimal::Comma => "write a number as 12,5 as in the rest of the table, without unit and thousands separators".to_owned(),
            }
        } else {
            format!(
                "if it marks a missing value, declare it: --missing '{text}' (in a description `missing = [\"{text}\"]`); --missing common stands for N/A, NA, nan, null, - etc."
            )
        };
        table.source.error(Some(field.span.clone()), format!("`{text}` is not a number"), hint)
    })
}
