//! Tests of report sections about series of checkpoints.

use crate::common::campaign_measured;
use camino::Utf8Path;
use cvc_analysis::report::build;
use cvc_core::campaign::Format;
use cvc_core::plan::Plan;
use cvc_core::point::{CheckpointerKind, Compression, Moment, Point};
use cvc_core::record::{Record, Source, Unit, names};
use cvc_prediction::{
    delta::{packed_of, series_of},
    holdout::rebuild_index,
};
use cvc_show::{Block, Document, Plot, write_all};
use std::{fs, path::Path};

const MIB: f64 = 1_048_576.0;

/// Methods with the sizes stored for each of four checkpoints, MiB; much of them grows since the first checkpoint.
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

fn again(dir: &Path) -> Document {
    build(&rebuild_index(Utf8Path::from_path(dir).expect("UTF-8")).expect("an index"))
        .expect("a report")
}

/// What was recorded about a series in addition to its volumes.
#[derive(Clone, Copy)]
enum Recorded {
    Volumes,
    /// Moments, zones, stored files and times of checkpoints.
    All,
}

/// Builds the report of a campaign with two points of two repeats each, of which the point with MPICH has series.
fn campaign(dir: &Path, recorded: Recorded) -> Document {
    campaign_of(dir, recorded, Compression::None)
}

/// Builds the report of the same campaign with compressed checkpoints.
fn campaign_of(dir: &Path, recorded: Recorded, compression: Compression) -> Document {
    let repeats = || {
        let wall = |s| Ok(vec![(names::WALL_S, s, Unit::Seconds)]);
        vec![wall(10.0), wall(10.2)]
    };
    campaign_measured(
        dir,
        ["mpich", "openmpi"]
            .map(|mpi| {
                let point = Point {
                    compression,
                    ..point(mpi)
                };
                (point, repeats())
            })
            .to_vec(),
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
                let changed = match recorded {
                    Recorded::Volumes => (4 + 6 * (ckpt - since)) as f64 * MIB,
                    // nearly the same pages change each time, so that deltas pay
                    Recorded::All => (10.0 + 0.1 * (ckpt - since) as f64) * MIB,
                };
                let labels = [("ckpt", number.as_str()), ("since", &since.to_string())];
                add(names::SERIES_CHANGED_BYTES, changed, Unit::Bytes, &labels);
            }
            for (method, stored) in STORED {
                let base = match method {
                    "full" => 0,
                    "incremental" => ckpt - 1,
                    _ => usize::from(ckpt > 1),
                }
                .to_string();
                let labels = [
                    ("ckpt", number.as_str()),
                    ("method", method),
                    ("base", &base),
                ];
                let bytes = stored[ckpt - 1] * MIB;
                add(names::SERIES_STORED_BYTES, bytes, Unit::Bytes, &labels);
            }
        }
        if matches!(recorded, Recorded::All) {
            for ckpt in 1..=4_usize {
                beside(ckpt, &mut add);
            }
            let way = [
                ("method", "incremental"),
                ("codec", "zstd"),
                ("block", "4096"),
            ];
            add(names::SERIES_MEMORY_BYTES, 12.0 * MIB, Unit::Bytes, &way);
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

/// Adds records of a checkpoint other than its volumes: it was written at 40 MiB/s, and zstd compresses it to a quarter, with larger blocks to a
/// third.
fn beside(ckpt: usize, add: &mut impl FnMut(&str, f64, Unit, &[(&str, &str)])) {
    let number = ckpt.to_string();
    let own = [("ckpt", number.as_str())];
    add(names::SERIES_AT_S, 3.0 * ckpt as f64, Unit::Seconds, &own);
    add(names::SERIES_BYTES, 80.0 * MIB, Unit::Bytes, &own);
    add(names::CKPT_LATENCY_S, 2.0, Unit::Seconds, &own);
    // the size after gzip, if gzip was used
    add(names::CKPT_STORED_BYTES, 20.0 * MIB, Unit::Bytes, &own);
    if ckpt > 1 {
        let since = (ckpt - 1).to_string();
        for (zone, mib) in [("DTAPP", 9.0), ("LB", 0.25), ("SHMEM", 0.0), ("REST", 0.75)] {
            let labels = [
                own[0],
                ("since", since.as_str()),
                ("zone", zone),
                ("rule", "owner"),
            ];
            add(
                names::SERIES_ZONE_CHANGED_BYTES,
                mib * MIB,
                Unit::Bytes,
                &labels,
            );
        }
    }
    for (method, stored) in STORED {
        for (codec, block, part) in [
            ("none", "4096", 1.01),
            ("zstd", "4096", 0.25),
            ("zstd", "65536", 1.0 / 3.0),
        ] {
            let mut labels = vec![
                own[0],
                ("method", method),
                ("codec", codec),
                ("block", block),
            ];
            if (method, codec, block) == ("incremental", "zstd", "4096") {
                labels.push(("live", "true"));
            }
            let mib = part * stored[ckpt - 1];
            add(names::SERIES_FILE_BYTES, mib * MIB, Unit::Bytes, &labels);
            add(names::SERIES_STORE_S, mib / 100.0, Unit::Seconds, &labels);
            let restore_s = 0.5 + mib / 50.0;
            add(names::SERIES_RESTORE_S, restore_s, Unit::Seconds, &labels);
        }
    }
}

/// Returns the section as written to the page.
fn section_of(to: &Path) -> String {
    let text = fs::read_to_string(to.join("report.md")).expect("a report");
    let section = text
        .split("\n## ")
        .find(|section| section.starts_with("Similarity of checkpoints\n"));
    section.expect("a section").to_owned()
}

fn plots_of(report: &Document) -> Vec<&Plot> {
    let found = report.sections.iter().find(|s| s.id == "series");
    let blocks = found.expect("a section").blocks.iter();
    let plots = blocks.filter_map(|block| match block {
        Block::Plot(plot) => Some(plot),
        _ => None,
    });
    plots.collect()
}

#[test]
fn what_methods_store_is_drawn_by_checkpoint_and_added_up_by_point() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign(dir.path(), Recorded::Volumes);
    let formats = [Format::Markdown];
    let to = dir.path().join("report");
    write_all(&report, Utf8Path::from_path(&to).expect("UTF-8"), &formats).expect("written");
    insta::assert_snapshot!(section_of(&to));
    let plots = plots_of(&report);
    // one panel for the point that has a series, and a legend entry for each of four methods
    assert_eq!(plots.len(), 1);
    assert_eq!((plots[0].panels.len(), plots[0].keys.len()), (1, 4));
    let drawn = &plots[0].panels[0];
    assert!(
        drawn.contains("checkpoint") && drawn.contains("stored, MiB"),
        "{drawn}"
    );
}

