//! Tests of `cvc predict --delta` as users type it.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, SystemTime},
};

fn predict(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cvc"))
        .arg("predict")
        .args(arguments)
        .current_dir(dir)
        .output()
        .expect("cvc")
}

const COSTS: [&str; 6] = ["--app-time", "10h", "--mtbf", "6h", "--bandwidth", "1MiB"];

/// Writes checkpoints of a program with one file of 4 MiB: some pages change always, and a front leaves changed pages behind.
fn states(dir: &Path, seconds: &[u64]) -> Vec<String> {
    let mut content = vec![7_u8; 4 << 20];
    // all pages differ, because equal pages would be stored once
    for (page, bytes) in content.chunks_mut(4096).enumerate() {
        bytes[8..10].copy_from_slice(&(page as u16).to_le_bytes());
    }
    let mut names = Vec::new();
    for (t, second) in seconds.iter().enumerate() {
        let pages = (0..20).chain(100..100 + *second as usize);
        for page in pages {
            if page < 20 || content[page * 4096] == 7 {
                content[page * 4096] = 100 + t as u8;
            }
        }
        let name = format!("state-{t}");
        fs::create_dir(dir.join(&name)).expect("a directory");
        let path = dir.join(&name).join("program.ckpt");
        fs::write(&path, &content).expect("a checkpoint");
        let taken = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + second);
        fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|f| f.set_modified(taken))
            .expect("a time");
        names.push(name);
    }
    names
}

#[test]
fn directories_of_checkpoints_give_a_method_and_an_interval() {
    let dir = tempfile::tempdir().expect("a directory");
    let names = states(dir.path(), &[0, 10, 25, 60, 110, 200, 320]);
    let mut arguments = vec!["--delta"];
    arguments.extend(names.iter().map(String::as_str));
    arguments.extend(COSTS);
    let shown = predict(dir.path(), &arguments);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.status.success(),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
    let first = text.lines().find(|line| line.contains(", every "));
    let first = first.unwrap_or_default();
    assert!(first.contains(" with full checkpoints every "), "{text}");
    let table = text.lines().skip_while(|line| !line.is_empty()).skip(1);
    let table = table.take_while(|line| !line.is_empty());
    for line in table {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for name in ["incremental", "differential", "ADCA", "bounded", "full"] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
    }
    arguments.extend(["--json", "--block", "4KiB,64KiB"]);
    let json = predict(dir.path(), &arguments);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["schema"], 1);
    // 20 pages always change, plus one page per second; of 4 MiB this is 0.078 MiB + 1/256 MiB/s
    let rate = json["volume"]["curve"]["rate_mib_s"]
        .as_f64()
        .expect("a rate");
    assert_eq!(json["block_bytes"], 4096);
    assert!((rate * 256.0 - 1.0).abs() < 0.01, "{rate}");
    assert_eq!(json["blocks"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["methods"].as_array().map(Vec::len), Some(5));
    assert!(json["methods"][0]["run"]["total_s"].as_f64() >= Some(36_000.0));
}

/// Copied files have the time of the copy.
#[test]
fn times_of_copies_are_refused_and_every_gives_them() {
    let dir = tempfile::tempdir().expect("a directory");
    states(dir.path(), &[0, 10, 20, 30]);
    let copies: Vec<String> = (0..4).map(|t| format!("copy-{t}")).collect();
    for (t, copy) in copies.iter().enumerate() {
        let (from, to) = (dir.path().join(format!("state-{t}")), dir.path().join(copy));
        fs::create_dir(&to).expect("a directory");
        // remove its time
        fs::write(
            to.join("program.ckpt"),
            fs::read(from.join("program.ckpt")).expect("a checkpoint"),
        )
        .expect("a copy");
    }
    let mut arguments = vec!["--delta"];
    arguments.extend(copies.iter().map(String::as_str));
    arguments.extend(COSTS);
    let refused = predict(dir.path(), &arguments);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(8), "{text}");
    assert!(
        text.contains("times of a copy, not of checkpoints") && text.contains("--every 60s"),
        "{text}"
    );
    arguments.extend(["--every", "10s"]);
    let shown = predict(dir.path(), &arguments);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.status.success()
            && text.contains("10 s to 30 s apart")
            && !text.contains("times come from"),
        "{text}"
    );
    // plausible times of files are used, and the output says so
    let mut originals = vec!["--delta", "state-0", "state-1", "state-2", "state-3"];
    originals.extend(COSTS);
    let shown = predict(dir.path(), &originals);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        text.starts_with("warning: times come from the files"),
        "{text}"
    );
    assert!(text.contains("10 s to 30 s apart"), "{text}");
}

