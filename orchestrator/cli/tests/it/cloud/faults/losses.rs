//! Tests of instances that disappear during a run, and of fleets that need more instances than they have.

use super::{AT_ONCE, ONE, ends, steps, text};
use crate::cluster_faults::steps::{SECOND, turn};
use cvc_testkit::{Tool, require, wait_until};

#[test]
fn instances_that_somebody_else_terminates_cost_an_attempt_and_are_replaced_also_the_head() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let rest = ONE
        .replace("1Nx1P", "2Nx1P")
        .replace("retries = 0", "retries = 1")
        .replace("repeats = 1", "repeats = 2");
    let cloud = steps("else", 2, "", &rest);
    let cvc = cloud.on.begin();
    cloud.on.wait_start(1);
    let second = cloud.cloud.instances()[1].id.clone();
    cloud.cloud.terminate(&second);
    cloud.on.wait_finished(1);
    let detail = cloud.on.only_failure("node-lost");
    assert!(
        detail.contains(&format!("the instance {second} was terminated")),
        "{detail}"
    );
    // on the remaining instance and a new one
    cloud.on.wait_start(2);
    cloud.on.go(2);
    cloud.on.wait_start(3);
    let head = cloud.cloud.instances()[0].id.clone();
    cloud.cloud.terminate(&head);
    cloud.on.wait_finished(3);
    let failures = cloud.on.campaign.failures();
    assert!(
        failures.len() == 2
            && failures[1].0 == "node-lost"
            && failures[1]
                .1
                .contains(&format!("the instance {head} was terminated")),
        "{failures:?}"
    );
    cloud.on.wait_start(4);
    cloud.on.go_all();
    let output = ends(cvc, 0);
    cloud.on.assert_runs(2);
    assert_eq!(
        (cloud.cloud.instances().len(), cloud.on.starts().len()),
        (4, 4),
        "{}",
        output.stderr
    );
    assert_eq!(cloud.on.campaign.events("lease-lost").len(), 2);
    cloud.assert_over();
}

#[test]
fn more_nodes_than_were_kept_are_launched_beside_them() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = super::scripted(
        cvc_testkit::Cloud::builder(),
        "more",
        2,
        "keep = \"30m\"",
        AT_ONCE,
        ONE,
    );
    let output = cloud.run().expect(0);
    assert!(output.stderr.contains("kept until"), "{}", output.stderr);
    let kept = cloud.alive();
    assert_eq!(kept.len(), 1);
    cloud.on.campaign.rewrite(&text(
        &cloud.cloud,
        2,
        "",
        &ONE.replace("\"1Nx1P\"", "[\"1Nx1P\", \"2Nx1P\"]"),
    ));
    cloud.run().expect(0);
    assert_eq!(cloud.cloud.instances().len(), 2);
    cloud.on.campaign.assert_whole(2);
    cloud.assert_over();
}

#[test]
fn more_nodes_than_a_killed_controller_had_are_launched_beside_them() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = steps("grown", 2, "", ONE);
    let cvc = cloud.on.begin();
    cloud.on.wait_start(1);
    cvc.kill();
    cloud.on.campaign.rewrite(&text(
        &cloud.cloud,
        2,
        "",
        &ONE.replace("\"1Nx1P\"", "[\"1Nx1P\", \"2Nx1P\"]"),
    ));
    let cvc = cloud.on.begin();
    wait_until("the second instance", 60 * SECOND, || {
        cloud.alive().len() == 2
    });
    cloud.on.go_all();
    ends(cvc, 0);
    assert_eq!(cloud.cloud.instances().len(), 2);
    cloud.on.campaign.assert_whole(2);
    cloud.assert_over();
}
