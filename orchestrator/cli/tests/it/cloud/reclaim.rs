//! Tests of spot instances that the cloud reclaims.

use crate::{
    cloud::on_cloud::{OnCloud, ec2_site},
    cluster_faults::steps::{SECOND, STEPS},
    common::cluster::LIMIT,
};
use cvc_testkit::{Cloud, Finished, Lab, Running, Tool, require, wait_until};
use std::fs;

/// Exit code if the budget does not suffice for more runs.
const OVER_BUDGET: i32 = 12;

const MATRIX: &str = "[matrix]\napp = \"script\"\nmapping = \"2Nx1P\"\n[run]\nrepeats = 2\nretries = 0\ntimeout_s = 120\n";

/// Returns a campaign with two spot instances, and two runs on both that continue when the test allows it.
fn spot(name: &str) -> OnCloud {
    let lab = Lab::builder().nodes(1).build();
    let cloud = Cloud::start(&lab);
    let text = format!(
        "{}{MATRIX}",
        ec2_site(&cloud, 2, "", "install = false\nmarket = \"spot\"")
    );
    let cloud = OnCloud::new(lab, cloud, name, &text);
    cloud.count_in("starts");
    cloud.on.set_script(&STEPS.replace("openmpi", "mpich5"));
    cloud
}

/// Returns the instance that is not the head.
fn second(cloud: &OnCloud) -> String {
    let instances = cloud.cloud.instances();
    assert_eq!(instances.len(), 2, "{instances:?}");
    instances[1].id.clone()
}

/// Waits for the n-th start, which follows the launch and set-up of instances.
#[track_caller]
fn wait_start(cloud: &OnCloud, running: &mut Running, n: usize) {
    wait_until(&format!("start {n}"), LIMIT, || {
        cloud.on.starts().len() >= n || !running.is_alive()
    });
    assert!(cloud.on.starts().len() >= n, "{}", running.stderr_so_far());
}

#[track_caller]
fn ends(running: Running) -> Finished {
    let output = running.wait(LIMIT);
    if std::env::var_os("CVC_TEST_SAID").is_some() {
        eprintln!("{}\n{}", output.stdout, output.stderr);
    }
    output.expect(0)
}

#[test]
fn a_node_that_leaves_takes_no_run_any_more_and_is_replaced_before_it_goes() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let cloud = spot("leaving");
    let mut running = cloud.on.begin();
    wait_start(&cloud, &mut running, 1);
    let leaving = second(&cloud);
    cloud.cloud.interrupt(&leaving, 600 * SECOND);
    wait_until("the notice", 30 * SECOND, || {
        running
            .stderr_so_far()
            .contains("no further runs start there")
    });
    // the run on the instance continues
    cloud.on.go(1);
    // the next run starts on another instance, while the first one still has ten minutes
    wait_start(&cloud, &mut running, 2);
    let state = |id: &str| {
        cloud
            .cloud
            .instances()
            .into_iter()
            .find(|i| i.id == id)
            .map(|i| i.state)
            .expect("an instance")
    };
    assert_ne!(state(&leaving), "running");
    cloud.on.go_all();
    let output = ends(running);
    assert!(
        output.stderr.contains("the cloud will reclaim it at 20")
            && output.stderr.contains("(terminate)"),
        "{}",
        output.stderr
    );
    assert_eq!(cloud.on.campaign.failures(), [], "{}", output.stderr);
    cloud.on.assert_runs(2);
    assert_eq!(
        (cloud.cloud.instances().len(), cloud.on.starts().len()),
        (3, 2)
    );
    cloud.assert_nothing_left();

    // the facts of each run name the instances that it used
    let of_run = |run: &str| -> serde_json::Value {
        let text = fs::read(cloud.on.campaign.run_dir(run).join("facts.json")).expect("facts");
        serde_json::from_slice(&text).expect("JSON")
    };
    let starts = cloud.on.starts();
    let (first, last) = (of_run(&starts[0]), of_run(&starts[1]));
    let ids = |facts: &serde_json::Value| {
        facts["instance"]["ids"]
            .as_str()
            .expect("identifiers")
            .to_owned()
    };
    assert!(
        ids(&first).contains(&leaving) && !ids(&last).contains(&leaving),
        "{first} {last}"
    );
    for facts in [&first, &last] {
        let instance = &facts["instance"];
        assert_eq!(
            (instance["type"].as_str(), instance["market"].as_str()),
            (Some("c5.xlarge"), Some("spot")),
            "{facts}"
        );
        assert!(
            instance["zone"]
                .as_str()
                .is_some_and(|z| z.starts_with("us-east-1")),
            "{facts}"
        );
        assert_eq!(
            facts["nodes"][0]["instance"]["type"], "c5.xlarge",
            "{facts}"
        );
    }
}

#[test]
fn a_run_that_is_lost_with_its_node_is_reclaimed_and_done_again() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let cloud = spot("reclaimed");
    let mut running = cloud.on.begin();
    wait_start(&cloud, &mut running, 1);
    cloud.cloud.interrupt(&second(&cloud), 8 * SECOND);
    cloud.on.wait_finished(1);
    let detail = cloud.on.only_failure("reclaimed");
    assert!(
        detail.contains("the cloud reclaimed it") || detail.contains("the cloud will reclaim it"),
        "{detail}"
    );
    cloud.on.go_all();
    // although the file allows no retry
    let output = ends(running);
    cloud.on.assert_runs(2);
    assert_eq!(cloud.cloud.instances().len(), 3, "{}", output.stderr);
    cloud.assert_nothing_left();
}

#[test]
fn a_price_that_rises_while_instances_run_counts_for_the_budget() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let mut cloud = spot("dearer");
    let text =
        fs::read_to_string(cloud.on.campaign.dir().join("campaign.toml")).expect("the campaign");
    let from = text.find("[sites").expect("sites");
    cloud
        .on
        .campaign
        .rewrite(&format!("{}[budget]\nusd = 50.0\n", &text[from..]));
    cloud.on.campaign.env("CVC_PRICES_AGAIN_S", "1");
    let mut running = cloud.on.begin();
    wait_start(&cloud, &mut running, 1);
    assert!(cloud.on.campaign.events("lease-priced").is_empty());
    let ordered = cloud.on.campaign.events("lease-intended")[0]["order"]["rate"].clone();
    // two instances for 200000 dollars per hour each
    let machine = ordered["parts"][0]["usd_per_hour"]
        .as_f64()
        .expect("a price");
    cloud.cloud.raise_spot_prices(2e5 / machine);
    running.wait(LIMIT).expect(OVER_BUDGET);
    let priced = cloud.on.campaign.events("lease-priced");
    let now = priced[0]["rate"]["parts"].as_array().expect("parts");
    assert!(
        (now[0]["usd_per_hour"].as_f64().expect("a price") / 2e5 - 1.0).abs() < 1e-3,
        "{now:?}"
    );
    assert_eq!(
        now[1..],
        ordered["parts"].as_array().expect("parts")[1..],
        "disks and addresses cost what they did"
    );
    assert_eq!(priced.len(), 1, "it is written down once");
    cloud.assert_nothing_left();
}
