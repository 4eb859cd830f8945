//! Series of checkpoints beside what a paper says: records of real runs (DMTCP 4.2, Open MPI 4.1), cut down to what is asked for.

use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::copy_tree;
use cvc_delta::{Matrix, Threshold};
use cvc_paper::paper::{self, Paper};
use cvc_paper::rerun::{self, CampaignMeasurements, Joined, describe_series, switch_ranges};
use cvc_prediction::holdout::rebuild_index;
use std::{fs, path::Path};

fn folder(dir: &Path, measured: &str) -> Paper {
    fs::create_dir_all(dir).expect("a folder");
    let text =
        "schema = 1\nid = \"small\"\ntitle = \"A small paper\"\nauthors = [\"A\"]\nyear = 2012\n";
    fs::write(dir.join("paper.toml"), text).expect("paper.toml");
    fs::write(dir.join("measured.toml"), measured).expect("measured.toml");
    paper::load(dir).unwrap_or_else(|e| panic!("{e}"))
}

/// The joined paper with what campaigns of the fixtures measured, or the errors of `measured.toml`.
fn join(measured: &str, campaigns: &[&str]) -> Result<(Paper, Joined), String> {
    join_edited(measured, campaigns, &|_| {})
}

/// The same, after records were edited.
fn join_edited(
    measured: &str,
    campaigns: &[&str],
    edit: &dyn Fn(&mut serde_json::Value),
) -> Result<(Paper, Joined), String> {
    let dir = tempfile::tempdir().expect("a directory");
    let paper = folder(&dir.path().join("small"), measured);
    let definition = rerun::load(&dir.path().join("small"))
        .map_err(|e| e.to_string())?
        .expect("it is there");
    let mut all = CampaignMeasurements::default();
    for name in campaigns {
        // the index is written beside the data
        let campaign = Utf8PathBuf::from_path_buf(dir.path().join(name)).expect("text");
        let data = Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/rerun");
        copy_tree(&data.join(name), &campaign).expect("copied");
        for run in fs::read_dir(campaign.join("runs")).expect("runs") {
            let path = run.expect("a run").path().join("records.jsonl");
            let text = fs::read_to_string(&path).expect("records");
            let edited = text.lines().map(|line| {
                let mut record = serde_json::from_str(line).expect("a record");
                edit(&mut record);
                format!("{record}\n")
            });
            fs::write(&path, edited.collect::<String>()).expect("writes");
        }
        all.add(&rebuild_index(&campaign).expect("an index"))
            .expect("measurements");
    }
    let joined = rerun::join(&paper, &definition, &all);
    Ok((paper, joined))
}

/// What the paper of the repository asks for.
fn asked() -> String {
    let path = Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../experiments/papers/delta/measured.toml");
    fs::read_to_string(path).expect("measured.toml")
}

#[test]
fn thresholds_are_cut_into_ranges_where_the_switches_change() {
    let changed = |newer: usize, older: usize| (10 + 5 * (newer - older) + newer % 3) as u64;
    let count = 12;
    let rows = (0..count).map(|n| (0..n).map(|o| changed(n, o)).collect());
    let matrix = Matrix::new(
        (0..count).map(|t| t as f64).collect(),
        vec![1000; count],
        rows.collect(),
    );
    let ranges = switch_ranges(&matrix);
    assert!(ranges.len() > 3, "{ranges:?}");
    assert!((ranges[0].from - 1.0).abs() < f64::EPSILON);
    for pair in ranges.windows(2) {
        assert_eq!(pair[0].below, Some(pair[1].from));
        assert_ne!(pair[0].switches, pair[1].switches);
    }
    let last = ranges.last().expect("ranges");
    assert!(last.below.is_none() && last.switches.is_empty());
    // every threshold of a fine grid is in the range that says what it does
    for step in 0..800 {
        let ratio = 1.0 + f64::from(step) / 100.0;
        let range = ranges.iter().rev().find(|r| r.from <= ratio);
        let range = range.expect("a range");
        let expected = matrix.switches(Threshold::Ratio(ratio));
        let expected: Vec<usize> = expected.iter().map(|t| t + 1).collect();
        assert_eq!(range.switches, expected, "{ratio}");
    }
}

