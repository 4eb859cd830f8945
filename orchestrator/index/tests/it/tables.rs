//! Tables for export.

use crate::{costs::order, made::Made};
use cvc_core::point::UserValue;
use cvc_core::record::Unit::Seconds;
use cvc_index::error::AnalysisError;
use cvc_index::{FlatTable, FlatType, Index};
use cvc_journal::{Acquired, Event};
use std::collections::BTreeMap;

fn table(index: &Index, name: &str) -> FlatTable {
    let tables = index.flat_tables().expect("tables").into_iter();
    let mut of_name = tables.filter(|table| table.name == name);
    of_name.next().expect("a table")
}

/// Returns the rows of a table, with values by column name.
fn rows(index: &Index, name: &str) -> Vec<BTreeMap<String, Option<String>>> {
    let table = table(index, name);
    let mut rows = Vec::new();
    index
        .each_flat_row::<AnalysisError>(&table, |texts| {
            let names = table.columns.iter().map(|column| column.name.clone());
            assert_eq!(texts.len(), table.columns.len());
            rows.push(names.zip(texts.iter().cloned()).collect());
            Ok(())
        })
        .expect("rows");
    rows
}

fn made() -> Made {
    let mut made = Made::new(2, 1);
    made.plan.points[1].baseline = true;
    made.plan.points[0].point.user = [
        ("steps", UserValue::Integer(20)),
        ("fast", UserValue::Bool(true)),
        ("width", UserValue::Float(0.5)),
        ("mixed", UserValue::Integer(1)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    made.plan.points[1].point.user = [("mixed".to_owned(), UserValue::Text("x".into()))].into();
    made
}

#[test]
fn points_have_a_column_for_each_factor_also_for_free_ones() {
    let index = made().index();
    let points = rows(&index, "points");
    let of = |n: usize, column: &str| points[n][column].as_deref();
    assert_eq!(of(0, "id"), Some("p0"));
    assert_eq!(of(1, "mapping"), Some("2Nx2P"));
    assert_eq!((of(1, "nodes"), of(1, "processes")), (Some("2"), Some("4")));
    assert_eq!(
        (of(0, "baseline"), of(1, "baseline")),
        (Some("false"), Some("true"))
    );
    assert_eq!(of(0, "aggregators"), None, "left to the library");
    assert_eq!(of(0, "user_steps"), Some("20"));
    assert_eq!(
        (of(0, "user_fast"), of(1, "user_fast")),
        (Some("true"), None)
    );
    assert_eq!(of(0, "user_width"), Some("0.5"));
    assert_eq!(
        (of(0, "user_mixed"), of(1, "user_mixed")),
        (Some("1"), Some("x"))
    );
    let table = table(&index, "points");
    let kind = |name: &str| {
        let column = table.columns.iter().find(|column| column.name == name);
        let column = column.expect("a column");
        (column.of, column.required)
    };
    assert_eq!(kind("user_steps"), (FlatType::Integer, false));
    assert_eq!(kind("user_fast"), (FlatType::Boolean, false));
    assert_eq!(kind("user_width"), (FlatType::Number, false));
    assert_eq!(kind("user_mixed"), (FlatType::Text, false));
    assert_eq!(kind("site"), (FlatType::Text, true));
    assert_eq!(kind("nodes"), (FlatType::Integer, true));
    assert_eq!(kind("aggregators"), (FlatType::Integer, false));
    let buffer = table.columns.iter().find(|c| c.name == "cb_buffer_bytes");
    assert_eq!(buffer.and_then(|c| c.unit), Some("bytes"));
}

#[test]
fn every_row_has_what_is_required_and_a_key_that_occurs_once() {
    let mut made = made();
    made.succeed("p0-1", &[("wall_s", 1.0 / 3.0, Seconds, &[])]);
    made.write("runs/p0-1/facts.json", "{\"kernel\":\"6.1\"}");
    made.fail("p1-1", 1, "no image");
    made.push(Event::LeaseIntended {
        lease: "l".into(),
        site: "cloud".into(),
        nodes: 1,
        order: Some(Box::new(order(None))),
    });
    made.push(Event::LeaseAcquired {
        lease: "l".into(),
        by: Acquired::instances(["i-1"]),
    });
    let index = made.index();
    let tables = index.flat_tables().expect("tables");
    let counts: Vec<(&str, usize)> = tables
        .iter()
        .map(|table| (table.name, rows(&index, table.name).len()))
        .collect();
    assert_eq!(
        counts,
        [
            ("points", 2),
            ("runs", 4),
            ("values", 1),
            ("facts", 1),
            ("leases", 1)
        ]
    );
    for table in &tables {
        let rows = rows(&index, table.name);
        for column in table.columns.iter().filter(|column| column.required) {
            let whole = rows.iter().all(|row| row[&column.name].is_some());
            assert!(whole, "{}.{}", table.name, column.name);
        }
        let mut keys: Vec<Vec<&Option<String>>> = rows
            .iter()
            .map(|row| table.key.iter().map(|key| &row[*key]).collect())
            .collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), rows.len(), "{}", table.name);
        if let Some((column, other)) = table.refers {
            let others = super::tables::rows(&index, other);
            let known = |row: &BTreeMap<String, Option<String>>| {
                others.iter().any(|of| of["id"] == row[column])
            };
            assert!(rows.iter().all(known), "{}", table.name);
        }
    }
    let values = rows(&index, "values");
    assert_eq!(
        values[0]["value"].as_deref(),
        Some("0.3333333333333333"),
        "in full precision"
    );
    let runs = rows(&index, "runs");
    assert_eq!(runs[3]["cause"].as_deref(), Some("checkpoint"));
    assert_eq!(runs[3]["state"].as_deref(), Some("failed"));
    assert_eq!(runs[1]["started"].as_deref(), Some("2030-01-01T00:00:30Z"));
    let leases = rows(&index, "leases");
    assert_eq!(leases[0]["spot"].as_deref(), Some("true"));
    assert_eq!((&leases[0]["usd"], &leases[0]["ended"]), (&None, &None));
}

#[test]
fn an_error_of_the_reader_ends_the_table() {
    let index = made().index();
    let table = table(&index, "points");
    let mut seen = 0;
    let read: Result<(), AnalysisError> = index.each_flat_row(&table, |_| {
        seen += 1;
        Err(cvc_core::store::StoreError::damaged("x", 1, "full").into())
    });
    assert!(read.is_err());
    assert_eq!(seen, 1);
}

#[test]
fn factors_are_texts_with_the_free_ones_behind() {
    use cvc_index::factors::{text, texts};
    let mut point = made().plan.points[0].point.clone();
    point
        .user
        .insert("site".into(), UserValue::Text("x".into()));
    let texts = texts(&point);
    assert_eq!(text(&point, "nodes").as_deref(), Some("1"));
    assert_eq!(texts["aggregators"], "default");
    assert_eq!(
        (texts["site"].as_str(), texts["user.site"].as_str()),
        ("here", "x")
    );
    assert_eq!(
        (texts["fast"].as_str(), texts["width"].as_str()),
        ("true", "0.5")
    );
    assert_eq!(
        text(&point, "steps"),
        None,
        "it is no factor of every point"
    );
}
