//! Tables for export: their columns, and their rows as text, read one after another.

use super::{Index, factors};
use crate::error::AnalysisError;
use cvc_core::factor_value::ColumnType;
use cvc_core::point::Point;
use rusqlite::{params_from_iter, types::ValueRef};

/// Type of the values in a column, which are all stored as text.
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
    /// Type of its values.
    pub of: FlatType,
    /// Unit of its values, if they have one.
    pub unit: Option<&'static str>,
    /// Its description.
    pub description: String,
    /// Whether every row has a value.
    pub required: bool,
}

/// A table for export; [`Index::each_flat_row`] reads its rows.
#[derive(Debug)]
pub struct FlatTable {
    /// Its name.
    pub name: &'static str,
    /// What a row represents.
    pub description: &'static str,
    /// Its columns.
    pub columns: Vec<FlatColumn>,
    /// Columns whose values together identify a row.
    pub key: &'static [&'static str],
    /// A column that refers to the first column of another table: the column and the table.
    pub refers: Option<(&'static str, &'static str)>,
    sql: String,
    names: Vec<String>,
}

impl FlatColumn {
    fn optional(self) -> Self {
        Self {
            required: false,
            ..self
        }
    }

    fn in_unit(self, unit: &'static str) -> Self {
        Self {
            unit: Some(unit),
            ..self
        }
    }
}

/// Returns a column in which every row has a value.
fn column(name: &str, of: FlatType, description: &str) -> FlatColumn {
    FlatColumn {
        name: name.to_owned(),
        of,
        unit: None,
        description: description.to_owned(),
        required: true,
    }
}

fn runs() -> Vec<FlatColumn> {
    vec![
        column("id", FlatType::Text, "the run"),
        column("point", FlatType::Text, "its point, in points.csv"),
        column(
            "kind",
            FlatType::Text,
            "`measured`, or `warmup`, which is in no summary",
        ),
        column(
            "repeat",
            FlatType::Integer,
            "number among the runs of this kind at its point, from 1",
        ),
        column(
            "state",
            FlatType::Text,
            "pending, running, succeeded, failed or quarantined",
        ),
        column("started", FlatType::Time, "when its last attempt began").optional(),
        column("ended", FlatType::Time, "when its last attempt ended").optional(),
        column(
            "cause",
            FlatType::Text,
            "cause of the failure, see docs/run.md",
        )
        .optional(),
        column(
            "records",
            FlatType::Text,
            "ok, missing, damaged, changed (the digest in the journal differs), or none if it did not succeed",
        ),
    ]
}

fn values() -> Vec<FlatColumn> {
    vec![
        column("run", FlatType::Text, "the run, in runs.csv"),
        column("quantity", FlatType::Text, "quantity, see docs/data.md"),
        column("unit", FlatType::Text, "unit of the value"),
        column(
            "value",
            FlatType::Number,
            "the value, in full precision: the mean over the checkpoints of the run",
        ),
    ]
}

fn facts() -> Vec<FlatColumn> {
    vec![
        column("run", FlatType::Text, "the run, in runs.csv"),
        column(
            "key",
            FlatType::Text,
            "name of the fact; nested names are joined by dots",
        ),
        column("value", FlatType::Text, "value of the fact"),
    ]
}

fn leases() -> Vec<FlatColumn> {
    vec![
        column("lease", FlatType::Text, "one order of instances"),
        column("site", FlatType::Text, "for this site"),
        column("region", FlatType::Text, "in this region"),
        column("instance_type", FlatType::Text, "kind of the instances"),
        column("spot", FlatType::Boolean, "whether they are spot instances"),
        column("instances", FlatType::Integer, "number ordered"),
        column("intended", FlatType::Time, "when the order was recorded"),
        column(
            "ended",
            FlatType::Time,
            "when the last one was terminated; empty: unknown",
        )
        .optional(),
        column(
            "instance_s",
            FlatType::Number,
            "total time of all instances",
        )
        .in_unit("s"),
        column(
            "usd_per_hour",
            FlatType::Number,
            "price of one, disks and address included; empty: unknown",
        )
        .in_unit("USD/h")
        .optional(),
        column("usd", FlatType::Number, "cost; empty: unknown")
            .in_unit("USD")
            .optional(),
        column(
            "price",
            FlatType::Text,
            "source of the price, with its date",
        )
        .optional(),
    ]
}

impl Index {
    /// Returns the tables for export: points, runs, values, facts and leases. Other programs read these tables, so columns must not be renamed.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn flat_tables(&self) -> Result<Vec<FlatTable>, AnalysisError> {
        let simple =
            |name, description, key, refers, columns: Vec<FlatColumn>, sql: &str| FlatTable {
                name,
                description,
                columns,
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
                runs(),
                "SELECT id, point, kind, repeat, state, started, ended, cause, records FROM runs ORDER BY seq",
            ),
            simple(
                "values",
                "the value of a quantity in a run",
                &["run", "quantity"],
                Some(("run", "runs")),
                values(),
                "SELECT run, quantity, unit, value FROM quantities ORDER BY rowid",
            ),
            simple(
                "facts",
                "a version, or another fact about the environment of a run",
                &["run", "key"],
                Some(("run", "runs")),
                facts(),
                "SELECT f.run, f.key, f.value FROM runs r CROSS JOIN facts f ON f.run = r.id ORDER BY r.seq, f.key",
            ),
            simple(
                "leases",
                "instances that were ordered from a cloud",
                &["lease"],
                None,
                leases(),
                "SELECT lease, site, region, instance_type, spot, instances, intended, ended, instance_s, usd_per_hour, usd, price
                 FROM leases ORDER BY seq",
            ),
        ])
    }

    /// Returns the table of points, with a column for each factor including the campaign's own.
    fn flat_points(&self) -> Result<FlatTable, AnalysisError> {
        let mut columns = vec![column("id", FlatType::Text, "the point")];
        for name in factors::columns() {
            let of = Point::COLUMNS
                .iter()
                .find(|column| column.name == name)
                .map(|column| column.of);
            let description = match name {
                "nodes" => "number of nodes of the mapping".to_owned(),
                "processes" => "number of processes on all nodes".to_owned(),
                "mapping" => "nodes and processes on each, as in 2Nx4P".to_owned(),
                factors::THREADS => {
                    "threads of each process; empty: chosen by the program".to_owned()
                }
                "cb_buffer_bytes" => {
                    "collective buffer of one aggregator; empty: chosen by the MPI library"
                        .to_owned()
                }
                "aggregators" => {
                    "collective-buffering aggregators; empty: chosen by the MPI library".to_owned()
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
                required: matches!(of, Some(ColumnType::Text) | None) && name != factors::THREADS,
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
        columns.push(column(
            "baseline",
            FlatType::Boolean,
            "whether it is the smallest program, added to measure the libraries' memory",
        ));
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

    /// Reads the rows of a table one after another, because all rows may not fit into memory. `None` means no value.
    ///
    /// # Errors
    /// The index cannot be read, or `each` returns an error.
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
                    // the shortest text that parses to the same number
                    ValueRef::Real(number) => Some(number.to_string()),
                    ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
                });
            }
            each(&texts)?;
        }
        Ok(())
    }
}
