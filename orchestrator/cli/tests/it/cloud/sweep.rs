//! Tests of `cvc sweep`, which finds resources by tags alone.

use crate::{
    cloud::on_cloud::{OnCloud, ec2_site, know},
    cluster_faults::steps::{SECOND, STEPS},
    common::cluster::{LIMIT, OnLab},
    outputs::code_with,
};
use cvc_testkit::{Campaign, Cloud, Finished, Lab, Running, Tool, require, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;

const MATRIX: &str = "[matrix]\napp = \"script\"\nmapping = \"2Nx1P\"\nmpi = \"mpich5\"\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 120\n";

/// Starts a campaign whose controller dies when its instances have just been launched, on a cloud without nodes.
fn launched(cloud: &Cloud, name: &str, region: &str, ec2: &str) -> Campaign {
    let site =
        ec2_site(cloud, 2, "", &format!("install = false\n{ec2}")).replace("us-east-1", region);
    let mut campaign = OnLab::campaign(name, &format!("{site}{MATRIX}"));
    know(&mut campaign, cloud);
    // use a separate register of campaigns
    let state = campaign.dir().join("state");
    campaign.env("XDG_STATE_HOME", state.to_str().expect("UTF-8"));
    campaign.script_app("script", STEPS, "");
    dies(Running::start(kill_at(
        campaign.command(&["run", "campaign.toml"]),
    )));
    assert_eq!(campaign.events("lease-acquired").len(), 1);
    campaign
}

/// Makes the controller die after five records: opened, started, its site, its lease, and the existence of instances.
fn kill_at(mut command: std::process::Command) -> std::process::Command {
    command.env("CVC_KILL_AT", "after:5");
    command
}

#[track_caller]
fn dies(running: Running) {
    let output = running.wait(LIMIT);
    assert!(
        matches!(output.code, None | Some(137)),
        "{:?}\n{}\n{}",
        output.code,
        output.stdout,
        output.stderr
    );
}

/// Runs `cvc sweep`, which sees no campaign.
fn sweep(campaign: &Campaign, args: &[&str]) -> Finished {
    campaign.cvc(&[&["sweep", "--campaigns", "elsewhere"], args].concat())
}

fn json(output: &Finished) -> Vec<Value> {
    let document: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", output.stdout));
    assert_eq!(document["schema"], 1);
    document["resources"].as_array().expect("a list").clone()
}

/// Returns the number of resources by kind.
fn kinds(found: &[Value]) -> BTreeMap<String, usize> {
    found.iter().fold(BTreeMap::new(), |mut kinds, f| {
        *kinds
            .entry(f["resource"]["kind"].as_str().expect("a kind").to_owned())
            .or_default() += 1;
        kinds
    })
}

#[test]
fn what_a_vanished_campaign_has_left_is_shown_and_removed() {
    require!(Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let cloud = Cloud::without_nodes();
    let vanished = launched(
        &cloud,
        "vanished",
        "us-east-1",
        "market = \"spot\"\nvolumes = [{ size_gib = 10, mount = \"/data\" }]",
    );
    std::fs::remove_dir_all(vanished.root()).expect("a directory");
    let before = cloud.alive();

    let shown = sweep(&vanished, &["--dry-run"]).expect(9);
    for what in [
        "instance c5.xlarge (spot)",
        "cost so far: at most $",
        "vanished",
        "security group",
        "key pair",
        "placement group",
    ] {
        assert!(shown.stdout.contains(what), "{what}: {}", shown.stdout);
    }
    let found = json(&sweep(&vanished, &["--dry-run", "--json"]).expect(9));
    let there = kinds(&found);
    assert_eq!(
        (
            there["instance"],
            there["security-group"],
            there["key-pair"],
            there["placement-group"]
        ),
        (2, 1, 1, 1),
        "{there:?}"
    );
    assert!(there["volume"] >= 2, "{there:?}");
    assert!(
        found
            .iter()
            .all(|f| f["left"] == "not removed: --dry-run" && f["left_alone"].is_null()),
        "{found:#?}"
    );
    // groups have no creation time
    assert_eq!(
        json(&sweep(&vanished, &["--older-than", "1h", "--dry-run", "--json"]).expect(0)),
        Vec::<Value>::new()
    );
    // resources of another owner
    let of_bob = sweep(&vanished, &["--owner", "bob@desk"]).expect(0);
    assert!(
        of_bob.stdout.contains("nothing of bob@desk is left"),
        "{}",
        of_bob.stdout
    );
    assert!(
        of_bob
            .stdout
            .contains("resources of other owners (ada@laptop); see --owner"),
        "{}",
        of_bob.stdout
    );
    wait_until("a second", SECOND * 30, || {
        kinds(&json(&sweep(
            &vanished,
            &["--dry-run", "--json", "--older-than", "1s"],
        ))) == there
    });
    assert_eq!(cloud.alive(), before);

    // a group that stays in use is reported, and the next call removes it
    cloud.hold_group(100_000);
    let mut other = OnLab::campaign("other", "");
    know(&mut other, &cloud);
    other.env("CVC_OWNER", "bob@desk");
    let output = sweep(&other, &["--any-owner", "--wait", "2s"]).expect(9);
    assert!(
        output.stdout.contains("1 left") && output.stdout.contains("left: security group sg-"),
        "{}",
        output.stdout
    );
    let left = json(&sweep(&other, &["--any-owner", "--wait", "1s", "--json"]).expect(9));
    assert!(
        left.len() == 1
            && left[0]["left"]
                .as_str()
                .is_some_and(|why| why.contains("DependencyViolation")),
        "{left:#?}"
    );
    cloud.hold_group(0);
    assert!(
        sweep(&vanished, &[])
            .expect(0)
            .stdout
            .contains("1 removed, 0 left")
    );
    cloud.assert_nothing_left();
    assert!(
        sweep(&vanished, &[])
            .expect(0)
            .stdout
            .contains("nothing of ada@laptop is left")
    );
}

#[test]
fn a_campaign_that_goes_on_meanwhile_waits_for_the_sweep() {
    require!(Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let cloud = Cloud::without_nodes();
    let killed = launched(&cloud, "killed", "us-east-1", "");
    // the fleet has not expired, and a sweep that does not find its journal leaves it alone
    assert_eq!(
        json(&sweep(&killed, &["--expired", "--dry-run", "--json"]).expect(0)),
        Vec::<Value>::new()
    );
    cloud.hold_group(100_000);
    let sweeping = Running::start(killed.command(&["sweep"]));
    wait_until("the end of its instances", SECOND * 60, || {
        cloud.instances().iter().all(|i| i.state == "terminated")
    });
    let down = Running::start(killed.command(&["down", "campaign.toml"]));
    wait_until("that it waits", SECOND * 60, || {
        down.stderr_so_far()
            .contains("waiting for `cvc sweep` (process ")
    });
    cloud.hold_group(0);
    sweeping.wait(LIMIT).expect(0);
    down.wait(LIMIT).expect(0);
    cloud.assert_nothing_left();
}

#[test]
fn other_regions_are_looked_at_when_asked_for_or_when_a_campaign_was_there() {
    require!(Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let cloud = Cloud::without_nodes();
    let mut far = launched(&cloud, "far", "eu-west-1", "");
    // the register does not list it either
    let nowhere = far.dir().join("nowhere");
    far.env("XDG_STATE_HOME", nowhere.to_str().expect("UTF-8"));
    assert!(cloud.instances().iter().all(|i| i.region == "eu-west-1"));
    assert_eq!(
        json(&sweep(&far, &["--json"]).expect(0)),
        Vec::<Value>::new(),
        "it is not in the region of the configuration"
    );
    let everywhere = json(&sweep(&far, &["--all-regions", "--dry-run", "--json"]).expect(9));
    assert!(
        everywhere
            .iter()
            .all(|f| f["resource"]["region"] == "eu-west-1"),
        "{everywhere:#?}"
    );
    assert_eq!(kinds(&everywhere)["instance"], 2);
    // the campaign's journal contains its region
    let known = json(&far.cvc(&["sweep", "--dry-run", "--json"]).expect(9));
    assert_eq!(kinds(&known), kinds(&everywhere));
    let named = json(
        &sweep(
            &far,
            &[
                "--region",
                "us-west-2",
                "--region",
                "eu-west-1",
                "--dry-run",
                "--json",
            ],
        )
        .expect(9),
    );
    assert_eq!(kinds(&named), kinds(&everywhere));
    sweep(&far, &["--all-regions"]).expect(0);
    cloud.assert_nothing_left();
}

#[test]
fn a_campaign_under_way_keeps_what_it_uses() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let lab = Lab::builder().nodes(1).build();
    let cloud = Cloud::start(&lab);
    let text = format!("{}{MATRIX}", ec2_site(&cloud, 2, "", "install = false"));
    let mut cloud = OnCloud::new(lab, cloud, "gone", &text);
    cloud.on.set_script(STEPS);
    dies(cloud.start_with(&["run", "campaign.toml"], &[("CVC_KILL_AT", "after:5")]));
    // the campaign's directory is removed as well
    cloud.restart_fresh("working", &text);
    cloud.count_in("starts");
    cloud.on.set_script(STEPS);
    let cvc = cloud.on.begin();
    cloud.on.wait_start(1);
    let output = cloud.cvc(&["sweep"]).expect(0);
    assert!(
        output
            .stdout
            .contains("not removed: the campaign working is running"),
        "{}",
        output.stdout
    );
    let alive = cloud.cloud.alive();
    assert_eq!(
        (
            alive.instances.len(),
            alive.key_pairs.len(),
            alive.security_groups.len()
        ),
        (2, 1, 1),
        "{alive}"
    );
    cloud.on.go_all();
    cvc.wait(LIMIT).expect(0);
    cloud.on.campaign.assert_whole(1);
    assert_eq!(cloud.on.starts().len(), 1);
    cloud.assert_nothing_left();
}

#[test]
fn it_removes_everything_and_says_so_by_its_exit_code_wherever_its_output_goes() {
    require!(Tool::Moto, Tool::Mpich5, Tool::Ansible, Tool::Python);
    let cloud = Cloud::without_nodes();
    for (sink, shown) in [("terminal", 9), ("closed", 141), ("full", 1)] {
        let vanished = launched(&cloud, "vanished", "us-east-1", "");
        let sweep = |args: &[&str]| {
            code_with(
                &vanished,
                &[&["sweep", "--campaigns", "elsewhere"], args].concat(),
                sink,
                sink,
            )
        };
        assert_eq!(sweep(&["--dry-run"]), Some(shown), "{sink}");
        assert_eq!(sweep(&[]), Some(0), "{sink}");
        cloud.assert_nothing_left();
    }
}
