//! Tests of report sections about the operations and times of checkpoint layouts.

use crate::common::campaign_measured;
use camino::Utf8Path;
use cvc_analysis::report::build;
use cvc_core::{
    point::{CheckpointerKind, Point},
    record::{Unit, names},
    strategy::CheckpointLayout,
};
use cvc_prediction::holdout::rebuild_index;
use cvc_show::{Block, Cell};

#[test]
fn operations_and_times_of_all_layouts_are_shown_over_the_clients() {
    let dir = tempfile::tempdir().expect("a directory");
    let layouts = [
        (CheckpointLayout::Delegated, 3.0),
        (CheckpointLayout::PerProcess, 37.0),
    ];
    let made = [1_u32, 2, 4].iter().flat_map(|nodes| {
        layouts.map(|(layout, operations)| {
            let point = Point {
                site: "lab".to_owned(),
                app: "kernel-stencil".to_owned(),
                class: "S".to_owned(),
                mapping: format!("{nodes}Nx2P").parse().expect("a mapping"),
                mpi: "mpich".to_owned(),
                storage: "mfs".to_owned(),
                checkpointer: CheckpointerKind::Application,
                layout,
                ..Point::default()
            };
            let clients = f64::from(nodes * 2);
            let repeats = [0.99, 1.01].map(|by| {
                Ok(vec![
                    (
                        names::METADATA_OPERATIONS,
                        operations * clients,
                        Unit::Count,
                    ),
                    (names::WALL_S, by * clients, Unit::Seconds),
                ])
            });
            (point, repeats.into())
        })
    });
    campaign_measured(dir.path(), made.collect());
    let index = rebuild_index(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let report = build(&index).expect("a report");
    let section = report
        .sections
        .iter()
        .find(|s| s.id == "checkpoint-layouts");
    let section = section.expect("a section");
    let [Block::Table(table), Block::Plot(plot)] = &section.blocks[..] else {
        panic!("{:?}", section.blocks.len());
    };
    let ids: Vec<&str> = table.columns.iter().map(|c| c.id.as_str()).collect();
    assert!(
        ids.iter().any(|id| id.starts_with("metadata_operations")),
        "{ids:?}"
    );
    assert_eq!(table.rows.len(), 6);
    let row = table.rows.iter().find(|row| {
        matches!(&row[1], Cell::Text { text } if text == "per-process")
            && matches!(row[3], Cell::Number { value } if value == 8.0)
    });
    let shown = format!("{:?}", row.expect("4 nodes")[4]);
    assert!(shown.contains("296"), "{shown}");
    assert_eq!(plot.panels.len(), 2);
}

#[test]
fn a_campaign_without_other_layouts_has_no_such_section() {
    let dir = tempfile::tempdir().expect("a directory");
    let point = Point {
        site: "lab".to_owned(),
        app: "kernel-stencil".to_owned(),
        class: "S".to_owned(),
        mpi: "mpich".to_owned(),
        ..Point::default()
    };
    let values = vec![(names::WALL_S, 1.0, Unit::Seconds)];
    campaign_measured(dir.path(), vec![(point, vec![Ok(values)])]);
    let index = rebuild_index(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let report = build(&index).expect("a report");
    assert!(report.sections.iter().all(|s| s.id != "checkpoint-layouts"));
}

/// Returns the rows of the table about crossing points, for layouts whose operations and times are given by clients and checkpoints.
fn crossings(of: impl Fn(CheckpointLayout, f64, f64) -> (f64, f64)) -> Vec<Vec<String>> {
    let dir = tempfile::tempdir().expect("a directory");
    let layouts = [CheckpointLayout::Delegated, CheckpointLayout::PerProcess];
    let mut made = Vec::new();
    for (class, checkpoints) in [("one", 1), ("three", 3), ("nine", 9)] {
        for nodes in [1_u32, 2, 4] {
            for layout in layouts {
                let point = Point {
                    site: "lab".to_owned(),
                    app: "stencil-layouts".to_owned(),
                    class: class.to_owned(),
                    mapping: format!("{nodes}Nx2P").parse().expect("a mapping"),
                    mpi: "mpich".to_owned(),
                    storage: "mfs".to_owned(),
                    checkpointer: CheckpointerKind::Application,
                    layout,
                    ..Point::default()
                };
                let (operations, time) = of(layout, f64::from(nodes * 2), f64::from(checkpoints));
                let repeats = [0.99, 1.01].map(|by| {
                    let count = (names::METADATA_OPERATIONS, operations, Unit::Count);
                    let times =
                        (0..checkpoints).map(|_| (names::CKPT_LATENCY_S, by * time, Unit::Seconds));
                    Ok(std::iter::once(count).chain(times).collect())
                });
                made.push((point, repeats.into()));
            }
        }
    }
    campaign_measured(dir.path(), made);
    let index = rebuild_index(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let report = build(&index).expect("a report");
    let sections = report.sections.iter().flat_map(|s| &s.blocks);
    let mut tables = sections.filter_map(|block| match block {
        Block::Table(table) if table.id == "layout-crossings" => Some(table),
        _ => None,
    });
    let table = tables.next().expect("the table");
    let text = |cell: &Cell| match cell {
        Cell::Text { text } => text.clone(),
        Cell::Number { value } => value.to_string(),
        other => format!("{other:?}"),
    };
    table
        .rows
        .iter()
        .map(|row| row.iter().map(text).collect())
        .collect()
}

fn row_of<'r>(rows: &'r [Vec<String>], begins: &[&str]) -> &'r [String] {
    let is_it = |row: &&Vec<String>| row[1..].iter().zip(begins).all(|(a, b)| a == b);
    rows.iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{begins:?} in {rows:?}"))
}

/// Delegation has C + 10 operations, files per process 2·C·n, so that the best layout changes at 10 clients for 1 checkpoint, and at 2 for 3.
#[test]
fn crossing_points_are_predicted_from_half_of_the_settings_and_judged_at_the_others() {
    let operations = |layout, c: f64, n: f64| match layout {
        CheckpointLayout::Delegated => c + 10.0,
        _ => 2.0 * c * n,
    };
    let rows = crossings(|layout, c, n| (operations(layout, c, n), 1.0 + c * n));
    let fewest = "fewest metadata operations";
    let one = row_of(&rows, &[fewest, "1 checkpoints", "clients", "2"]);
    // 2 to 8 clients: 2·C < C + 10; held out are 4 clients at 1 checkpoint
    assert_eq!(one[5..], ["8", "per-process", "confirmed at 1 of 1"]);
    let nine = row_of(&rows, &[fewest, "9 checkpoints", "clients", "2"]);
    assert_eq!(nine[5..], ["8", "delegated", "confirmed at 1 of 1"]);
    let along = row_of(&rows, &[fewest, "4 clients", "checkpoints", "1"]);
    assert_eq!(along[5..], ["1", "per-process", "confirmed at 1 of 1"]);
    let along = row_of(&rows, &[fewest, "4 clients", "checkpoints", "2"]);
    assert_eq!(along[5..], ["9", "delegated", "confirmed at 1 of 1"]);
    // both layouts take the same time
    let times = rows.iter().filter(|row| row[1] == "least checkpoint time");
    assert!(times.clone().count() > 0);
    for row in times {
        assert!(row[7].starts_with("undecided"), "{row:?}");
    }
}

/// At 4 clients and 1 checkpoint, which is held out, delegation needs fewer operations than its law.
#[test]
fn a_wrong_prediction_is_refuted() {
    let rows = crossings(|layout, c, n| {
        let operations = match layout {
            CheckpointLayout::Delegated if (c, n) == (4.0, 1.0) => 3.0,
            CheckpointLayout::Delegated => c + 10.0,
            _ => 2.0 * c * n,
        };
        (operations, 1.0)
    });
    let one = row_of(
        &rows,
        &[
            "fewest metadata operations",
            "1 checkpoints",
            "clients",
            "2",
        ],
    );
    assert_eq!(one[7], "refuted at 4: delegated");
}
