//! Tests of zones by owner (the program, its libraries): reports and predictions of campaigns whose runs recorded them.

use crate::common;
use cvc_analysis::report::build;
use cvc_core::plan::Plan;
use cvc_core::point::{CheckpointerKind, Compression};
use cvc_core::quantity::Quantity;
use cvc_core::record::{Record, Source, Unit, names};
use cvc_prediction::holdout::rebuild_index;
use cvc_prediction::predict::{Observation, from_index, keep_one_environment};
use cvc_show::{Block, Plot, Table};
use cvc_testkit::utf8;
use std::{fs, path::Path};

const MIB: f64 = 1_048_576.0;

/// MiB of a rank's image by owner, for a program that allocates memory and its libraries.
const ZONES: [(&str, f64); 4] = [
    ("DTAPP", 100.0),
    ("LB", 20.0),
    ("SHMEM", 1.0),
    ("REST", 0.25),
];
const PARTS: [(&str, &str, f64); 3] = [
    ("DTAPP", "static", 8.0),
    ("DTAPP", "heap", 0.125),
    ("DTAPP", "allocated", 91.875),
];

/// Writes points under DMTCP. A run also has zones by owner if `tells` returns true for its number.
fn campaign(dir: &Path, tells: impl Fn(usize) -> bool) {
    let plain = |p: &cvc_core::point::Point| {
        p.checkpointer == CheckpointerKind::Dmtcp && p.compression == Compression::None
    };
    let points = common::many_points()
        .into_iter()
        .filter(|p| p.app == "nas-bt" && p.aggregators.is_none() && plain(p))
        .collect();
    common::campaign_of(dir, points);
    // set the same facts in all runs, because predictions must come from one environment
    for facts in fs::read_dir(dir.join("runs"))
        .expect("runs")
        .map(|run| run.expect("a run").path().join("facts.json"))
    {
        let mut of: serde_json::Value =
            serde_json::from_slice(&fs::read(&facts).expect("facts")).expect("JSON");
        of["dmtcp"] = "7.7.0".into();
        fs::write(&facts, of.to_string()).expect("facts");
    }
    let plan: Plan =
        serde_json::from_str(&fs::read_to_string(dir.join("plan.json")).expect("a plan"))
            .expect("a plan");
    for (i, (run, planned)) in plan
        .runs
        .iter()
        .zip(&plan.points)
        .enumerate()
        .filter(|(i, _)| tells(*i))
    {
        let path = dir.join(format!("runs/{}/records.jsonl", run.id));
        let mut text = fs::read_to_string(&path).expect("records");
        let mut add = |name: &str, rank: u32, mib: f64, labels: &[(&str, &str)]| {
            let rank = rank.to_string();
            let labels = [("ckpt", "1"), ("rank", &rank), ("rule", "owner")]
                .into_iter()
                .chain(labels.iter().copied());
            let labels = labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
            let (run, name) = (run.id.clone(), name.to_owned());
            let record = Record {
                run,
                name,
                value: mib * MIB,
                unit: Unit::Bytes,
                source: Source::Image,
                artefact: None,
                labels,
            };
            text += &(serde_json::to_string(&record).expect("json") + "\n");
        };
        for rank in 0..planned.point.processes() {
            ZONES
                .iter()
                .for_each(|(zone, mib)| add(names::ZONE_BYTES, rank, *mib, &[("zone", zone)]));
            PARTS.iter().for_each(|(zone, part, mib)| {
                add(
                    names::PART_BYTES,
                    rank,
                    *mib,
                    &[("zone", zone), ("kind", part)],
                )
            });
        }
        fs::write(&path, text).unwrap_or_else(|e| panic!("run {i}: {e}"));
    }
}

fn observations(dir: &Path) -> Vec<Observation> {
    from_index(&rebuild_index(utf8(dir)).expect("an index"), "made up").expect("observations")
}

#[test]
fn reports_show_first_whose_memory_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    campaign(dir.path(), |_| true);
    let report = build(&rebuild_index(utf8(dir.path())).expect("an index")).expect("a report");
    let section = report
        .sections
        .iter()
        .find(|section| section.id == "zones")
        .expect("the zones");
    let tables: Vec<&Table> = section
        .blocks
        .iter()
        .filter_map(|b| {
            if let Block::Table(table) = b {
                Some(table)
            } else {
                None
            }
        })
        .collect();
    let open: Vec<&str> = tables
        .iter()
        .filter(|table| !table.folded)
        .map(|table| table.id.as_str())
        .collect();
    assert_eq!(open, ["zones_owner"]);
    assert!(
        tables.iter().any(|table| table.id == "zones_literal")
            && tables.iter().any(|table| table.id == "zones_structural")
    );
    let headings: Vec<&str> = tables[0]
        .columns
        .iter()
        .map(|column| column.heading.as_str())
        .collect();
    for heading in [
        "shared memory (SHMEM)",
        "stacks and reserves (REST)",
        "static data",
        "heap",
        "allocated",
    ] {
        assert!(headings.contains(&heading), "{heading} in {headings:?}");
    }
    let blocks = report.sections.iter().flat_map(|section| &section.blocks);
    let plots: Vec<&Plot> = blocks
        .filter_map(|b| {
            if let Block::Plot(plot) = b {
                Some(plot)
            } else {
                None
            }
        })
        .collect();
    let plot = plots
        .iter()
        .find(|plot| plot.id.starts_with("zones-"))
        .expect("a plot of zones");
    assert!(
        plot.caption.contains("by the owner rule"),
        "{}",
        plot.caption
    );
    assert!(
        plot.keys
            .iter()
            .any(|key| key.contains("stacks and reserves")),
        "{:?}",
        plot.keys
    );
}

#[test]
fn predictions_take_zones_by_owner_whose_sum_is_the_images_data() {
    let dir = tempfile::tempdir().expect("a directory");
    campaign(dir.path(), |_| true);
    let all = observations(dir.path());
    assert!(!all.is_empty());
    for observation in all {
        let of = [Quantity::Dtapp, Quantity::Lb, Quantity::Shmem]
            .map(|quantity| observation.value(quantity).expect("a zone"));
        assert_eq!(
            of,
            [100.0, 20.0, 1.25],
            "{}: stacks are counted with shared memory",
            observation.label
        );
    }
}

#[test]
fn one_campaign_is_predicted_by_one_rule() {
    let dir = tempfile::tempdir().expect("a directory");
    // a campaign that an earlier version of cvc began: only some runs have zones by owner
    campaign(dir.path(), |run| run != 0);
    for observation in observations(dir.path()) {
        assert_ne!(
            observation.value(Quantity::Dtapp),
            Some(100.0),
            "{}",
            observation.label
        );
    }
}

#[test]
fn campaigns_by_two_rules_are_not_mixed() {
    let (old, new) = (
        tempfile::tempdir().expect("a directory"),
        tempfile::tempdir().expect("a directory"),
    );
    campaign(old.path(), |_| false);
    campaign(new.path(), |_| true);
    let (before, after) = (observations(old.path()), observations(new.path()));
    let (kept, notes) =
        keep_one_environment(before.iter().chain(&after).cloned().collect(), |_| true);
    let data: Vec<Option<f64>> = kept
        .iter()
        .map(|observation| observation.value(Quantity::Dtapp))
        .collect();
    assert!(
        kept.len() == after.len() && data.iter().all(|mib| *mib == Some(100.0)),
        "the newer rule, of as many: {data:?}"
    );
    let [note] = &notes[..] else {
        panic!("one note: {notes:?}")
    };
    assert!(
        note.contains("zones by owner") && note.contains("zones=structural"),
        "{note}"
    );
}
