//! Tests of sessions that are limited to some points or to a time, and of concurrent sessions.

use crate::common::{SITE, campaign, scripted, waiting};
use cvc_testkit::{Campaign, Tool, campaign::read_json, require, wait_until};
use serde_json::Value;
use std::{fs, time::Duration};

/// Time limit for an event, long enough for a machine that is busy with other work.
const LIMIT: Duration = Duration::from_secs(90);

/// Returns a campaign with two user factors of two levels: four points with one short run each.
fn four(name: &str) -> Campaign {
    let factors = "[matrix.user]\ncolour = [\"red\", \"green\"]\nsteps = [1, 20]\n";
    let matrix = "[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n";
    let c = campaign(
        name,
        &format!("{SITE}{matrix}{factors}[run]\nrepeats = 1\n"),
    );
    c.script_app("script", "sleep 0.3\necho SUCCESS", "");
    c
}

#[test]
fn a_session_of_some_points_leaves_the_others_for_the_next_one() {
    require!(Tool::Mpich);
    let c = four("only");
    let told = c
        .cvc(&["run", "campaign.toml", "--only", "colour=red steps=1,20"])
        .expect(0)
        .stderr;
    assert_eq!(c.run_names().len(), 2, "{told}");
    assert!(
        told.contains("2 runs are left; `cvc run campaign.toml` continues"),
        "{told}"
    );
    let plan = fs::read(c.root().join("plan.json")).expect("a plan");
    let status = c.cvc(&["status", "campaign.toml"]).expect(0).stdout;
    assert!(
        status.contains("2 of 4 runs succeeded (50 %), 2 left (50 %)"),
        "{status}"
    );
    // with several conditions, a point must meet at least one
    let told = c
        .cvc(&[
            "run",
            "campaign.toml",
            "--only",
            "colour=red",
            "--only",
            "colour=green steps=20",
        ])
        .expect(0)
        .stderr;
    assert!(told.contains("1 run is left"), "{told}");
    c.run().expect(0);
    c.assert_whole(4);
    assert_eq!(
        fs::read(c.root().join("plan.json")).expect("a plan"),
        plan,
        "a selection changes no plan"
    );
    let starts: Vec<u64> = c
        .events("started")
        .iter()
        .filter_map(|e| e["runs"].as_u64())
        .collect();
    assert_eq!(starts, [4, 4, 4]);
}

#[test]
fn a_plan_shows_what_a_selection_has() {
    let c = four("shown");
    let plan = c
        .cvc(&["plan", "campaign.toml", "--only", "steps=20"])
        .expect(0)
        .stdout;
    assert!(
        plan.contains("2 runs, about") && plan.contains("steps = 20"),
        "{plan}"
    );
}

#[test]
fn a_selection_of_nothing_is_told_with_what_there_is() {
    let c = four("nothing");
    for (only, parts) in [
        (
            "colour=gren",
            &["no point has colour `gren`", "did you mean `green`?"][..],
        ),
        (
            "color=red",
            &["unknown factor `color`", "did you mean `colour`?"],
        ),
        ("red", &["`red` is not a valid condition", "FACTOR=VALUE"]),
        ("", &["the condition is empty"]),
    ] {
        for command in ["run", "plan"] {
            let told = c
                .cvc(&[command, "campaign.toml", "--only", only])
                .expect(2)
                .stderr;
            for part in parts {
                assert!(told.contains(part), "{command} --only {only:?}: {told}");
            }
        }
    }
    assert!(!c.root().exists(), "nothing has begun");
}

#[test]
fn a_time_too_short_for_any_run_begins_none() {
    require!(Tool::Mpich);
    let c = scripted("short", "echo SUCCESS", "repeats = 1");
    let told = c
        .cvc(&["run", "campaign.toml", "--for", "0.1s"])
        .expect(0)
        .stderr;
    assert!(told.contains("1 run is left"), "{told}");
    assert!(c.run_names().is_empty() && c.events("run-intended").is_empty());
    let told = c
        .cvc(&["run", "campaign.toml", "--for", "2"])
        .expect(2)
        .stderr;
    assert!(told.contains("2h"), "{told}");
}

#[test]
fn runs_beside_another_campaign_say_so_and_reports_flag_them() {
    require!(Tool::Mpich);
    let machine = tempfile::tempdir().expect("a directory");
    let on_machine = |mut c: Campaign| {
        c.env("CVC_MEASURING_DIR", machine.path().to_str().expect("UTF-8"));
        c
    };
    let (one, go) = waiting("one", "repeats = 1");
    let (one, other) = (
        on_machine(one),
        on_machine(scripted("other", "echo SUCCESS", "repeats = 1")),
    );
    let facts = |c: &Campaign| {
        read_json(
            &c.run_dir(&c.run_names().into_iter().next().expect("a run"))
                .join("facts.json"),
        )
    };
    let alone = on_machine(scripted("alone", "echo SUCCESS", "repeats = 1"));
    alone.run().expect(0);
    assert_eq!(facts(&alone)["beside"], Value::Null);

    let first = one.start(&["run", "campaign.toml"]);
    wait_until("the run", LIMIT, || !one.events("run-started").is_empty());
    let said = other.run().expect(0).stderr;
    assert!(
        said.contains("another campaign is measuring on this machine"),
        "{said}"
    );
    // the other session still runs when this one ends
    let second = waiting("second", "repeats = 1");
    let (second, second_go) = (on_machine(second.0), second.1);
    let third = second.start(&["run", "campaign.toml"]);
    wait_until("the run", LIMIT, || {
        !second.events("run-started").is_empty()
    });
    fs::write(&go, "").expect("writes");
    first.wait(LIMIT).expect(0);
    fs::write(&second_go, "").expect("writes");
    third.wait(LIMIT).expect(0);
    for c in [&one, &other, &second] {
        assert_eq!(facts(c)["beside"], "another campaign");
    }
    let report =
        fs::read_to_string(other.dir().join("reports/other/report.html")).expect("a report");
    assert!(report.contains("another campaign measured on the same machine"));
}
