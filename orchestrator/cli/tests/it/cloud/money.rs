//! Tests that budgets are not exceeded.

use crate::{
    cloud::on_cloud::{OnCloud, ec2_site},
    cluster_faults::steps::STEPS,
    common::cluster::LIMIT,
};
use cvc_testkit::{Cloud, Finished, Lab, Tool, require};
use std::{fs, os::unix::fs::PermissionsExt};

/// Price of an expensive instance, US dollars per hour, so that seconds matter: 0.10 per second.
const DEAR: f64 = 360.0;
/// Exit code if the budget does not suffice for more runs.
const OVER: i32 = 12;

/// Returns a campaign with one expensive instance and `repeats` runs of a script.
fn dear(name: &str, script: &str, repeats: u32, budget: &str, timeout_s: u32) -> OnCloud {
    let lab = Lab::builder().nodes(1).build();
    let cloud = Cloud::builder().price("c5.xlarge", DEAR).start(&lab);
    let matrix = format!(
        "[matrix]\napp = \"script\"\nprocesses = 1\n[run]\nrepeats = {repeats}\nretries = 0\ntimeout_s = {timeout_s}\n[budget]\n{budget}\n"
    );
    let text = format!("{}{matrix}", ec2_site(&cloud, 1, "", "install = false"));
    let cloud = OnCloud::new(lab, cloud, name, &text);
    let shared = cloud.on.lab.shared();
    fs::write(shared.join("starts"), "").expect("writes");
    fs::set_permissions(shared.join("starts"), fs::Permissions::from_mode(0o666))
        .expect("for all users");
    cloud.on.set_script(script);
    cloud
}

const COUNTED: &str = "echo \"${CVC_RUN%%@*}\" >>/shared/starts\necho SUCCESS\n";

/// Returns the cost of instances by the journal, US dollars, computed independently of cvc: from order to release.
fn spent(cloud: &OnCloud) -> f64 {
    let at = |event: &serde_json::Value| {
        event["at"]
            .as_str()
            .expect("a time")
            .parse::<jiff::Timestamp>()
            .expect("a time")
    };
    let released = cloud.on.campaign.events("lease-released");
    let leases = cloud.on.campaign.events("lease-intended");
    leases
        .iter()
        .map(|lease| {
            let end = released
                .iter()
                .find(|r| r["lease"] == lease["lease"])
                .expect("released");
            let seconds = at(end).duration_since(at(lease)).as_secs_f64().max(60.0);
            seconds * lease["order"]["usd_per_hour"].as_f64().expect("a price") / 3600.0
        })
        .sum()
}

#[track_caller]
fn again(cloud: &OnCloud, budget: &str) -> Finished {
    let text =
        fs::read_to_string(cloud.on.campaign.dir().join("campaign.toml")).expect("the campaign");
    let (from, at) = (
        text.find("[sites").expect("sites"),
        text.find("[budget]").expect("a budget"),
    );
    cloud
        .on
        .campaign
        .rewrite(&format!("{}[budget]\n{budget}\n", &text[from..at]));
    cloud.on.start(&["run", "campaign.toml"]).wait(LIMIT)
}

#[test]
fn what_cannot_be_paid_for_is_not_launched() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let cloud = dear("poor", COUNTED, 2, "usd = 1.0", 30);
    let output = cloud.run().expect(OVER);
    assert!(
        output.stderr.contains("the budget") && output.stderr.contains("raise `budget.usd`"),
        "{}",
        output.stderr
    );
    assert_eq!(cloud.cloud.count("RunInstances"), 0);
    cloud.assert_nothing_left();
}

#[test]
fn a_run_that_takes_too_long_is_ended_before_the_budget_is_exceeded_and_done_again_with_more() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    // only the cloud knows the real price: by the included table fifteen dollars would suffice
    let long = "echo \"${CVC_RUN%%@*}\" >>/shared/starts\n[ -e /shared/quick ] || sleep 300\necho SUCCESS\n";
    let cloud = dear("cut", long, 1, "usd = 15.0", 400);
    let output = cloud.run().expect(OVER);
    assert!(output.stderr.contains("used up"), "{}", output.stderr);
    let failures = cloud.on.campaign.failures();
    assert!(
        matches!(&failures[..], [(cause, _)] if cause == "budget"),
        "{failures:?}"
    );
    assert!(spent(&cloud) <= 15.0, "{}", spent(&cloud));
    cloud.assert_nothing_left();
    // with a larger budget the campaign finishes, and the interrupted attempt does not count
    fs::write(cloud.on.lab.shared().join("quick"), "").expect("writes");
    again(&cloud, "usd = 200.0").expect(0);
    assert_eq!(
        fs::read_to_string(cloud.on.lab.shared().join("starts"))
            .expect("starts")
            .lines()
            .count(),
        2
    );
    assert!(spent(&cloud) <= 200.0);
    cloud.assert_nothing_left();
}

