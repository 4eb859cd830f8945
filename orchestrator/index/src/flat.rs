//! Tables for others: what their columns are, and their rows as text, one after another.

use super::{Index, factors};
use crate::error::AnalysisError;
use cvc_core::factor_value::ColumnType;
use cvc_core::point::Point;
use rusqlite::{params_from_iter, types::ValueRef};

/// What the texts of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlatType {
    /// Any text.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A time, UTC, as in RFC 3339.
    Time,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct FlatColumn {
    /// Its name.
    pub name: String,
    /// What its texts are.
    pub of: FlatType,
    /// Unit of its numbers.
    pub unit: Option<&'static str>,
    /// What it says.
    pub description: String,
    /// Whether every row has a text in it.
    pub required: bool,
}

/// A table whose rows [`Index::each_flat_row`] reads.
#[derive(Debug)]
pub struct FlatTable {
    /// Its name.
    pub name: &'static str,
    /// What a row is.
    pub description: &'static str,
    /// Its columns.
    pub columns: Vec<FlatColumn>,
    /// Columns that together occur once.
    pub key: &'static [&'static str],
    /// A column that refers to the first one of another table.
    pub refers: Option<(&'static str, &'static str)>,
    sql: String,
    names: Vec<String>,
}

/// Name, type, unit, whether it is required, description.
type Described = (
    &'static str,
    FlatType,
    Option<&'static str>,
    bool,
    &'static str,
);

fn described(columns: &[Described]) -> Vec<FlatColumn> {
    columns
        .iter()
        .map(|&(name, of, unit, required, description)| FlatColumn {
            name: name.to_owned(),
            of,
            unit,
            description: description.to_owned(),
            required,
        })
        .collect()
}

const RUNS: &[Described] = &[
    ("id", FlatType::Text, None, true, "the run"),
    (
        "point",
        FlatType::Text,
        None,
        true,
        "its point, in points.csv",
    ),
    (
        "kind",
        FlatType::Text,
        None,
        true,
        "`measured`, or `warmup`, which is in no summary",
    ),
    (
        "repeat",
        FlatType::Integer,
        None,
        true,
        "which of the runs of this kind at its point, from 1",
    ),
    (
        "state",
        FlatType::Text,
        None,
        true,
        "pending, running, succeeded, failed or quarantined",
    ),
    (
        "started",
        FlatType::Time,
        None,
        false,
        "when its last attempt began",
    ),
    (
        "ended",
        FlatType::Time,
        None,
        false,
        "when its last attempt ended",
    ),
    (
        "cause",
        FlatType::Text,
        None,
        false,
        "why it failed, as one of the causes of docs/run.md",
    ),
    (
        "records",
        FlatType::Text,
        None,
        true,
        "ok, missing, damaged, changed (the digest in the journal is another one), or none if it did not succeed",
    ),
];

const VALUES: &[Described] = &[
    ("run", FlatType::Text, None, true, "the run, in runs.csv"),
    (
        "quantity",
        FlatType::Text,
        None,
        true,
        "what was measured, as docs/data.md lists it",
    ),
    ("unit", FlatType::Text, None, true, "unit of the value"),
    (
        "value",
        FlatType::Number,
        None,
        true,
        "the value, in full precision: the mean over the checkpoints of the run",
    ),
];

const FACTS: &[Described] = &[
    ("run", FlatType::Text, None, true, "the run, in runs.csv"),
    (
        "key",
        FlatType::Text,
        None,
        true,
        "what is told; nested names are joined by dots",
    ),
    ("value", FlatType::Text, None, true, "what it is"),
];

const LEASES: &[Described] = &[
    (
        "lease",
        FlatType::Text,
        None,
        true,
        "one order of instances",
    ),
    ("site", FlatType::Text, None, true, "for this site"),
    ("region", FlatType::Text, None, true, "in this region"),
    (
        "instance_type",
        FlatType::Text,
        None,
        true,
        "kind of the instances",
    ),
    (
        "spot",
        FlatType::Boolean,
        None,
        true,
        "whether they are spot instances",
    ),
    (
        "instances",
        FlatType::Integer,
        None,
        true,
        "how many were ordered",
    ),
    (
        "intended",
        FlatType::Time,
        None,
        true,
        "when the order was written down",
    ),
    (
        "ended",
        FlatType::Time,
        None,
        false,
        "when the last one was gone; empty: not known to be over",
    ),
    (
        "instance_s",
        FlatType::Number,
        Some("s"),
        true,
        "how long they were there, all together",
    ),
    (
        "usd_per_hour",
        FlatType::Number,
        Some("USD/h"),
        false,
        "price of one, disks and address included; empty: not known",
    ),
    (
        "usd",
        FlatType::Number,
        Some("USD"),
        false,
        "what they cost; empty: not known",
    ),
    (
        "price",
        FlatType::Text,
        None,
        false,
        "where the price is from, with its date",
    ),
];