#[test]
fn files_restores_zones_and_a_recommendation_are_shown_where_they_were_recorded() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign(dir.path(), Recorded::All);
    let to = dir.path().join("report");
    let formats = [Format::Markdown, Format::Html, Format::Csv];
    write_all(&report, Utf8Path::from_path(&to).expect("UTF-8"), &formats).expect("written");
    insta::assert_snapshot!(section_of(&to));
    let plots = plots_of(&report);
    let ids: Vec<&str> = plots.iter().map(|p| p.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "series-0-kernel-front",
            "series-files-0-kernel-front",
            "series-restore-0-kernel-front",
            "series-zones-0-kernel-front"
        ]
    );
    // number of legend entries: codecs; methods; zones
    let keys: Vec<usize> = plots.iter().map(|p| p.keys.len()).collect();
    assert_eq!(keys, [4, 2, 5, 4]);
    assert!(plots[1].panels[0].contains("length of a file, MiB"));
    assert!(plots[2].panels[0].contains("time to restore, s"));
    assert!(plots[3].panels[0].contains("changed, MiB"));
    // a checkpoint that hardly changes is not stored in full
    let advised = fs::read_to_string(to.join("csv/series-recommended.csv")).expect("a table");
    assert_eq!(advised.lines().count(), 1 + 3, "{advised}");
    assert!(
        advised.lines().skip(1).all(|row| !row.contains(",full,")),
        "{advised}"
    );
    let csv = fs::read_to_string(to.join("csv/series-files.csv")).expect("a table");
    // five methods, each stored in three ways; one of these ways while the program ran
    assert_eq!(csv.lines().count(), 1 + 5 * 3, "{csv}");
    assert_eq!(csv.matches("while the program ran").count(), 1, "{csv}");
}

