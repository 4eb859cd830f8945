//! Tests of the deadline that instances enforce themselves when no controller can terminate them.

use crate::{
    cloud::on_cloud::{OnCloud, ec2_site},
    cluster_faults::steps::{SECOND, STEPS},
};
use cvc_testkit::{Cloud, Lab, Tool, require, wait_until};
use serde_json::Value;
use std::collections::BTreeSet;

const MATRIX: &str = "[matrix]\napp = \"script\"\nmapping = \"1Nx1P\"\nmpi = \"mpich5\"\n[run]\nrepeats = 2\nretries = 0\ntimeout_s = 120\n";

#[test]
fn instances_whose_controller_is_gone_end_by_themselves_and_the_rest_is_swept() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let lab = Lab::builder().nodes(1).build();
    let cloud = Cloud::start(&lab);
    // the budget suffices for half an hour, while the file requests four hours
    let budget = "[budget]\nusd = 0.1\n";
    let text = format!(
        "{}{MATRIX}{budget}",
        ec2_site(&cloud, 1, "", "install = false\nlifetime = \"4h\"")
    );
    let cloud = OnCloud::new(lab, cloud, "deadline", &text);
    cloud.count_in("starts");
    cloud.on.set_script(STEPS);
    let cvc = cloud.on.begin();
    cloud.on.wait_start(1);
    cloud.kill(cvc);

    let instance = cloud.cloud.instances().remove(0);
    let node = cloud.cloud.node(&instance.id);
    let rest = node
        .shell("echo $(($(cat /etc/cvc-deadline) - $(date +%s)))")
        .trim()
        .parse::<i64>()
        .expect("seconds");
    assert!(
        (1..3600).contains(&rest),
        "the budget shortens it: {rest} s are left"
    );
    // the agent continues its run until then
    node.shell("echo $(($(date +%s) + 1)) >/etc/cvc-deadline");
    let state = || cloud.cloud.instances().remove(0).state;
    wait_until("its end", 60 * SECOND, || state() == "terminated");

    let shown = cloud
        .cvc(&["sweep", "--campaigns", "elsewhere", "--dry-run", "--json"])
        .expect(9);
    let found: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    let kinds: BTreeSet<&str> = found["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|f| f["resource"]["kind"].as_str())
        .collect();
    assert!(
        !kinds.contains("instance")
            && kinds.is_superset(&BTreeSet::from(["key-pair", "security-group"])),
        "{found:#?}"
    );
    cloud.cvc(&["sweep", "--campaigns", "elsewhere"]).expect(0);
    cloud.cloud.assert_nothing_left();
    assert_eq!(cloud.cloud.count("TerminateInstances"), 0);

    // the lost work is repeated on another instance
    cloud.on.go_all();
    cloud.run().expect(0);
    cloud.on.assert_runs(2);
    assert_eq!(cloud.cloud.instances().len(), 2);
    let lost = cloud.on.campaign.events("lease-lost");
    assert!(
        lost.iter()
            .any(|e| e["instances"][0] == instance.id.as_str()),
        "{lost:?}"
    );
    cloud.assert_nothing_left();
}