impl Index {
    /// The tables for others: points, runs, values, facts and leases. A change of their columns is a change of what others read.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn flat_tables(&self) -> Result<Vec<FlatTable>, AnalysisError> {
        let simple = |name, description, key, refers, columns: &[Described], sql: &str| FlatTable {
            name,
            description,
            columns: described(columns),
            key,
            refers,
            sql: sql.to_owned(),
            names: Vec::new(),
        };
        Ok(vec![
            self.flat_points()?,
            simple(
                "runs",
                "a run of the plan",
                &["id"],
                Some(("point", "points")),
                RUNS,
                "SELECT id, point, kind, repeat, state, started, ended, cause, records FROM runs ORDER BY seq",
            ),
            simple(
                "values",
                "the value of a quantity in a run",
                &["run", "quantity"],
                Some(("run", "runs")),
                VALUES,
                "SELECT run, quantity, unit, value FROM quantities ORDER BY rowid",
            ),
            simple(
                "facts",
                "a version, or something of the environment of a run",
                &["run", "key"],
                Some(("run", "runs")),
                FACTS,
                "SELECT f.run, f.key, f.value FROM runs r CROSS JOIN facts f ON f.run = r.id ORDER BY r.seq, f.key",
            ),
            simple(
                "leases",
                "instances that were ordered from a cloud",
                &["lease"],
                None,
                LEASES,
                "SELECT lease, site, region, instance_type, spot, instances, intended, ended, instance_s, usd_per_hour, usd, price
                 FROM leases ORDER BY seq",
            ),
        ])
    }

    /// Points, with a column for each factor, also for the campaign's own.
    fn flat_points(&self) -> Result<FlatTable, AnalysisError> {
        let mut columns = described(&[("id", FlatType::Text, None, true, "the point")]);
        for name in factors::columns() {
            let of = Point::COLUMNS
                .iter()
                .find(|column| column.name == name)
                .map(|column| column.of);
            let description = match name {
                "nodes" => "number of nodes of the mapping".to_owned(),
                "processes" => "number of processes on all nodes".to_owned(),
                "mapping" => "nodes and processes on each, as in 2Nx4P".to_owned(),
                "cb_buffer_bytes" => {
                    "collective buffer of one aggregator; empty: left to the MPI library".to_owned()
                }
                "aggregators" => {
                    "collective-buffering aggregators; empty: left to the MPI library".to_owned()
                }
                name => format!("the factor `{}`", name.replace('_', " ")),
            };
            columns.push(FlatColumn {
                name: name.to_owned(),
                of: match of {
                    Some(ColumnType::Text | ColumnType::OptionalText) => FlatType::Text,
                    Some(ColumnType::OptionalInteger) | None => FlatType::Integer,
                },
                unit: name.ends_with("_bytes").then_some("bytes"),
                description,
                required: matches!(of, Some(ColumnType::Text) | None),
            });
        }
        let names = || {
            self.connection
                .prepare(
                    "SELECT u.key, min(u.type IN ('true', 'false')), min(u.type = 'integer'), min(u.type IN ('integer', 'real'))
                     FROM points p, json_each(p.user) u GROUP BY u.key ORDER BY u.key",
                )?
                .query_map([], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })?
                .collect::<rusqlite::Result<Vec<(String, bool, bool, bool)>>>()
        };
        let free = names().map_err(self.failed())?;
        let mut sql = format!("SELECT p.id, {}", factors::in_points().join(", "));
        for (at, (name, boolean, integer, number)) in (1..).zip(&free) {
            sql.push_str(&format!(
                ", (SELECT CASE WHEN u.type IN ('true', 'false') THEN u.type ELSE u.value END FROM json_each(p.user) u WHERE u.key = ?{at})"
            ));
            columns.push(FlatColumn {
                name: format!("user_{name}"),
                of: match (boolean, integer, number) {
                    (true, ..) => FlatType::Boolean,
                    (_, true, _) => FlatType::Integer,
                    (_, _, true) => FlatType::Number,
                    _ => FlatType::Text,
                },
                unit: None,
                description: format!("the campaign's own factor `{name}`"),
                required: false,
            });
        }
        sql.push_str(", p.baseline FROM points p ORDER BY p.seq");
        columns.extend(described(&[(
            "baseline",
            FlatType::Boolean,
            None,
            true,
            "whether it is the smallest program, added to measure the libraries' memory",
        )]));
        Ok(FlatTable {
            name: "points",
            description: "a combination of factors",
            columns,
            key: &["id"],
            refers: None,
            sql,
            names: free.into_iter().map(|(name, ..)| name).collect(),
        })
    }

    /// Reads the rows of a table one after another: all of them may be more than memory holds. `None` is no value.
    ///
    /// # Errors
    /// When the index cannot be read, and those of `each`.
    pub fn each_flat_row<E: From<AnalysisError>>(
        &self,
        table: &FlatTable,
        mut each: impl FnMut(&[Option<String>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error| self.failed()(error);
        let mut statement = self.connection.prepare(&table.sql).map_err(failed)?;
        let mut rows = statement
            .query(params_from_iter(&table.names))
            .map_err(failed)?;
        let mut texts = Vec::with_capacity(table.columns.len());
        while let Some(row) = rows.next().map_err(failed)? {
            texts.clear();
            for (at, column) in table.columns.iter().enumerate() {
                texts.push(match row.get_ref(at).map_err(failed)? {
                    ValueRef::Null | ValueRef::Blob(_) => None,
                    ValueRef::Integer(number) if column.of == FlatType::Boolean => {
                        Some((number != 0).to_string())
                    }
                    ValueRef::Integer(number) => Some(number.to_string()),
                    ValueRef::Real(number) if number.is_infinite() => {
                        Some(if number > 0.0 { "INF" } else { "-INF" }.to_owned())
                    }
                    // the shortest text that is read as the same number
                    ValueRef::Real(number) => Some(number.to_string()),
                    ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
                });
            }
            each(&texts)?;
        }
        Ok(())
    }
}
