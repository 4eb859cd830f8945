//! Tests of instances that cannot be launched, or do not start.

use super::{AT_ONCE, ONE, scripted, small};
use crate::cluster_faults::steps::turn;
use cvc_testkit::{Cloud, Tool, cloud::Fault, require};

#[test]
fn without_room_on_the_spot_market_it_is_on_demand_and_in_the_zone_that_has_some() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = small("zones", "market = \"spot-then-on-demand\"");
    cloud.cloud.fault(
        Fault::no_capacity()
            .matching("InstanceMarketOptions.MarketType", "spot")
            .always(),
    );
    cloud.cloud.fault(
        Fault::no_capacity()
            .matching("Placement.AvailabilityZone", "us-east-1a")
            .always(),
    );
    // queries of quotas need not be allowed
    cloud
        .cloud
        .fault(Fault::error("GetServiceQuota", "AccessDeniedException", 400).always());
    let output = cloud.run().expect(0);
    let launched = cloud.cloud.instances();
    assert_eq!(
        (
            launched.len(),
            launched[0].is_spot,
            launched[0].zone.as_str()
        ),
        (1, false, "us-east-1b")
    );
    // three zones on the spot market, one on demand, and the zone that succeeds: each is requested once
    let released = cloud.released();
    assert_eq!(released.len(), 5, "{released:?}");
    assert!(
        released[..4]
            .iter()
            .all(|how| how.contains("sufficient capacity")),
        "{released:?}"
    );
    assert_eq!(cloud.cloud.count("RunInstances"), 5, "{}", output.stderr);
    assert!(
        output
            .stderr
            .contains("launching 1 spot c5.xlarge in us-east-1c"),
        "{}",
        output.stderr
    );
    assert!(
        output
            .stderr
            .contains("launching 1 on-demand c5.xlarge in us-east-1b"),
        "{}",
        output.stderr
    );
    cloud.on.campaign.assert_whole(1);
    cloud.assert_over();
}

#[test]
fn without_capacity_the_next_type_is_used_and_the_last_failure_is_reported() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = small("types", "");
    let file = cloud.on.campaign.dir().join("campaign.toml");
    let text = std::fs::read_to_string(&file).expect("reads");
    std::fs::write(
        &file,
        text.replace("[\"c5.xlarge\"]", "[\"c5.xlarge\", \"c5a.xlarge\"]"),
    )
    .expect("writes");
    cloud.cloud.fault(Fault::no_capacity().always());
    let output = cloud.run().expect(3);
    assert!(
        output.stderr.contains("InsufficientInstanceCapacity")
            && output
                .stderr
                .contains("give further `instance_types` or `zones`"),
        "{}",
        output.stderr
    );
    let tried = cloud.on.campaign.events("lease-intended").len();
    assert!(
        tried >= 5 && cloud.cloud.count("RunInstances") == tried,
        "{tried}"
    );
    assert!(cloud.cloud.instances().is_empty());
    cloud.assert_over();

    cloud.cloud.clear_faults();
    cloud.cloud.fault(
        Fault::no_capacity()
            .matching("InstanceType", "c5.xlarge")
            .always(),
    );
    cloud.run().expect(0);
    let launched = cloud.cloud.instances();
    assert_eq!(
        (launched.len(), launched[0].kind.as_str()),
        (1, "c5a.xlarge")
    );
    cloud.on.campaign.assert_whole(1);
    cloud.assert_over();
}

#[test]
fn a_limit_of_the_region_is_not_tried_in_every_zone() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = small("region-limit", "");
    cloud
        .cloud
        .fault(Fault::error("RunInstances", "VcpuLimitExceeded", 400).always());
    let output = cloud.run().expect(3);
    assert!(
        output.stderr.contains("VcpuLimitExceeded"),
        "{}",
        output.stderr
    );
    assert_eq!(cloud.on.campaign.events("lease-intended").len(), 1);
    assert_eq!(cloud.cloud.count("RunInstances"), 1);
    cloud.assert_over();
}

#[test]
fn an_account_under_verification_is_no_matter_of_permissions() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = small("pending", "");
    cloud
        .cloud
        .fault(Fault::error("RunInstances", "PendingVerification", 400).always());
    let output = cloud.run().expect(3);
    assert!(
        output.stderr.contains("being verified") && !output.stderr.contains("ec2-permissions"),
        "{}",
        output.stderr
    );
    cloud.assert_over();
}

#[test]
fn a_low_price_and_a_small_quota_are_reported_before_anything_is_launched() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = small("price", "market = \"spot\"\nmax_price_usd = 0.001");
    let output = cloud.run().expect(3);
    assert!(
        output.stderr.contains("SpotMaxPriceTooLow")
            && output.stderr.contains("raise `max_price_usd`"),
        "{}",
        output.stderr
    );
    assert!(cloud.cloud.instances().is_empty());
    cloud.assert_over();

    let cloud = scripted(
        Cloud::builder().quotas(6, 6),
        "quota",
        2,
        "",
        AT_ONCE,
        &ONE.replace("1Nx1P", "2Nx1P"),
    );
    let output = cloud.run().expect(3);
    assert!(
        output
            .stderr
            .contains("need 8 vCPUs; the account may have 6 and 0 are running"),
        "{}",
        output.stderr
    );
    assert!(
        output.stderr.contains("Service Quotas"),
        "{}",
        output.stderr
    );
    assert_eq!(cloud.cloud.count("RunInstances"), 0);
    cloud.assert_over();
}

#[test]
fn an_instance_that_nobody_reaches_is_replaced_once() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = small("deaf", "ready_limit_s = 5");
    cloud.cloud.never_reachable(1);
    let output = cloud.run().expect(0);
    let launched = cloud.cloud.instances();
    assert_eq!(launched.len(), 2);
    assert!(
        output
            .stderr
            .contains(&format!("replaced: {} (no login by ssh", launched[0].id)),
        "{}",
        output.stderr
    );
    let lost = cloud.on.campaign.events("lease-lost");
    assert!(
        lost.len() == 1 && lost[0]["instances"][0] == launched[0].id.as_str(),
        "{lost:?}"
    );
    cloud.on.campaign.assert_whole(1);
    cloud.assert_over();
}

#[test]
fn an_instance_that_stays_unreachable_is_reported() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = small("dead", "ready_limit_s = 5");
    cloud.cloud.never_reachable(2);
    let output = cloud.run().expect(3);
    assert!(
        output
            .stderr
            .contains("instances failed again after they were replaced")
            && output.stderr.contains("no login by ssh"),
        "{}",
        output.stderr
    );
    assert_eq!(cloud.cloud.instances().len(), 2);
    assert!(cloud.on.starts().is_empty());
    cloud.assert_over();
}

#[test]
fn an_instance_whose_status_checks_fail_is_replaced_before_the_time_is_up() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    // of two instances, the other one is kept
    let cloud = scripted(
        Cloud::builder(),
        "ill",
        2,
        "",
        AT_ONCE,
        &ONE.replace("1Nx1P", "2Nx1P"),
    );
    cloud.cloud.never_reachable(1);
    cloud.cloud.impaired(1);
    let output = cloud.run().expect(0);
    let launched = cloud.cloud.instances();
    assert_eq!(launched.len(), 3);
    assert!(
        output.stderr.contains(&format!(
            "replaced: {} (its status checks fail: instance status check",
            launched[0].id
        )),
        "{}",
        output.stderr
    );
    cloud.on.campaign.assert_whole(1);
    cloud.assert_over();
}