/// The restart script that DMTCP writes with its images contains the time of the checkpoint, even if the files were copied.
#[test]
fn times_of_restart_scripts_outlast_a_copy() {
    let dir = tempfile::tempdir().expect("a directory");
    let names = states(dir.path(), &[0, 0, 0]);
    for (t, name) in names.iter().enumerate() {
        let script = format!("#!/bin/sh\nckpt_timestamp=\"Thu Nov 26 14:0{t}:24 2026\"\n");
        fs::write(
            dir.path().join(name).join("dmtcp_restart_script_1.sh"),
            script,
        )
        .expect("a script");
    }
    let mut arguments = vec!["--delta"];
    arguments.extend(names.iter().map(String::as_str));
    arguments.extend(COSTS);
    let shown = predict(dir.path(), &arguments);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("1 min 00 s to 2 min 00 s apart"), "{text}");
}

#[test]
fn codecs_are_measured_on_the_states_and_one_is_chosen() {
    let dir = tempfile::tempdir().expect("a directory");
    let names = states(dir.path(), &[0, 10, 25, 60, 110]);
    let mut arguments = vec!["--delta"];
    arguments.extend(names.iter().map(String::as_str));
    arguments.extend(COSTS);
    arguments.extend(["--codec", "none,zstd,gzip"]);
    let shown = predict(dir.path(), &arguments);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.status.success(),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
    // pages of a single value compress to almost nothing, so that at 1 MiB/s any codec is better than none
    let first = text.lines().find(|line| line.contains(", every "));
    let first = first.unwrap_or_default();
    assert!(
        first.contains(" with zstd, every ") || first.contains(" with gzip, every "),
        "{text}"
    );
    assert!(
        text.contains("lost by codec: ") && text.contains(" of blocks that changed ("),
        "{text}"
    );
    arguments.push("--json");
    let json = predict(dir.path(), &arguments);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let codecs = json["codecs"].as_array().expect("codecs");
    let lost = |name: &str| {
        let found = codecs.iter().find(|c| c["codec"] == name);
        found.and_then(|c| c["lost"].as_f64()).expect(name)
    };
    assert_eq!(codecs.len(), 3);
    assert!(lost("zstd") < lost("none") && lost("gzip") < lost("none"));
    let taken = json["codec"]["codec"].as_str().expect("a codec");
    assert!(lost(taken) <= lost("zstd").min(lost("gzip")));
    let ratio = json["codec"]["packing"]["delta_ratio"].as_f64();
    assert!(ratio.expect("a ratio") < 0.2);
}

/// Creates a campaign whose run has a series of eight checkpoints of LAMMPS, from real records.
fn campaign(dir: &Path) -> String {
    let from =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../paper/tests/data/rerun/lammps-series");
    let to = dir.join("lammps-series");
    let pair = [from, to].map(|p| camino::Utf8PathBuf::from_path_buf(p).expect("text"));
    cvc_core::store::copy_tree(&pair[0], &pair[1]).expect("copied");
    pair[1].to_string()
}

#[test]
fn a_campaign_with_a_series_is_answered_by_zone() {
    let dir = tempfile::tempdir().expect("a directory");
    let campaign = campaign(dir.path());
    let mut arguments = vec!["--delta", "--from", campaign.as_str()];
    arguments.extend(["--app-time", "10h", "--mtbf", "6h", "--bandwidth", "200MiB"]);
    let shown = predict(dir.path(), &arguments);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.status.success(),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
    let first = text.lines().next().unwrap_or_default();
    assert!(first.contains(" of the time is lost instead of "), "{text}");
    assert!(
        text.contains("in zone DTAPP: ") && text.contains("from 28 pairs of 8 checkpoints"),
        "{text}"
    );
    // changes by zone are recorded since the previous and since the first checkpoint, which are 13 of 28 pairs
    assert!(
        text.contains(" of what changes between two of these checkpoints (from 13 of 28 pairs)"),
        "{text}"
    );
    // if no checkpoint is worth its time, the output says nothing about changes between two checkpoints
    let mut seldom = vec!["--delta", "--from", campaign.as_str()];
    seldom.extend([
        "--app-time",
        "1h",
        "--mtbf",
        "100000h",
        "--bandwidth",
        "1MiB",
    ]);
    let seldom = predict(dir.path(), &seldom);
    let seldom = String::from_utf8_lossy(&seldom.stdout).into_owned();
    assert!(
        seldom.starts_with("best without checkpoints")
            && seldom.contains("in zone DTAPP: ")
            && !seldom.contains("two of these checkpoints"),
        "{seldom}"
    );
    arguments.push("--json");
    let json = predict(dir.path(), &arguments);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    // the same pages change between any two checkpoints: about 34 of 521 MiB
    let changed = json["volume"]["curve"]["repeated_mib"].as_f64();
    assert!((30.0..38.0).contains(&changed.expect("a volume")), "{json}");
    let zones = json["zones"].as_array().expect("zones");
    let sum: f64 = zones.iter().filter_map(|z| z["changed_mib"].as_f64()).sum();
    assert!((30.0..38.0).contains(&sum), "{zones:?}");
}