#[test]
fn lammps_changes_the_same_pages_again_and_again() {
    let (paper, joined) = join(&asked(), &["lammps-series"]).expect("joined");
    let [front, lammps] = joined.series.as_slice() else {
        panic!("{:?}", joined.series)
    };
    assert_eq!(lammps.checkpoints, 8);
    // what differential and incremental store differs by 1 %: ADCA is near to both
    let holds: Vec<Option<bool>> = lammps.claims.iter().map(|c| c.holds).collect();
    assert_eq!(holds, [Some(true), None], "{:?}", lammps.claims);
    assert!(describe_series(lammps).contains("undecided whether ADCA is nearer to incremental"));
    let volumes = |name: &str| {
        let of = lammps.volumes.iter().find(|(n, _)| n == name);
        &of.unwrap_or_else(|| panic!("no {name}")).1
    };
    // the first in full, all others alike
    assert_eq!(volumes("differential")[1], volumes("incremental")[1]);
    assert!(volumes("differential")[7] < volumes("differential")[0] / 10);
    assert!(front.missing.is_some());
    assert!(describe_series(front).contains("not measured: no run of a campaign has a series"));
    let text = serde_json::to_string(&rerun::sections(&paper, &joined, None).expect("drawn"));
    let text = text.expect("JSON");
    for part in ["volume-lammps", "switches-lammps", "claims-lammps"] {
        assert!(text.contains(part), "{part}");
    }
    assert!(!text.contains("volume-front"));
}

#[test]
fn a_volume_that_begins_with_nothing_grows_by_no_multiple() {
    let nothing_of_the_second = |record: &mut serde_json::Value| {
        if record["name"] == "series_changed_bytes" && record["labels"]["ckpt"] == "2" {
            record["value"] = 0.0.into();
        }
    };
    let (_, joined) =
        join_edited(&asked(), &["lammps-series"], &nothing_of_the_second).expect("joined");
    let claim = &joined.series[1].claims[0];
    assert_eq!(claim.holds, None, "{claim:?}");
    assert!(claim.found.contains("no ratio"), "{claim:?}");
}

#[test]
fn a_front_that_passes_behaves_as_the_paper_says() {
    let (paper, joined) = join(&asked(), &["front-series", "lammps-series"]).expect("joined");
    let front = &joined.series[0];
    assert_eq!((front.checkpoints, front.claims.len()), (25, 5));
    assert!(
        front.claims.iter().all(|c| c.holds == Some(true)),
        "{:?}",
        front.claims
    );
    // the base moves once, at t = 7, for a range of thresholds
    let once = front.ranges.iter().find(|r| r.switches == [7]);
    let once = once.expect("a range");
    assert!(
        (once.from - 2.4372).abs() < 1e-3 && once.below.is_some_and(|b| (b - 2.7709).abs() < 1e-3),
        "{once:?}"
    );
    assert_eq!(once.files, 3);
    // the case of one switch is drawn beside the others
    let names: Vec<&str> = front.volumes.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(
        names,
        [
            "differential",
            "incremental",
            "ADCA, threshold 2",
            "ADCA, threshold 2.60"
        ]
    );
    let adca = &front.volumes[3].1;
    let differential = &front.volumes[0].1;
    assert_eq!(adca[..7], differential[..7]);
    assert!(
        adca[7..]
            .iter()
            .zip(&differential[7..])
            .all(|(a, d)| 2 * a < *d)
    );
    assert!(describe_series(front).contains("25 checkpoints; 5 of 5 statements hold"));
    let sections = rerun::sections(&paper, &joined, Some("a note")).expect("drawn");
    assert_eq!(sections.last().map(|s| s.id), Some("series"));
}

#[test]
fn a_program_that_does_otherwise_is_said_to() {
    // the same statements of a program of which no base is better than the first
    let text = asked().replacen("app = \"kernel-front-passing\"", "app = \"lammps\"", 1);
    let (_, joined) = join(&text, &["lammps-series"]).expect("joined");
    let claims = &joined.series[0].claims;
    let holds: Vec<Option<bool>> = claims.iter().map(|c| c.holds).collect();
    assert_eq!(
        (holds[0], holds[1], holds[3]),
        (Some(false), Some(true), Some(false)),
        "{claims:?}"
    );
    assert!(
        describe_series(&joined.series[0])
            .contains("not that the volume of a differential checkpoint grows")
    );
}

#[test]
fn a_switch_that_cannot_be_and_an_unknown_statement_are_refused() {
    for (what, instead, says) in [
        (
            "switch = 7",
            "switch = 26",
            "a switch at checkpoint 26 of 25",
        ),
        ("switch = 7", "switch = 1", "a switch at checkpoint 1 of 25"),
        (
            "id = \"lammps\"",
            "id = \"front\"",
            "two series have the id `front`",
        ),
        (
            "point = { app = \"lammps\" }",
            "point = { program = \"lammps\" }",
            "unknown factor `program`",
        ),
        ("\"one-switch\"", "\"two-switches\"", "two-switches"),
    ] {
        let text = asked();
        assert!(text.contains(what), "{what}");
        let error = join(&text.replacen(what, instead, 1), &[]).expect_err("refused");
        assert!(error.contains(says), "{error}");
    }
}