#[test]
fn codecs_are_known_by_states_that_were_stored_after_the_program_and_by_whole_chains() {
    let dir = tempfile::tempdir().expect("a directory");
    campaign(dir.path(), Recorded::All);
    let index = rebuild_index(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let series = series_of(&index).expect("series");
    let packed = packed_of(&index, &series[0].point).expect("files");
    let of = |codec: &str| {
        let of = packed
            .iter()
            .find(|p| p.codec == codec && p.block_bytes == 4096);
        of.unwrap_or_else(|| panic!("no {codec}: {packed:?}"))
    };
    let (none, zstd) = (of("none"), of("zstd"));
    let state = |method: &str, number: u32| {
        let mut states = zstd.states.iter();
        let of = states.find(|s| s.method == method && s.state == number);
        of.expect("a state")
    };
    let chain_mib = |method: &str, number: u32| state(method, number).restored.map(|(mib, _)| mib);
    assert_eq!(chain_mib("full", 4), Some(80.0));
    assert_eq!(chain_mib("incremental", 4), Some(110.0));
    assert_eq!(chain_mib("differential", 4), Some(102.0));
    // files of this method were stored while the program ran
    assert_eq!(state("incremental", 4).store_s, None);
    assert!(state("differential", 4).store_s.is_some());
    // three files after the first, although several methods stored the same
    let found = zstd.answer(Some(none)).expect("an answer");
    assert_eq!(found.states, 3);
    assert!((found.packing.delta_ratio - 0.25).abs() < 1e-9);
    // in the records, writing takes all the time, so neither rate can be derived
    assert_eq!(
        (found.packing.pack_mib_s, found.packing.unpack_mib_s),
        (None, None)
    );
    assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
}

#[test]
fn the_rate_of_compressed_images_is_that_of_what_they_hold() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = campaign_of(dir.path(), Recorded::All, Compression::Gzip);
    let series = report.sections.iter().find(|s| s.id == "series");
    let text = serde_json::to_string(&series.expect("a section").blocks).expect("JSON");
    // 80 MiB of blocks, compressed by gzip to 20, in 2 s
    let says = "checkpoints written at the measured 40 MiB/s (before compression, including the time of gzip)";
    assert!(text.contains(says), "{text}");
}

#[test]
fn without_series_there_is_no_section() {
    let dir = tempfile::tempdir().expect("a directory");
    let wall = vec![Ok(vec![(names::WALL_S, 10.0, Unit::Seconds)])];
    campaign_measured(dir.path(), vec![(point("mpich"), wall)]);
    assert!(again(dir.path()).sections.iter().all(|s| s.id != "series"));
}

#[test]
fn checkpoints_that_a_series_misses_are_reported_with_the_number_of_their_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    campaign(dir.path(), Recorded::Volumes);
    let runs = fs::read_dir(dir.path().join("runs")).expect("runs");
    let missing = "the series has 2 of 3 checkpoints that the program announced; checkpoint 2 is missing: ckpt: cannot open: Permission denied";
    for run in runs.flatten() {
        let records = fs::read_to_string(run.path().join("records.jsonl")).unwrap_or_default();
        if records.contains("series_checkpoints") {
            let facts = serde_json::json!({ "series_gaps": missing }).to_string();
            fs::write(run.path().join("facts.json"), facts).expect("facts");
        }
    }
    let report = again(dir.path());
    let found = report.sections.iter().find(|s| s.id == "series");
    let texts: Vec<&str> = found
        .expect("a section")
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert!(
        texts.contains(&format!("In 2 runs {missing}.").as_str()),
        "{texts:?}"
    );
}

#[test]
fn the_first_checkpoint_that_was_measured_is_not_drawn_whatever_its_number() {
    let dir = tempfile::tempdir().expect("a directory");
    campaign(dir.path(), Recorded::Volumes);
    for run in fs::read_dir(dir.path().join("runs"))
        .expect("runs")
        .flatten()
    {
        let path = run.path().join("records.jsonl");
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        // the first of four checkpoints was never read, so the second is stored in full
        let kept = text.lines().filter(|line| {
            !(line.contains("series_stored_bytes") && line.contains("\"ckpt\":\"1\""))
        });
        let kept: Vec<&str> = kept.collect();
        fs::write(&path, kept.join("\n") + "\n").expect("writes");
    }
    let index = rebuild_index(Utf8Path::from_path(dir.path()).expect("UTF-8")).expect("an index");
    let of = |ckpt: u32| {
        let volumes = index.series_volumes().expect("volumes");
        let of: Vec<bool> = volumes
            .iter()
            .filter(|v| v.ckpt == ckpt)
            .map(|v| v.is_first)
            .collect();
        of
    };
    assert_eq!(of(1), [false; 0]);
    assert_eq!(of(2), [true; 5]);
    assert_eq!(of(3), [false; 5]);
}
