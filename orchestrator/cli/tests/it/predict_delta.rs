//! `cvc predict --delta` as it is typed.

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

/// Checkpoints of a program with one file of 4 MiB: some pages always change, and a front leaves changed ones behind.
fn states(dir: &Path, seconds: &[u64]) -> Vec<String> {
    let mut content = vec![7_u8; 4 << 20];
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
    let first = text.lines().next().unwrap_or_default();
    assert!(
        first.contains(", every ") && first.contains(" with full checkpoints every "),
        "{text}"
    );
    let table = text.lines().skip(2).take_while(|line| !line.is_empty());
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
    // 20 pages always, and as many as seconds: of 4 MiB, 0.078 MiB + 1/256 MiB/s
    let rate = json["volume"]["curve"]["rate_mib_s"]
        .as_f64()
        .expect("a rate");
    assert_eq!(json["block_bytes"], 4096);
    assert!((rate * 256.0 - 1.0).abs() < 0.01, "{rate}");
    assert_eq!(json["blocks"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["methods"].as_array().map(Vec::len), Some(5));
    assert!(json["methods"][0]["run"]["total_s"].as_f64() >= Some(36_000.0));
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
        (&["state-0"][..], 2, "one state only"),
        (
            &["state-1", "state-0"],
            8,
            "state 2 was taken 10.0 s before state 1",
        ),
        (&["state-0", "state-9"], 6, "state-9"),
        (&["nan.csv"], 6, "nan.csv:2: column `distance_s`: `NaN`"),
        (&["none.csv"], 6, "none.csv"),
        (&["nan.csv", "state-0"], 2, "a table of pairs beside"),
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
