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
