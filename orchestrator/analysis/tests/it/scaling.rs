//! Tests of the number of processes beyond which adding more does not pay, in reports and comparisons.

use crate::common::campaign_measured;
use camino::Utf8Path;
use cvc_analysis::{
    comparison::{Side, compare_sides, comparison_report},
    report::build,
};
use cvc_core::{
    point::{CheckpointerKind, Moment, Point},
    record::{Unit, names},
};
use cvc_prediction::holdout::rebuild_index;
use cvc_show::{Block, Cell, Document};
use std::path::Path;

/// Times are T(P) = 4 + 400/P + c·P, and checkpoints increase c: the optimum is √(400/1) = 20 without and √(400/5) = 9 with checkpoints.
fn campaign(dir: &Path, site: &str) {
    let made = [1, 2, 4, 6, 8, 12].iter().flat_map(|processes: &u32| {
        let n = f64::from(*processes);
        [
            (CheckpointerKind::None, 1.0),
            (CheckpointerKind::Dmtcp, 5.0),
        ]
        .map(|(checkpointer, each)| {
            let point = Point {
                site: site.to_owned(),
                app: "kernel-stencil".to_owned(),
                class: "fixed".to_owned(),
                mapping: format!("1Nx{processes}P").parse().expect("a mapping"),
                mpi: "mpich".to_owned(),
                storage: "run".to_owned(),
                checkpointer,
                moment: (checkpointer == CheckpointerKind::Dmtcp).then_some(Moment::AtS(vec![2.0])),
                ..Point::default()
            };
            let wall = 4.0 + 400.0 / n + each * n;
            let repeats = [0.999, 1.001].map(|by| {
                let mut values = vec![(names::WALL_S, wall * by, Unit::Seconds)];
                if checkpointer == CheckpointerKind::Dmtcp {
                    values.push((names::CKPT_STORED_BYTES, 20e6 * n, Unit::Bytes));
                }
                Ok(values)
            });
            (point, repeats.into())
        })
    });
    campaign_measured(dir, made.collect());
}

fn table<'d>(document: &'d Document, id: &str) -> &'d cvc_show::Table {
    let blocks = document.sections.iter().flat_map(|s| &s.blocks);
    let mut tables = blocks.filter_map(|block| match block {
        Block::Table(table) if table.id == id => Some(table),
        _ => None,
    });
    tables.next().unwrap_or_else(|| panic!("no table {id}"))
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Text { text } => text.clone(),
        Cell::Number { value } => format!("{value:.0}"),
        Cell::Empty => "-".to_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn checkpoints_move_the_number_of_processes_from_which_more_do_not_pay() {
    let dir = tempfile::tempdir().expect("a directory");
    campaign(dir.path(), "local");
    let index = rebuild_index(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let report = build(&index).expect("a report");
    let turnings = table(&report, "turning-points");
    let rows: Vec<Vec<String>> = turnings
        .rows
        .iter()
        .map(|row| row[1..8].iter().map(shown).collect())
        .collect();
    // 12 is the fastest measured number of processes without checkpoints
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0][..2], ["none", "more"]);
    assert_eq!(rows[1][..2], ["dmtcp", "8"]);
    assert!(
        (19.0..=21.0).contains(&rows[0][4].parse::<f64>().expect("a number")),
        "{rows:?}"
    );
    assert!(
        (8.0..=10.0).contains(&rows[1][4].parse::<f64>().expect("a number")),
        "{rows:?}"
    );
    let speedup = table(&report, "speed-up");
    assert_eq!(speedup.rows.len(), 12);
    let section = report
        .sections
        .iter()
        .find(|s| s.id == "scaling")
        .expect("a section");
    let plots = section
        .blocks
        .iter()
        .filter(|b| matches!(b, Block::Plot(_)));
    assert_eq!(plots.count(), 1);

    // two sides, a campaign each
    let other = tempfile::tempdir().expect("a directory");
    campaign(other.path(), "local");
    let other = rebuild_index(Utf8Path::from_path(other.path()).expect("UTF-8")).expect("an index");
    let [first, second] = [("a", &index), ("b", &other)]
        .map(|(name, index)| Side::of_campaign(name, index).expect("a side"));
    let comparison = compare_sides(&first, &second, 0.02);
    let answers = comparison
        .answers
        .iter()
        .filter(|a| a.contains("were the fastest"));
    assert_eq!(answers.count(), 2, "{:#?}", comparison.answers);
    let page = comparison_report(&comparison).expect("a page");
    assert_eq!(table(&page, "turning-points").rows.len(), 4);
}
