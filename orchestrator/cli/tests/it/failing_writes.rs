//! Tests in which every write of a campaign fails once: nothing is lost or done twice, and the next `cvc run` continues.

use crate::common::scripted;
use cvc_testkit::{Campaign, Tool, campaign::utf8, require, wait_until};
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};

const LIMIT: Duration = Duration::from_secs(120);
const RUNS: usize = 2;

fn campaign(name: &str) -> Campaign {
    scripted(
        name,
        "echo 'Time step 1'; echo SUCCESS",
        &format!("repeats = {RUNS}\nretries = 0"),
    )
}

/// Lets the write `point` fail in this way at its occurrence `at` (from 0), then runs the campaign to its end. Returns whether the write occurred.
fn fails_once(mut c: Campaign, point: &str, at: usize, how: &str) -> bool {
    let when = format!("{point} at {at}: {how}");
    let skipped = if at == 0 {
        String::new()
    } else {
        format!("{at}*off->")
    };
    c.env(
        "FAILPOINTS",
        &format!("{point}={skipped}1*return({how})->off"),
    );
    let failed = c.run();
    c.env("FAILPOINTS", "");
    assert!(
        matches!(failed.code, Some(0 | 7 | 10)),
        "{when}: {failed:?}"
    );
    wait_until("the end of all processes", LIMIT, || {
        c.processes().is_empty()
    });
    let before = c.events("run-finished");
    let again = if failed.code == Some(10) {
        c.cvc(&["run", "--retry-failed", "campaign.toml"])
    } else {
        c.run()
    };
    again.expect(0);
    c.assert_nothing_left();
    let finished = c.events("run-finished");
    assert_eq!(
        finished[..before.len()],
        before,
        "{when}: no record is lost"
    );
    let succeeded: Vec<&Value> = finished
        .iter()
        .filter(|e| e["outcome"]["result"] == "succeeded")
        .collect();
    let runs: BTreeSet<&str> = succeeded.iter().filter_map(|e| e["run"].as_str()).collect();
    assert_eq!(
        (runs.len(), succeeded.len()),
        (RUNS, RUNS),
        "{when}: each run succeeds once"
    );
    for event in succeeded {
        let run = c.run_dir(event["run"].as_str().expect("a run"));
        let digest = event["manifest"].as_str().expect("a manifest");
        cvc_core::store::check_manifest(utf8(&run), digest)
            .unwrap_or_else(|e| panic!("{when}: {e}"));
    }
    failed.code != Some(0)
}

#[test]
fn a_record_that_cannot_be_written_ends_the_session_and_the_next_one_goes_on() {
    require!(Tool::Mpich);
    for how in ["short:40", "enospc"] {
        let mut at = 0;
        while fails_once(campaign("records"), "journal.jsonl.append", at, how) {
            at += 1;
        }
        assert!(at >= 9, "{at} records");
    }
}

#[test]
fn a_record_that_cannot_be_synced_ends_the_session_and_the_next_one_goes_on() {
    require!(Tool::Mpich);
    let mut at = 0;
    while fails_once(campaign("syncs"), "journal.jsonl.sync", at, "eio") {
        at += 1;
    }
    // the end of a run is synced together with the start of the next one, or with the record that ends the session
    assert!(at >= 8, "{at} syncs");
}

#[test]
fn a_file_of_the_campaign_or_of_a_run_that_cannot_be_written_costs_at_most_an_attempt() {
    require!(Tool::Mpich);
    let whole = |file: &str| {
        ["write", "sync", "rename", "sync-directory"].map(|step| format!("{file}.{step}"))
    };
    let points: Vec<String> = ["plan.json", "campaign.toml"]
        .iter()
        .flat_map(|file| whole(file))
        .collect();
    let of_run = [
        "records.jsonl.write",
        "facts.json.write",
        "outcome.json.write",
        "manifest.b3.write",
        "run.rename",
        "run.sync",
    ];
    for point in points.iter().map(String::as_str).chain(of_run) {
        assert!(
            fails_once(campaign("files"), point, 0, "enospc"),
            "{point} is written in every campaign"
        );
    }
    // half of the data is written
    for point in [
        "plan.json.write",
        "records.jsonl.write",
        "outcome.json.write",
        "manifest.b3.write",
    ] {
        assert!(
            fails_once(campaign("halves"), point, 0, "short:7"),
            "{point} is written in every campaign"
        );
    }
}
