//! Tests of the report section about memory pages that programs wrote.

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

/// Returns the section for a campaign of two applications, of which the first counts its pages at two checkpoints of each run.
fn campaign(dir: &Path, with_hashes: bool) -> Option<String> {
    let point = |app: &str| Point {
        site: "local".to_owned(),
        app: app.to_owned(),
        class: "S".to_owned(),
        mapping: "1Nx4P".parse().expect("a mapping"),
        mpi: "openmpi".to_owned(),
        storage: "run".to_owned(),
        checkpointer: CheckpointerKind::Application,
        ..Point::default()
    };
    let repeats = || {
        let wall = |s| Ok(vec![(names::WALL_S, s, Unit::Seconds)]);
        vec![wall(10.0), wall(10.2)]
    };
    campaign_measured(
        dir,
        vec![
            (point("kernel-front-track"), repeats()),
            (point("kernel-front"), repeats()),
        ],
    );
    let text = fs::read_to_string(dir.join("plan.json")).expect("a plan");
    let plan: Plan = serde_json::from_str(&text).expect("a plan");
    for run in plan.runs.iter().filter(|r| r.point == plan.points[0].id) {
        let path = dir.join(format!("runs/{}/records.jsonl", run.id));
        let mut text = fs::read_to_string(&path).expect("records");
        let mut add = |name: &str, value: f64, unit: Unit, labels: &[(&str, &str)]| {
            let record = Record {
                run: run.id.clone(),
                name: name.to_owned(),
                value,
                unit,
                source: Source::ApplicationOutput,
                artefact: None,
                labels: labels
                    .iter()
                    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                    .collect(),
            };
            text += &(serde_json::to_string(&record).expect("json") + "\n");
        };
        for (ckpt, written, changed) in [("1", 300.0, 150.0), ("2", 500.0, 250.0)] {
            let own = [("ckpt", ckpt)];
            add(names::PAGES_TRACKED, 1000.0, Unit::Count, &own);
            add(names::PAGES_WRITTEN, written, Unit::Count, &own);
            add(names::PAGES_CHANGED, changed, Unit::Count, &own);
            let bytes = changed * 2048.0;
            add(names::PAGES_CHANGED_BYTES, bytes, Unit::Bytes, &own);
            add(names::PAGES_SCAN_S, 0.001, Unit::Seconds, &own);
            add(names::PAGES_COMPARE_S, 0.02, Unit::Seconds, &own);
            if with_hashes {
                add(names::SERIES_HASH_S, 0.25, Unit::Seconds, &own);
            }
        }
        if with_hashes {
            // the third checkpoint was not read: changes until the fourth are of two intervals, and are in no mean
            for (ckpt, since, blocks) in [("2", "1", 300.0), ("4", "2", 900.0), ("4", "1", 950.0)] {
                let labels = [("ckpt", ckpt), ("since", since)];
                add(
                    names::SERIES_CHANGED_BYTES,
                    blocks * 4096.0,
                    Unit::Bytes,
                    &labels,
                );
            }
        }
        fs::write(&path, text).expect("writes");
    }
    let index = rebuild_index(Utf8Path::from_path(dir).expect("UTF-8")).expect("an index");
    let report = build(&index).expect("a report");
    let to = dir.join("report");
    let to = Utf8Path::from_path(&to).expect("UTF-8");
    write_all(&report, to, &[Format::Markdown]).expect("written");
    let text = fs::read_to_string(to.join("report.md")).expect("a report");
    text.split("\n## ")
        .find(|section| section.starts_with("Pages written and changed\n"))
        .map(str::to_owned)
}

#[test]
fn pages_written_stand_beside_pages_changed_and_what_hashes_say() {
    let dir = tempfile::tempdir().expect("a directory");
    insta::assert_snapshot!(campaign(dir.path(), true).expect("a section"));
}

#[test]
fn without_hashes_only_pages_are_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let section = campaign(dir.path(), false).expect("a section");
    assert!(
        section.contains("400") && section.contains("50"),
        "{section}"
    );
    assert!(!section.contains("by hash"), "{section}");
}