#[test]
fn what_a_campaign_cannot_answer_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let campaign = campaign(dir.path());
    states(dir.path(), &[0, 10]);
    let from = ["--from", campaign.as_str()];
    for (delta, more, says) in [
        (
            &["--delta", "state-0"][..],
            &from[..],
            "states in addition to --from",
        ),
        (
            &["--delta"],
            &["--from", &campaign, "--codec", "zstd"],
            "has no data on it",
        ),
        (
            &["--delta"],
            &["--from", &campaign, "--block", "4KiB"],
            "--block",
        ),
        (
            &["--delta"],
            &["--from", &campaign, "--point", "ffff"],
            "no point of",
        ),
        (
            &["--delta"],
            &["--from", &campaign, "--from", &campaign],
            "several campaigns",
        ),
        (&["--delta"], &[], "no state"),
    ] {
        let output = predict(dir.path(), &[delta, more, &COSTS].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.contains(says) && text.matches("error:").count() == 1,
            "{text}"
        );
    }
}

#[test]
fn prices_tell_what_is_cheapest() {
    let dir = tempfile::tempdir().expect("a directory");
    let names = states(dir.path(), &[0, 10, 25, 60, 110]);
    let mut arguments = vec!["--delta"];
    arguments.extend(names.iter().map(String::as_str));
    arguments.extend(COSTS);
    arguments.extend(["--least", "cost"]);
    let without = predict(dir.path(), &arguments);
    assert_eq!(without.status.code(), Some(2));
    arguments.extend(["--dollars-per-hour", "5", "--dollars-per-gib-month", "0.1"]);
    let shown = predict(dir.path(), &arguments);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("for machines, $"), "{text}");
}

#[test]
fn wrong_inputs_are_one_clear_error_each() {
    let dir = tempfile::tempdir().expect("a directory");
    states(dir.path(), &[0, 10, 25]);
    fs::write(
        dir.path().join("nan.csv"),
        "from,to,distance_s,changed_bytes,bytes\n0,1,NaN,1,2\n",
    )
    .expect("a table");
    let with = |delta: &[&str], costs: &[&str]| {
        let arguments = [&["--delta"], delta, costs].concat();
        let output = predict(dir.path(), &arguments);
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    for (delta, code, says) in [
        (&["state-0"][..], 2, "only one state"),
        (
            &["state-1", "state-0"],
            8,
            "state 2 was taken 10.0 s before state 1",
        ),
        (&["state-0", "state-9"], 6, "state-9"),
        (&["nan.csv"], 6, "nan.csv:2: column `distance_s`: `NaN`"),
        (&["none.csv"], 6, "none.csv"),
        (&["nan.csv", "state-0"], 2, "a table of pairs in addition"),
    ] {
        let (found, text) = with(delta, &COSTS);
        assert_eq!(found, Some(code), "{text}");
        assert!(
            text.contains(says) && text.matches("error:").count() == 1,
            "{text}"
        );
    }
    let pair = &["state-0", "state-1"][..];
    for (costs, says) in [
        (
            &["--app-time", "1h", "--mtbf", "-6h", "--bandwidth", "1MiB"][..],
            "--mtbf",
        ),
        (
            &["--app-time", "1h", "--mtbf", "6h", "--bandwidth", "0"],
            "--bandwidth",
        ),
        (&["--app-time", "1h", "--bandwidth", "1MiB"], "--mtbf"),
        (
            &[
                "--app-time",
                "1h",
                "--mtbf",
                "6h",
                "--bandwidth",
                "1MiB",
                "--block",
                "5000",
            ],
            "power of two",
        ),
        (
            &[
                "--app-time",
                "1h",
                "--mtbf",
                "6h",
                "--bandwidth",
                "1MiB",
                "--at",
                "npb-bt.D 4 mpich",
            ],
            "cannot be used with",
        ),
    ] {
        let (found, text) = with(pair, costs);
        assert_eq!(found, Some(2), "{text}");
        assert!(
            text.contains(says) && text.matches("error:").count() == 1,
            "{text}"
        );
    }
}
