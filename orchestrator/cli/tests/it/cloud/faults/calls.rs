//! Tests of calls that fail although they are correct: too many calls, an overloaded cloud, lost answers, wrong clocks.

use super::{AT_ONCE, ONE, ends, scripted, small, steps};
use crate::cluster_faults::steps::{SECOND, turn};
use cvc_testkit::{Cloud, Tool, cloud::Fault, require, wait_until};

/// All calls that a campaign makes to a cloud.
const ACTIONS: [&str; 26] = [
    "DescribeInstanceTypes",
    "DescribeInstanceTypeOfferings",
    "DescribeSubnets",
    "DescribeImages",
    "GetServiceQuota",
    "GetProducts",
    "DescribeVpcs",
    "DescribeKeyPairs",
    "ImportKeyPair",
    "DescribeSecurityGroups",
    "CreateSecurityGroup",
    "AuthorizeSecurityGroupIngress",
    "AuthorizeSecurityGroupEgress",
    "DescribePlacementGroups",
    "CreatePlacementGroup",
    "RunInstances",
    "DescribeInstances",
    "TerminateInstances",
    "DescribeSpotInstanceRequests",
    "DescribeVolumes",
    "DescribeSecurityGroupRules",
    "DeletePlacementGroup",
    "DeleteSecurityGroup",
    "DeleteKeyPair",
    "DescribeInstanceStatus",
    "DescribeSpotPriceHistory",
];

#[test]
fn too_many_calls_and_a_cloud_that_is_unwell_are_gone_through() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = scripted(
        Cloud::builder(),
        "unwell",
        2,
        "market = \"spot\"",
        AT_ONCE,
        &ONE.replace("1Nx1P", "2Nx1P"),
    );
    for (n, action) in ACTIONS.into_iter().enumerate() {
        cloud.cloud.fault(match n % 3 {
            0 => Fault::throttle(action),
            1 => Fault::error(action, "InternalError", 500),
            _ => Fault::error(action, "Unavailable", 503),
        });
    }
    // calls that change something suffer all faults, including lost answers
    for action in [
        "ImportKeyPair",
        "CreateSecurityGroup",
        "CreatePlacementGroup",
        "RunInstances",
        "TerminateInstances",
        "DeleteKeyPair",
    ] {
        cloud.cloud.fault(Fault::throttle(action));
        cloud
            .cloud
            .fault(Fault::error(action, "InternalError", 500));
        cloud.cloud.fault(Fault::lost_answer(action));
    }
    cloud.run().expect(0);
    let hit = |action: &&str| cloud.cloud.count(action) > 0;
    assert!(
        ACTIONS.iter().filter(|a| hit(a)).count() >= 22,
        "{:?}",
        ACTIONS.iter().filter(|a| !hit(a)).collect::<Vec<_>>()
    );
    assert_eq!(cloud.cloud.instances().len(), 2);
    cloud.on.campaign.assert_whole(1);
    cloud.assert_over();
}

#[test]
fn an_order_whose_answer_is_lost_launches_nothing_twice_also_after_a_kill() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = small("lost", "");
    // opened, started, site-opened, lease-intended; then the answer, received at a later attempt, is not journalled. First all attempts of one call
    // fail, and then those of the repeated order.
    cloud
        .cloud
        .fault(Fault::lost_answer("RunInstances").times(7));
    let killed = cloud
        .start_with(&["run", "campaign.toml"], &[("CVC_KILL_AT", "before:5")])
        .wait(120 * SECOND);
    assert_ne!(killed.code, Some(0));
    assert!(
        killed.stderr.contains("repeating the order"),
        "{}",
        killed.stderr
    );
    assert!(cloud.cloud.faults_are_over() && cloud.cloud.count("RunInstances") >= 8);
    assert!(
        cloud.on.campaign.events("lease-acquired").is_empty()
            && cloud.on.campaign.events("lease-intended").len() == 1
    );
    let launched = cloud.cloud.instances();
    assert_eq!(launched.len(), 1);
    // it searches for the instances before it would order again
    let output = cloud.run().expect(0);
    assert!(
        output.stderr.contains("found the instances that "),
        "{}",
        output.stderr
    );
    assert_eq!(
        cloud
            .cloud
            .instances()
            .iter()
            .map(|i| &i.id)
            .collect::<Vec<_>>(),
        [&launched[0].id]
    );
    let acquired = cloud.on.campaign.events("lease-acquired");
    assert_eq!(
        (acquired.len(), acquired[0]["by"]["instances"][0].as_str()),
        (1, Some(launched[0].id.as_str()))
    );
    cloud.on.campaign.assert_whole(1);
    cloud.assert_over();
}

#[test]
fn a_clock_that_is_wrong_is_no_matter_nor_is_a_group_that_is_in_use_for_a_while() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = steps("clock", 1, "", &ONE.replace("repeats = 1", "repeats = 2"));
    cloud.cloud.skew(1200);
    let cvc = cloud.on.begin();
    cloud.on.wait_start(1);
    cloud.cloud.skew(-1200);
    let before = cloud.cloud.count("DescribeInstances");
    wait_until("calls by the other clock", 60 * SECOND, || {
        cloud.cloud.count("DescribeInstances") > before + 2
    });
    cloud.cloud.hold_group(4);
    cloud.on.go_all();
    let output = ends(cvc, 0);
    assert!(
        output.stderr.contains("cannot be removed yet"),
        "{}",
        output.stderr
    );
    assert_eq!(cloud.cloud.instances().len(), 1, "{}", output.stderr);
    cloud.on.campaign.assert_whole(2);
    cloud.assert_over();
}

#[test]
fn credentials_that_expire_in_a_run_stop_nothing_if_they_are_there_again_in_time() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = steps("expired", 1, "", &ONE.replace("repeats = 1", "repeats = 2"));
    let cvc = cloud.on.begin();
    cloud.on.wait_start(1);
    cloud.cloud.expire_credentials();
    let before = cloud.cloud.calls().len();
    wait_until("calls that are refused", 60 * SECOND, || {
        cloud.cloud.calls().len() > before + 1
    });
    // the run continues, and so does the next one
    cloud.on.go(1);
    cloud.on.wait_start(2);
    cloud.cloud.restore_credentials();
    cloud.on.go_all();
    ends(cvc, 0);
    cloud.on.campaign.assert_whole(2);
    assert_eq!(cloud.cloud.instances().len(), 1);
    cloud.assert_over();
}

#[test]
fn expired_credentials_are_reported_with_what_is_left_and_later_nothing_is() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = steps("stale", 1, "", &ONE.replace("repeats = 1", "repeats = 2"));
    let cvc = cloud.on.begin();
    cloud.on.wait_start(1);
    cloud.cloud.expire_credentials();
    cloud.on.go_all();
    let output = ends(cvc, 9);
    let id = cloud.cloud.instances()[0].id.clone();
    assert!(
        output.stderr.contains(&id)
            && output.stderr.contains("aws sso login")
            && output.stderr.contains("`cvc run`"),
        "{}",
        output.stderr
    );
    // all work that does not need the cloud is done
    cloud.on.campaign.assert_whole(2);
    assert_eq!(cloud.alive().len(), 1);
    // still unreachable
    let output = cloud.ends(&["run", "campaign.toml"], 9);
    assert!(output.stderr.contains("aws sso login"), "{}", output.stderr);
    cloud.cloud.restore_credentials();
    cloud.ends(&["run", "campaign.toml"], 0);
    cloud.on.campaign.assert_whole(2);
    assert_eq!(
        (cloud.cloud.instances().len(), cloud.on.starts().len()),
        (1, 2)
    );
    cloud.assert_over();
}
