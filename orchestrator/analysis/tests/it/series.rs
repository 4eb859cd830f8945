//! What reports tell of series of checkpoints.

use crate::common::campaign_measured;
use camino::Utf8Path;
use cvc_analysis::report::{Block, Report, build, write_all};
use cvc_core::campaign::Format;
use cvc_core::plan::Plan;
use cvc_core::point::{CheckpointerKind, Moment, Point};
use cvc_core::record::{Record, Source, Unit, names};
use cvc_prediction::holdout::rebuild_index;
use std::{fs, path::Path};

const MIB: f64 = 1_048_576.0;

/// Methods with what they store of each of four checkpoints, MiB: much of it grows since the first.
const STORED: [(&str, [f64; 4]); 5] = [
    ("full", [80.0, 80.0, 80.0, 80.0]),
    ("incremental", [80.0, 10.0, 10.0, 10.0]),
    ("differential", [80.0, 10.0, 16.0, 22.0]),
    ("adca", [80.0, 10.0, 16.0, 22.0]),
    ("bounded", [80.0, 10.0, 16.0, 22.0]),
];

fn point(mpi: &str) -> Point {
    Point {
        site: "local".to_owned(),
        app: "kernel-front".to_owned(),
        class: "S".to_owned(),
        mapping: "1Nx4P".parse().expect("a mapping"),
        mpi: mpi.to_owned(),
        storage: "run".to_owned(),
        checkpointer: CheckpointerKind::Dmtcp,
        moment: Some(Moment::Series {
            every_s: 3.0,
            compare: true,
            count: 4,
        }),
        ..Point::default()
    }
}

fn again(dir: &Path) -> Report {
    build(&rebuild_index(Utf8Path::from_path(dir).expect("UTF-8")).expect("an index"))
        .expect("a report")
}

/// Two points with two repeats each, of which that with MPICH has series.
fn campaign(dir: &Path) -> Report {
    let repeats = || {
        let wall = |s| Ok(vec![(names::WALL_S, s, Unit::Seconds)]);
        vec![wall(10.0), wall(10.2)]
    };
    campaign_measured(
        dir,
        vec![(point("mpich"), repeats()), (point("openmpi"), repeats())],
    );
    let plan: Plan =
        serde_json::from_str(&fs::read_to_string(dir.join("plan.json")).expect("a plan"))
            .expect("a plan");
    for run in plan.runs.iter().filter(|r| r.point == plan.points[0].id) {
        let path = dir.join(format!("runs/{}/records.jsonl", run.id));
        let mut text = fs::read_to_string(&path).expect("records");
        let mut add = |name: &str, value: f64, unit: Unit, labels: &[(&str, &str)]| {
            let record = Record {
                run: run.id.clone(),
                name: name.to_owned(),
                value,
                unit,
                source: Source::Image,
                artefact: None,
                labels: labels
                    .iter()
                    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                    .collect(),
            };
            text += &(serde_json::to_string(&record).expect("json") + "\n");
        };
        add(
            names::SERIES_CHECKPOINTS,
            4.0,
            Unit::Count,
            &[("planned", "4")],
        );
        for ckpt in 1..=4_usize {
            let number = ckpt.to_string();
            add(
                names::SERIES_HASH_S,
                0.25,
                Unit::Seconds,
                &[("ckpt", &number)],
            );
            for since in 1..ckpt {
                let changed = (4 + 6 * (ckpt - since)) as f64 * MIB;
                let labels = [("ckpt", number.as_str()), ("since", &since.to_string())];
                add(names::SERIES_CHANGED_BYTES, changed, Unit::Bytes, &labels);
            }
            for (method, stored) in STORED {
                let labels = [("ckpt", number.as_str()), ("method", method)];
                let bytes = stored[ckpt - 1] * MIB;
                add(names::SERIES_STORED_BYTES, bytes, Unit::Bytes, &labels);
            }
        }
        for (method, stored) in STORED {
            let total = stored.iter().sum::<f64>() * MIB;
            add(
                names::SERIES_TOTAL_BYTES,
                total,
                Unit::Bytes,
                &[("method", method)],
            );
            add(
                names::SERIES_RESTORE_FILES,
                2.0,
                Unit::Count,
                &[("method", method)],
            );
        }
        fs::write(&path, text).expect("writes");
    }
    again(dir)
}

#[test]
fn what_methods_store_is_drawn_by_checkpoint_and_added_up_by_point() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign(dir.path());
    let formats = [Format::Markdown];
    let to = dir.path().join("report");
    write_all(&report, Utf8Path::from_path(&to).expect("UTF-8"), &formats).expect("written");
    let text = fs::read_to_string(to.join("report.md")).expect("a report");
    let section = text
        .split("\n## ")
        .find(|section| section.starts_with("What checkpoints have in common\n"))
        .expect("a section");
    insta::assert_snapshot!(section);
    let found = report
        .sections
        .iter()
        .find(|s| s.id == "series")
        .expect("a section");
    let plots: Vec<_> = found
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Plot(plot) => Some(plot),
            _ => None,
        })
        .collect();
    // one panel for the point that has a series, a key for each of four methods
    assert_eq!(plots.len(), 1);
    assert_eq!((plots[0].panels.len(), plots[0].keys.len()), (1, 4));
    let drawn = &plots[0].panels[0];
    assert!(
        drawn.contains("checkpoint") && drawn.contains("stored, MiB"),
        "{drawn}"
    );
}

#[test]
fn without_series_there_is_no_section() {
    let dir = tempfile::tempdir().expect("a directory");
    let wall = vec![Ok(vec![(names::WALL_S, 10.0, Unit::Seconds)])];
    campaign_measured(dir.path(), vec![(point("mpich"), wall)]);
    assert!(again(dir.path()).sections.iter().all(|s| s.id != "series"));
}
