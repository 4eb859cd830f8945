//! The columns of factors in the tables `points` and `excluded` and in the views, generated from the registry of factors.

use super::row::FromRow;
use cvc_core::factor_value::{ColumnType, ColumnValue};
use cvc_core::point::{Point, UserValue};
use indexmap::IndexMap;
use rusqlite::{
    Row,
    types::{Type, Value, ValueRef},
};

/// The column after which the derived columns are inserted.
const MAPPING: &str = "mapping";
/// Columns derived from a mapping: the number of nodes, the total number of processes, and the threads of each process.
const OF_MAPPING: [&str; 3] = ["nodes", "processes", THREADS];
/// The only derived column that may be absent.
pub(super) const THREADS: &str = "threads";
/// The column of the campaign's own (free) factors, a JSON object.
const USER: &str = "user";

/// Returns the names of the columns in order, without the column of free factors.
pub(super) fn columns() -> impl Iterator<Item = &'static str> {
    Point::COLUMNS.iter().flat_map(|column| {
        let more: &[&str] = if column.name == MAPPING {
            &OF_MAPPING
        } else {
            &[]
        };
        std::iter::once(column.name).chain(more.iter().copied())
    })
}

/// Returns a schema text in which `{factors}` is replaced by the definitions of the columns, and `{p.factors}` by their names in `points p`.
pub(super) fn with_columns(schema: &str) -> String {
    let definition = |name: &'static str| {
        let of = Point::COLUMNS
            .iter()
            .find(|column| column.name == name)
            .map(|column| column.of);
        let sql = match of {
            Some(ColumnType::Text) => "TEXT NOT NULL",
            Some(ColumnType::OptionalText) => "TEXT",
            Some(ColumnType::OptionalInteger) => "INTEGER",
            None if name == THREADS => "INTEGER",
            None => "INTEGER NOT NULL",
        };
        format!("{name} {sql}")
    };
    let user = [format!("{USER} TEXT NOT NULL")];
    let definitions: Vec<String> = columns().map(definition).chain(user).collect();
    schema
        .replace("{factors}", &definitions.join(", "))
        .replace("{p.factors}", &in_points().join(", "))
}

/// Returns the names of the columns, qualified as columns of `points p`.
pub(super) fn in_points() -> Vec<String> {
    columns().map(|name| format!("p.{name}")).collect()
}

/// Returns the values of the columns, and of the column of free factors.
pub(super) fn values(point: &Point) -> Vec<Value> {
    let mut values = Vec::with_capacity(Point::COLUMNS.len() + OF_MAPPING.len() + 1);
    for (column, value) in Point::COLUMNS.iter().zip(point.to_columns()) {
        values.push(match value {
            ColumnValue::Null => Value::Null,
            ColumnValue::Integer(number) => number.into(),
            ColumnValue::Text(text) => text.into(),
        });
        if column.name == MAPPING {
            values.extend([point.mapping.nodes(), point.processes()].map(Value::from));
            values.push(point.threads().into());
        }
    }
    values.push(
        serde_json::to_string(&point.user)
            .unwrap_or_else(|_| "{}".to_owned())
            .into(),
    );
    values
}

/// Reads the factors from a row of `points` or `excluded`.
impl FromRow for Point {
    fn from_row(r: &Row<'_>) -> rusqlite::Result<Self> {
        let read = |name: &'static str| match r.get_ref(name)? {
            ValueRef::Null => Ok(ColumnValue::Null),
            ValueRef::Integer(number) => Ok(ColumnValue::Integer(number)),
            ValueRef::Text(text) => Ok(ColumnValue::Text(
                String::from_utf8_lossy(text).into_owned(),
            )),
            ValueRef::Real(_) | ValueRef::Blob(_) => Err(unknown(name)),
        };
        let user = serde_json::from_str(&r.get::<_, String>(USER)?).unwrap_or_default();
        Ok(Self {
            user,
            ..Self::from_columns(read, unknown)?
        })
    }
}

/// Returns the error that a column does not contain a value of its factor.
fn unknown(column: &'static str) -> rusqlite::Error {
    let message = format!("the column `{column}` does not hold a value of its factor");
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, message.into())
}

/// Text for a factor that does not apply to a point.
pub const NOTHING: &str = "-";

/// Returns as text the level of the built-in factor with this name or, for `nodes`, the number of nodes. `None` for any other name.
pub fn text(point: &Point, name: &str) -> Option<String> {
    match name {
        "nodes" => Some(point.mapping.nodes().to_string()),
        _ => Point::FACTORS
            .contains(&name)
            .then(|| point.factor(name).unwrap_or_else(|| NOTHING.to_owned())),
    }
}

/// Returns the value of a free factor as text.
pub fn user_text(value: &UserValue) -> String {
    match value {
        UserValue::Text(text) => text.clone(),
        UserValue::Bool(_) | UserValue::Integer(_) | UserValue::Float(_) => {
            serde_json::to_string(value).unwrap_or_default()
        }
    }
}

/// Returns all factors as text: first those in [`Point::FACTORS`], then the campaign's own.
pub fn texts(point: &Point) -> IndexMap<String, String> {
    let mut factors: IndexMap<String, String> = Point::FACTORS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), text(point, name)?)))
        .collect();
    for (name, value) in &point.user {
        // A free factor with the name of a built-in factor gets a different name.
        let name = if factors.contains_key(name) {
            format!("user.{name}")
        } else {
            name.clone()
        };
        factors.insert(name, user_text(value));
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::{USER, columns};

    /// Regenerate the page with `CVC_BLESS=1 cargo test -p cvc-analysis --lib factors`.
    #[test]
    fn the_page_on_data_names_all_columns_of_points() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data.md");
        let page = std::fs::read_to_string(path).expect("the page");
        let (before, rest) = page.split_once("- `points`: `id, seq, ").expect("the line");
        let after = rest.split_once(", baseline`").expect("its last column").1;
        let columns: Vec<&str> = columns().chain([USER]).collect();
        let wanted = format!(
            "{before}- `points`: `id, seq, {}, baseline`{after}",
            columns.join(", ")
        );
        if std::env::var_os("CVC_BLESS").is_some() {
            std::fs::write(path, &wanted).expect("written");
        } else {
            assert!(
                page == wanted,
                "the columns in {path} are not current: run with CVC_BLESS=1"
            );
        }
    }
}
