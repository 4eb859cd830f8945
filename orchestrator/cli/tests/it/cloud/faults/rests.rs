//! Tests of resources that cannot be removed.

use super::small;
use crate::cluster_faults::steps::turn;
use cvc_testkit::{Tool, require};

#[test]
fn a_group_that_stays_in_use_is_reported_and_removed_later_by_down() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let mut cloud = small("held", "");
    // instead of ten minutes
    cloud.on.campaign.env("CVC_REMOVE_LIMIT_S", "6");
    cloud.cloud.hold_group(usize::MAX);
    let output = cloud.run().expect(9);
    let group = cloud
        .cloud
        .calls()
        .into_iter()
        .rfind(|c| c.action == "DeleteSecurityGroup")
        .and_then(|c| c.parameters.get("GroupId").cloned());
    assert!(
        group
            .as_ref()
            .is_some_and(|g| output.stderr.contains(&format!("security group {g}"))),
        "{group:?} {}",
        output.stderr
    );
    assert!(
        output.stderr.contains("has a dependent object") && output.stderr.contains("cvc down"),
        "{}",
        output.stderr
    );
    cloud.on.campaign.assert_whole(1);
    let left = cloud.cloud.alive();
    assert!(
        left.instances.is_empty() && left.security_groups.len() == 1,
        "{left}"
    );
    // still in use
    cloud.ends(&["down", "campaign.toml"], 9);
    cloud.cloud.hold_group(2);
    let output = cloud.ends(&["down", "campaign.toml"], 0);
    assert!(
        output.stdout.contains("nothing of held is left on cloud"),
        "{}",
        output.stdout
    );
    cloud.assert_over();
    let output = cloud.ends(&["down", "campaign.toml"], 0);
    assert!(
        output.stdout.contains("held had nothing running"),
        "{}",
        output.stdout
    );
}
