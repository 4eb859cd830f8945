//! Tests of `cvc predict --layout` and `cvc metadata` as users type them.

use serde_json::Value;
use std::process::{Command, Output};

const QUESTION: [&str; 10] = [
    "predict",
    "--layout",
    "--processes",
    "128",
    "--size",
    "8GiB",
    "--bandwidth",
    "400MiB",
    "--metadata-rate",
    "500",
];

fn cvc(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cvc"))
        .args(arguments)
        .output()
        .expect("cvc")
}

fn text(arguments: &[&str]) -> String {
    let output = cvc(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(&[arguments, &["--json"]].concat())).expect("JSON")
}

/// Returns the error message of a command that must fail, with its hint.
fn refused(arguments: &[&str]) -> String {
    let output = cvc(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

fn asked<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&QUESTION[..], more].concat()
}

fn layout<'a>(answer: &'a Value, word: &str) -> &'a Value {
    let layouts = answer["layouts"].as_array().expect("layouts");
    let found = layouts.iter().find(|of| of["layout"] == word);
    found.unwrap_or_else(|| panic!("{word}: {answer}"))
}

fn sample(name: &str) -> String {
    format!(
        "{}/../trace/tests/data/metadata/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

const MOOSEFS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../experiments/operations-moosefs.csv"
);

#[test]
fn layouts_of_the_slides_are_ranked_with_their_counts() {
    let answer = json(&asked(&[
        "--file-system",
        "pvfs2",
        "--checkpoints",
        "9",
        "--per-node",
        "16",
    ]));
    assert_eq!(answer["layouts"][0]["layout"], "delegated");
    for (word, operations) in [
        ("delegated", 257.0),
        ("segmented", 1308.0),
        ("per-process", 4736.0),
        ("per-node", 296.0),
    ] {
        let of = layout(&answer, word);
        assert_eq!(of["operations"]["value"], operations, "{word}");
        // 9 checkpoints of 8 GiB at 400 MiB/s, and metadata operations at 500 per second
        let time = of["time"]["total_s"]["value"].as_f64().expect("a time");
        let expected = 9.0 * 8192.0 / 400.0 + operations / 500.0;
        assert!((time - expected).abs() < 1e-6, "{word}: {time} {expected}");
    }
    assert_eq!(layout(&answer, "segmented")["operations"]["high"], 1310.0);
    let shown = text(&asked(&[
        "--file-system",
        "pvfs2",
        "--checkpoints",
        "9",
        "--per-node",
        "16",
    ]));
    assert!(
        shown.contains("delegated needs 257 operations, 5 % of those of per-process"),
        "{shown}"
    );
    for line in shown
        .lines()
        .filter(|line| line.starts_with("per-") || line.starts_with("layout"))
    {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn one_checkpoint_is_alike_and_many_are_not() {
    let one = json(&asked(&["--file-system", "pvfs2"]));
    let saved = |answer: &Value| {
        let of = |word| {
            layout(answer, word)["operations"]["value"]
                .as_f64()
                .expect("a count")
        };
        of("segmented") - of("delegated")
    };
    assert!((0.0..=6.0).contains(&saved(&one)), "{one}");
    let nine = json(&asked(&["--file-system", "pvfs2", "--checkpoints", "9"]));
    assert_eq!(saved(&nine) - saved(&one), 8.0 * 131.0);
}

#[test]
fn the_load_of_the_metadata_server_follows_from_the_interval() {
    let more = ["--file-system", "pvfs2", "--interval", "1h", "--for", "10h"];
    let answer = json(&asked(&more));
    assert_eq!(answer["checkpoints"], 9);
    let load = &layout(&answer, "segmented")["load"];
    let a_day = load["operations_a_day"].as_f64().expect("a rate");
    assert!((a_day - 1308.0 / 9.0 * 24.0).abs() < 1e-6, "{load}");
    assert_eq!(load["capacity_a_day"], 500.0 * 86_400.0);
    let shown = text(&asked(&more));
    assert!(
        shown.contains("metadata server, one checkpoint every 1 h 00 min"),
        "{shown}"
    );
}

#[test]
fn a_table_of_counts_predicts_other_clients_and_checkpoints() {
    let answer = json(&asked(&["--operations", MOOSEFS, "--checkpoints", "9"]));
    // two messages for each process and checkpoint plus two for each process; four for each process and checkpoint
    for (word, expected) in [
        ("delegated", 2.0 * 128.0 * 9.0 + 256.0),
        ("segmented", 4.0 * 128.0 * 9.0),
        ("per-process", 4.0 * 128.0 * 9.0),
    ] {
        let operations = &layout(&answer, word)["operations"];
        let value = operations["value"].as_f64().expect("a count");
        assert!(
            (value / expected - 1.0).abs() < 0.05,
            "{word}: {value} for {expected}"
        );
        assert!(operations["high"].as_f64() > Some(value), "{operations}");
    }
    assert_eq!(
        layout(&answer, "per-node")["notes"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

#[test]
fn stripes_files_and_dmtcp_are_in_the_answer() {
    let more = [
        "--operations",
        MOOSEFS,
        "--stripe",
        "64KiB",
        "--write-size",
        "4KiB",
        "--keep",
        "2",
        "--file-limit",
        "200",
        "--checkpoints",
        "3",
        "--dmtcp",
        "--per-node",
        "16",
    ];
    let answer = json(&asked(&more));
    let strided = layout(&answer, "strided");
    assert_eq!(strided["stripes"]["pieces"], (8_u64 << 30) / 4096);
    let total = &strided["time"]["total_s"];
    assert!(total["low"].as_f64() < total["value"].as_f64(), "{total}");
    let segmented = layout(&answer, "segmented");
    assert_eq!(
        segmented["stripes"]["pieces"], 0,
        "segments of whole stripes"
    );
    let files = &layout(&answer, "per-process")["files"];
    assert_eq!(
        (&files["kept"], &files["peak"], &files["can_keep"]),
        (&256.into(), &384.into(), &0.into())
    );
    let dmtcp = &answer["dmtcp"];
    // 128 ranks, 8 proxies, and mpiexec
    let kinds = dmtcp["kinds"].as_array().expect("kinds");
    let rename = kinds
        .iter()
        .find(|of| of["kind"] == "rename")
        .expect("renames");
    assert_eq!(rename["count"], 137);
    assert_eq!(dmtcp["copied_behind"], 24);
    let shown = text(&asked(&more));
    assert!(
        shown.contains("log, per-process exceed the limit of files"),
        "{shown}"
    );
    assert!(
        shown.contains("With node-local storage and one archive per node"),
        "{shown}"
    );
}

#[test]
fn a_measured_bandwidth_is_that_of_the_processes_of_a_node() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("bandwidth.json");
    let storage = |writers: u32, mib_s: f64| {
        format!(
            "{{\"dir\":\"/x\",\"file_system\":\"ext4\",\"writers\":{writers},\"each_mib\":64.0,\"write_mib_s\":{mib_s},\"read_mib_s\":1.0,\"in_memory\":false}}"
        )
    };
    let document = format!(
        "{{\"schema\":1,\"storage\":[{},{}]}}",
        storage(1, 100.0),
        storage(12, 200.0)
    );
    std::fs::write(&path, document).expect("a file");
    let measured = path.to_str().expect("UTF-8");
    let base = [
        "predict",
        "--layout",
        "--processes",
        "128",
        "--per-node",
        "16",
        "--size",
        "8GiB",
        "--metadata-rate",
        "500",
        "--file-system",
        "pvfs2",
    ];
    let answer = json(&[&base[..], &["--measured", measured]].concat());
    assert_eq!(answer["rates"]["bytes_s"], 200.0 * 1_048_576.0);
    // the rate of creates and the free files come from the same row
    let created = storage(12, 200.0).replace('}', ",\"creates_s\":750.0,\"free_files\":100}");
    let document = format!(
        "{{\"schema\":1,\"storage\":[{},{created}]}}",
        storage(1, 100.0)
    );
    std::fs::write(&path, document).expect("a file");
    let without_rate: Vec<&str> = (base.into_iter())
        .filter(|word| !["--metadata-rate", "500"].contains(word))
        .chain(["--measured", measured])
        .collect();
    let answer = json(&without_rate);
    assert_eq!(answer["rates"]["operations_s"], 750.0);
    let sentence = answer["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("exceed the limit of files"), "{sentence}");
    std::fs::write(&path, "{\"schema\":1}").expect("a file");
    let message = refused(&[&base[..], &["--measured", measured]].concat());
    assert!(
        message.contains("no storage measurements") && message.contains("hint: "),
        "{message}"
    );
}

#[test]
fn wrong_questions_about_layouts_get_one_error_with_a_hint() {
    for (more, part) in [
        (&[][..], "missing operations of the file system"),
        (&["--file-system", "moosefs"], "the same number of clients"),
        (
            &["--file-system", "orangefs", "--per-node", "200"],
            "--per-node 200: there are only 128 processes",
        ),
        (
            &["--file-system", "pvfs2", "--stripe", "0"],
            "--stripe: no bytes",
        ),
        (
            &["--file-system", "pvfs2", "--interval", "2h", "--for", "1h"],
            "before its first checkpoint",
        ),
        (&["--operations", "/nonexistent.csv"], "/nonexistent.csv"),
    ] {
        let message = refused(&asked(more));
        assert!(message.contains(part), "{more:?}: {message}");
        assert!(message.contains("hint: "), "{more:?}: {message}");
        assert_eq!(message.matches("error:").count(), 1, "{message}");
    }
    let message = refused(&["predict", "--layout", "--file-system", "pvfs2"]);
    assert!(
        message.contains("the number of processes is not given"),
        "{message}"
    );
    let message = refused(&["predict", "--layout", "--file-system", "zfs"]);
    assert!(message.contains("pvfs2, orangefs, moosefs"), "{message}");
    // options that layouts do not use
    let message = refused(&asked(&["--file-system", "pvfs2", "--mtbf", "24h"]));
    assert!(
        message.contains("cannot be used with") && message.contains("--mtbf"),
        "{message}"
    );
    // options of layouts without --layout, and a bandwidth that is not needed
    assert!(refused(&["predict", "--processes", "4"]).contains("--layout"));
    assert!(refused(&["predict", "--at", "x", "--bandwidth", "1MiB"]).contains("--delta"));
    assert!(refused(&["predict", "--at", "x", "--storage", "--interval", "1h"]).contains("--for"));
}

#[test]
fn counts_before_and_after_become_lines_for_predictions() {
    let dir = tempfile::tempdir().expect("a directory");
    let (idle, before, after) = (
        sample("moosefs/idle"),
        sample("moosefs/before"),
        sample("moosefs/after"),
    );
    let arguments = ["metadata", &before, &after, "--idle", &idle, &before];
    let counts = json(&arguments);
    assert_eq!(
        (&counts["counter"], &counts["total"], &counts["messages"]),
        (&"moosefs".into(), &48.into(), &58.into())
    );
    let shown = text(&arguments);
    assert!(
        shown.contains("moosefs: 48 metadata operations, 58 messages to metadata servers"),
        "{shown}"
    );
    assert!(shown.lines().any(|line| line.starts_with("m3 ")), "{shown}");
    let csv = text(&[&arguments[..], &["--csv", "--setting", "segmented,4,3,1"]].concat());
    assert_eq!(
        csv,
        "layout,clients,checkpoints,servers,kind,count\nsegmented,4,3,1,message,58\n"
    );
    let table = dir.path().join("counts.csv");
    std::fs::write(&table, csv).expect("a file");
    let base = [
        "predict",
        "--layout",
        "--processes",
        "4",
        "--size",
        "1MiB",
        "--bandwidth",
        "1MiB",
        "--metadata-rate",
        "10",
        "--checkpoints",
        "3",
    ];
    let answer = json(&[&base[..], &["--operations", table.to_str().expect("UTF-8")]].concat());
    assert_eq!(answer["layouts"][0]["operations"]["value"], 58.0);
    assert_eq!(answer["layouts"][0]["operations"]["low"], Value::Null);
}

#[test]
fn a_lost_node_makes_counts_unknown_in_all_formats() {
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["m0", "m1", "m2"] {
        std::fs::copy(
            sample(&format!("moosefs/after/{name}")),
            dir.path().join(name),
        )
        .expect("a copy");
    }
    let (before, after) = (
        sample("moosefs/before"),
        dir.path().to_str().expect("UTF-8").to_owned(),
    );
    let counts = json(&["metadata", &before, &after]);
    assert_eq!(
        (&counts["total"], &counts["messages"]),
        (&Value::Null, &Value::Null)
    );
    let shown = text(&["metadata", &before, &after]);
    assert!(
        shown.contains("unknown: m3: it has no counts from after the run"),
        "{shown}"
    );
    let csv = text(&[
        "metadata",
        &before,
        &after,
        "--csv",
        "--setting",
        "segmented,4,3,1",
    ]);
    assert!(csv.contains("segmented,4,3,1,message,unknown"), "{csv}");
    let csv = text(&["metadata", &before, &after, "--csv"]);
    assert!(
        csv.contains("\"m3\",open,unknown") && csv.contains("\"m0\",create,3"),
        "{csv}"
    );
}

#[test]
fn system_calls_below_a_directory_are_counted() {
    let counts = json(&["metadata", &sample("strace"), "--under", "/scratch"]);
    let create = counts["kinds"]
        .as_array()
        .expect("kinds")
        .iter()
        .find(|of| of["kind"] == "create");
    assert_eq!(create.expect("creates")["count"], 4);
    assert_eq!(counts["messages"], Value::Null);
}

#[test]
fn wrong_counts_get_one_error_with_a_hint() {
    let nfs = sample("nfs/before");
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (arguments, part) in [
        (
            vec!["metadata", readme],
            "has no counts of metadata operations",
        ),
        (vec!["metadata", "/nonexistent"], "cannot read /nonexistent"),
        (
            vec!["metadata", &nfs, &sample("lustre/after")],
            "the first counts come from nfs, the others from lustre",
        ),
        (
            vec!["metadata", &nfs, "--idle", &nfs, &nfs],
            "no counts from before the run",
        ),
    ] {
        let message = refused(&arguments);
        assert!(message.contains(part), "{message}");
        assert!(message.contains("hint: "), "{message}");
    }
    let message = refused(&["metadata", &nfs, "--csv", "--setting", "segmentd,1,1,1"]);
    assert!(message.contains("unknown layout `segmentd`"), "{message}");
}
