//! Tests of report sections about checkpoints that a program writes while it continues.

use crate::common::campaign_measured;
use camino::Utf8Path;
use cvc_analysis::report::build;
use cvc_core::campaign::Format;
use cvc_core::point::{CheckpointerKind, Point};
use cvc_core::record::{Unit, names};
use cvc_core::strategy::Strategy;
use cvc_prediction::holdout::rebuild_index;
use cvc_show::write_all;
use std::{fs, path::Path};

/// Returns the report of a kernel with these strategies, each with the stop of the program and the latency of a checkpoint, seconds.
fn report(dir: &Path, ways: &[(Strategy, f64, f64)]) -> String {
    let points = ways.iter().map(|(strategy, stop, latency)| {
        let point = Point {
            site: "local".to_owned(),
            app: "kernel-stencil".to_owned(),
            class: "S".to_owned(),
            mapping: "1Nx2P".parse().expect("a mapping"),
            mpi: "openmpi".to_owned(),
            storage: "run".to_owned(),
            checkpointer: CheckpointerKind::Application,
            strategy: *strategy,
            ..Point::default()
        };
        let repeat = |by: f64| {
            Ok(vec![
                (names::WALL_S, 10.0 * by, Unit::Seconds),
                (names::CKPT_LATENCY_S, latency * by, Unit::Seconds),
                (names::CKPT_STOP_S, stop * by, Unit::Seconds),
                (names::CKPT_SKIPPED, 1.0, Unit::Count),
            ])
        };
        (point, vec![repeat(1.0), repeat(1.02), repeat(0.99)])
    });
    campaign_measured(dir, points.collect());
    let index = rebuild_index(Utf8Path::from_path(dir).expect("UTF-8")).expect("an index");
    let report = build(&index).expect("a report");
    let to = dir.join("report");
    let to = Utf8Path::from_path(&to).expect("UTF-8");
    write_all(&report, to, &[Format::Markdown]).expect("written");
    fs::read_to_string(to.join("report.md")).expect("a report")
}

const TITLE: &str = "\n## Stop and latency of checkpoints\n";

#[test]
fn stops_are_shown_with_latencies_and_as_an_effect_of_the_strategy() {
    let dir = tempfile::tempdir().expect("a directory");
    let ways = [
        (Strategy::Sync, 2.0, 2.0),
        (Strategy::Thread, 0.25, 3.0),
        (Strategy::Swap, 0.125, 2.5),
    ];
    let text = report(dir.path(), &ways);
    let (_, section) = text.split_once(TITLE).expect("a section");
    let section = section.split("\n## ").next().expect("text");
    insta::assert_snapshot!(section);
    let effect = text.lines().find(|line| {
        line.starts_with("| strategy | strategy thread | strategy sync | program stopped |")
    });
    let effect = effect.unwrap_or_else(|| panic!("{text}"));
    assert!(effect.contains("smaller by 87.5 %"), "{effect}");
}

#[test]
fn campaigns_of_one_way_have_no_section_of_stops() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = report(dir.path(), &[(Strategy::Sync, 2.0, 2.0)]);
    assert!(!text.contains(TITLE), "{text}");
}
