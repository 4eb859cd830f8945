//! Tests of report sections about restarts, and about images that are written late.

use crate::common::campaign_measured;
use camino::Utf8Path;
use cvc_analysis::report::build;
use cvc_core::campaign::Format;
use cvc_core::plan::Plan;
use cvc_core::point::{CheckpointerKind, Point};
use cvc_core::record::{Record, Source, Unit, names};
use cvc_prediction::holdout::rebuild_index;
use cvc_show::write_all;
use std::{fs, path::Path};

/// Returns the report of a campaign with one point whose run was restarted twice. 90 % of its images are complete at `p90_s`, the last at `last_s`.
fn report(dir: &Path, p90_s: f64, last_s: f64) -> String {
    let point = Point {
        site: "local".to_owned(),
        app: "kernel-stencil".to_owned(),
        class: "S".to_owned(),
        mapping: "1Nx4P".parse().expect("a mapping"),
        mpi: "openmpi".to_owned(),
        storage: "run".to_owned(),
        checkpointer: CheckpointerKind::Dmtcp,
        restart_check: Some(true),
        ..Point::default()
    };
    let measured = vec![
        (names::CKPT_LATENCY_S, 3.0, Unit::Seconds),
        (names::RESTART_VERIFIED, 1.0, Unit::Bool),
        (names::RESTART_TO_END_S, 10.0, Unit::Seconds),
        (names::RESTART_REST_S, 8.0, Unit::Seconds),
        (names::RESTARTS, 2.0, Unit::Count),
    ];
    campaign_measured(dir, vec![(point, vec![Ok(measured)])]);
    let text = fs::read_to_string(dir.join("plan.json")).expect("a plan");
    let plan: Plan = serde_json::from_str(&text).expect("a plan");
    let run = &plan.runs[0];
    let path = dir.join(format!("runs/{}/records.jsonl", run.id));
    let mut text = fs::read_to_string(&path).expect("records");
    let mut add = |name: &str, value: f64, unit: Unit, label: (&str, &str)| {
        let record = Record {
            run: run.id.clone(),
            name: name.to_owned(),
            value,
            unit,
            source: Source::Clock,
            artefact: None,
            labels: [(label.0.to_owned(), label.1.to_owned())].into(),
        };
        text += &(serde_json::to_string(&record).expect("json") + "\n");
    };
    for (restart, latency_s, mib) in [("1", 1.0, 100.0), ("2", 4.0, 200.0)] {
        let label = ("restart", restart);
        let bytes = mib * 1048576.0;
        add(names::RESTART_LATENCY_S, latency_s, Unit::Seconds, label);
        add(names::RESTART_BYTES, bytes, Unit::Bytes, label);
    }
    for (at, s) in [("p90", p90_s), ("last", last_s)] {
        add(names::CKPT_IMAGES_DONE_S, s, Unit::Seconds, ("at", at));
    }
    fs::write(&path, text).expect("writes");
    let index = rebuild_index(Utf8Path::from_path(dir).expect("UTF-8")).expect("an index");
    let document = build(&index).expect("a report");
    let to = dir.join("report");
    let to = Utf8Path::from_path(&to).expect("UTF-8");
    write_all(&document, to, &[Format::Markdown]).expect("written");
    fs::read_to_string(to.join("report.md")).expect("a report")
}

#[test]
fn a_restart_is_shown_apart_from_the_computation_that_was_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = report(dir.path(), 2.0, 2.5);
    let (_, section) = text.split_once("\n## Restarts").expect("the section");
    let row = section
        .lines()
        .find(|line| line.contains("1 of 1"))
        .unwrap_or_else(|| panic!("{section}"));
    // means over both restarts: 2.5 s, 150 MiB, and (100 + 50) / 2 MiB/s
    for shown in ["| 2.5 |", "| 150 |", "| 75 |", "| 8 |", "| 10 |"] {
        assert!(row.contains(shown), "{shown}: {row}");
    }
    assert!(!text.contains("the last tenth of the images"), "{text}");
}

#[test]
fn a_last_tenth_of_images_that_takes_long_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = report(dir.path(), 1.5, 3.0);
    let line = text
        .lines()
        .find(|line| line.contains("the last tenth of the images"))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("50"), "{line}");
}
