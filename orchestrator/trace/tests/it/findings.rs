//! Compares findings with those of Drishti for the same logs, and checks those that Drishti does not have.

use cvc_trace::{
    findings::{
        FileFacts, Finding, PosixFacts, RankSpread, RequestedSettings, Severity, Thresholds,
        TraceFacts, facts_of_profile, findings,
    },
    profile::{Profile, Profiler},
    read_trace,
};
use std::{collections::BTreeSet, path::PathBuf};

fn read(name: &str) -> (TraceFacts, Profile) {
    let path = PathBuf::from(format!(
        "{}/tests/data/darshan/{name}.darshan",
        env!("CARGO_MANIFEST_DIR")
    ));
    let mut profiler = Profiler::default();
    let origin = read_trace(&[path], &mut profiler, None).unwrap();
    (origin.counted().unwrap(), profiler.finish())
}

fn told(name: &str, asked: RequestedSettings, limits: &Thresholds) -> Vec<Finding> {
    let (counted, profile) = read(name);
    let mut facts = counted;
    facts.add_events(&facts_of_profile(&profile));
    findings(&facts, asked, limits)
}

/// Findings of Drishti 0.8 (`--csv`) for these logs. It cannot report aggregators (M08 to M10) without Slurm's accounting.
const DRISHTI: [(&str, &[&str]); 4] = [
    (
        "mpich-btioS-full-np4",
        &[
            "M04", "M05", "M06", "M07", "P08", "P12", "P14", "P18", "P19",
        ],
    ),
    (
        "mpich-btioS-simple-np4",
        &[
            "M02", "M03", "M06", "M07", "P05", "P06", "P08", "P12", "P14", "P15", "P16", "P19",
        ],
    ),
    (
        "ompi-romio-btioW-full-np4",
        &["M04", "M05", "M06", "M07", "P12", "P14", "P18", "P19"],
    ),
    (
        "ompi-ompio-btioW-full-np9",
        &["M04", "M05", "M06", "M07", "P12", "P14", "P18", "P19"],
    ),
];

#[test]
fn the_same_is_told_of_the_same_logs_as_by_drishti() {
    for (name, codes) in DRISHTI {
        let found = told(name, RequestedSettings::default(), &Thresholds::default());
        let mine: BTreeSet<&str> = found
            .iter()
            .filter_map(|f| f.drishti)
            .filter(|code| !["M08", "M09", "M10"].contains(code))
            .collect();
        let theirs: BTreeSet<&str> = codes.iter().copied().collect();
        assert_eq!(mine, theirs, "{name}");
    }
}

#[test]
fn codes_are_told_once_and_in_order_and_each_has_evidence() {
    for (name, _) in DRISHTI {
        let found = told(name, RequestedSettings::default(), &Thresholds::default());
        assert!(found.windows(2).all(|w| w[0].code <= w[1].code), "{name}");
        for finding in &found {
            assert!(
                finding.evidence.chars().any(|c| c.is_ascii_digit()),
                "{finding:?}"
            );
        }
    }
}

#[test]
fn aggregators_are_held_against_what_was_asked_for() {
    let codes = |aggregators| -> Vec<&str> {
        let asked = RequestedSettings {
            aggregators: Some(aggregators),
            ..RequestedSettings::default()
        };
        let found = told("mpich-btioS-full-np4", asked, &Thresholds::default());
        found.iter().map(|f| f.code).collect()
    };
    assert!(
        !codes(1).contains(&"T40"),
        "one was asked for and one wrote"
    );
    assert!(
        codes(2).contains(&"T40"),
        "two were requested and one wrote"
    );
}

#[test]
fn independent_writes_have_no_aggregators_and_the_writer_changes_along_the_file() {
    let asked = RequestedSettings {
        aggregators: Some(2),
        ..RequestedSettings::default()
    };
    let found = told("mpich-btioS-simple-np4", asked, &Thresholds::default());
    let codes: Vec<&str> = found.iter().map(|f| f.code).collect();
    assert!(codes.contains(&"T42") && !codes.contains(&"T40") && !codes.contains(&"T30"));
}

#[test]
fn another_threshold_tells_less() {
    let limits = Thresholds {
        small_bytes: 100,
        ..Thresholds::default()
    };
    let found = told(
        "mpich-btioS-simple-np4",
        RequestedSettings::default(),
        &limits,
    );
    assert!(
        !found
            .iter()
            .any(|f| ["T06", "T07", "T16", "T17"].contains(&f.code))
    );
}

/// Returns the facts of a trace with one large file and the file `more`.
fn facts(more: FileFacts) -> TraceFacts {
    let large = FileFacts {
        name: "/d/large".into(),
        posix: PosixFacts {
            writes: 10,
            written_bytes: 4_700_000,
            write_end: 4_700_000,
            ..PosixFacts::default()
        },
        time_s: 20.0,
        ..FileFacts::default()
    };
    TraceFacts {
        files: vec![large, more],
        has_interfaces: true,
        nodes: None,
        processes: 4,
    }
}

#[test]
fn next_to_nothing_is_something_to_know() {
    let small = FileFacts {
        name: "/d/x.sm".into(),
        posix: PosixFacts {
            writes: 20,
            written_bytes: 80,
            write_end: 8,
            ..PosixFacts::default()
        },
        shared_extents: Some((7, 100)),
        writers: Some((0, 4)),
        written_by: RankSpread::of([10.0, 70.0]),
        time_s: 0.001,
        ..FileFacts::default()
    };
    let found = findings(
        &facts(small.clone()),
        RequestedSettings::default(),
        &Thresholds::default(),
    );
    let of_small: Vec<&Finding> = found
        .iter()
        .filter(|f| f.file.as_deref() == Some("/d/x.sm"))
        .collect();
    assert!(of_small.len() >= 3, "{found:?}");
    assert!(
        of_small.iter().all(|f| f.severity == Severity::Info),
        "{of_small:?}"
    );
    assert!(of_small.iter().any(|f| {
        f.evidence
            .starts_with("80 bytes were written within the first 8 bytes")
    }));
    // for a file that takes all of the time, the same finding is a warning
    let slow = FileFacts {
        time_s: 60.0,
        ..small
    };
    let found = findings(
        &facts(slow),
        RequestedSettings::default(),
        &Thresholds::default(),
    );
    assert!(
        found
            .iter()
            .any(|f| f.code == "T11" && f.severity == Severity::Warning),
        "{found:?}"
    );
}

#[test]
fn sizes_are_told_as_they_are_and_factors_only_of_campaigns() {
    let limits = Thresholds::default();
    let stranger = told(
        "mpich-btioS-simple-np4",
        RequestedSettings::default(),
        &limits,
    );
    let own = told(
        "mpich-btioS-simple-np4",
        RequestedSettings {
            in_campaign: true,
            ..RequestedSettings::default()
        },
        &limits,
    );
    let of = |found: &[Finding], code| found.iter().find(|f| f.code == code).cloned().unwrap();
    let small = of(&stranger, "T07");
    assert_eq!(
        small.evidence,
        "3456 of 3456 writes (100.0 %) are small: 240 bytes on average, limit 1 MiB"
    );
    for finding in &stranger {
        let text = format!("{} {}", finding.evidence, finding.hint.unwrap_or_default());
        for word in [
            "btio-",
            "factor",
            "`aggregators`",
            "`cb_buffer`",
            "`mapping`",
            "`storage`",
        ] {
            assert!(!text.contains(word), "{text}");
        }
    }
    assert!(of(&own, "T07").hint.unwrap().contains("`aggregators`"));
}