#[test]
fn with_finish_no_run_begins_that_might_have_to_be_ended() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    // with its time limit of half an hour, a run could cost 180 dollars
    let cloud = dear(
        "finish",
        COUNTED,
        2,
        "usd = 100.0\nwhen_short = \"finish\"",
        1800,
    );
    cloud.run().expect(OVER);
    assert_eq!(cloud.on.campaign.events("run-intended").len(), 0);
    again(&cloud, "usd = 1000.0\nwhen_short = \"finish\"").expect(0);
    cloud.on.campaign.assert_whole(2);
    cloud.assert_nothing_left();
}

/// Returns a campaign on two sites of one instance each, with one run of a script on each, one after another.
fn two_sites(name: &str, usd_per_hour: f64, ec2: &str, budget: &str) -> OnCloud {
    let lab = Lab::builder().nodes(1).build();
    let cloud = Cloud::builder()
        .price("c5.xlarge", usd_per_hour)
        .start(&lab);
    let first = ec2_site(&cloud, 1, "", &format!("install = false\n{ec2}"));
    let second = first.replace("sites.cloud", "sites.second");
    let matrix = "[matrix]\nsite = [\"cloud\", \"second\"]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich5\"\n\
                  [run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\norder = \"as-written\"\n";
    let text = format!("{first}{second}{matrix}{budget}");
    let cloud = OnCloud::new(lab, cloud, name, &text);
    cloud.count_in("starts");
    cloud.on.set_script(STEPS);
    cloud
}

#[test]
fn two_fleets_whose_controller_is_gone_cost_no_more_than_the_budget() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let usd = 5.0;
    // the budget would allow each instance alone for its whole lifetime
    let cloud = two_sites(
        "both",
        1.0,
        "lifetime = \"4h\"",
        &format!("[budget]\nusd = {usd}\n"),
    );
    let cvc = cloud.on.begin();
    // one run on each site, at the same time
    cloud.on.wait_start(2);
    cloud.kill(cvc);
    let instances = cloud.cloud.instances();
    assert_eq!(instances.len(), 2);
    let leases = cloud.on.campaign.events("lease-intended");
    let ahead: f64 = instances
        .iter()
        .map(|instance| {
            let deadline: i64 = cloud
                .cloud
                .node(&instance.id)
                .shell("cat /etc/cvc-deadline")
                .trim()
                .parse()
                .expect("seconds");
            let acquired = cloud.on.campaign.events("lease-acquired");
            let name = &acquired
                .iter()
                .find(|a| a["by"]["instances"][0] == instance.id.as_str())
                .expect("acquired")["lease"];
            let lease = leases
                .iter()
                .find(|l| l["lease"] == *name)
                .expect("intended");
            let intended: jiff::Timestamp = lease["at"]
                .as_str()
                .expect("a time")
                .parse()
                .expect("a time");
            (deadline - intended.as_second()) as f64 / 3600.0
                * lease["order"]["usd_per_hour"].as_f64().expect("a price")
        })
        .sum();
    assert!(ahead <= usd && ahead > 0.8 * usd, "${ahead}");
    cloud.on.go_all();
    cloud.run().expect(0);
    cloud.assert_nothing_left();
}

#[test]
fn runs_go_on_while_the_fleet_of_another_site_is_given_back() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let cloud = two_sites("beside", 1.0, "", "");
    let cvc = cloud.on.begin();
    cloud.on.wait_start(1);
    // the first site's security group stays in use
    cloud.cloud.hold_group(100_000);
    cloud.on.go(1);
    cloud.on.wait_start(2);
    assert!(cloud.on.campaign.events("site-closed").is_empty());
    cloud.cloud.hold_group(0);
    cloud.on.go(2);
    cvc.wait(LIMIT).expect(0);
    cloud.on.campaign.assert_whole(2);
    let fetched = cloud.on.campaign.events("results-fetched");
    assert!(
        fetched.len() == 2
            && fetched
                .iter()
                .all(|f| f["bytes"].as_u64() > Some(1000) && f["usd"].as_f64() > Some(0.0)),
        "{fetched:?}"
    );
    cloud.assert_nothing_left();
}
