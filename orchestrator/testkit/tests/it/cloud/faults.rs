//! Tests of faults between a program and the cloud.

use std::time::Duration;

use cvc_testkit::{Cloud, Tool, cloud::Fault, require, wait_until};
use jiff::{SignedDuration, Timestamp};

use super::{Client, PUBLIC, all};

#[test]
fn errors_happen_as_often_and_where_the_test_asks() {
    require!(Tool::Moto);
    let cloud = Cloud::without_nodes();
    let client = Client::of(&cloud, None);
    client.import_key("key", PUBLIC);
    cloud.fault(
        Fault::no_capacity()
            .matching("Placement.AvailabilityZone", "us-east-1a")
            .always(),
    );
    let subnets = client.ask(
        "DescribeSubnets",
        &[
            ("Filter.1.Name", "availability-zone"),
            ("Filter.1.Value.1", "us-east-1a"),
        ],
    );
    let subnet = all(&subnets, "subnetId").remove(0);
    let image = cloud.image("x86_64");
    let basic = [
        ("ImageId", image.as_str()),
        ("InstanceType", "c5.large"),
        ("MaxCount", "1"),
        ("KeyName", "key"),
    ];
    for place in [
        ("Placement.AvailabilityZone", "us-east-1a"),
        ("SubnetId", &subnet),
        ("EbsOptimized", "true"),
    ] {
        assert_eq!(
            client.refused(
                "RunInstances",
                &[basic[0], basic[1], basic[2], basic[3], place]
            ),
            "InsufficientInstanceCapacity"
        );
    }
    client.launch("1", &[("Placement.AvailabilityZone", "us-east-1b")]);
    cloud.clear_faults();
    client.launch("1", &[("Placement.AvailabilityZone", "us-east-1a")]);
    cloud.fault(Fault::throttle("*").times(2));
    assert_eq!(
        client.try_to("DescribeRegions", &[]).expect("an answer").0,
        503
    );
    assert_eq!(client.refused("DescribeVpcs", &[]), "RequestLimitExceeded");
    assert!(cloud.faults_are_over());
    client.ask("DescribeVpcs", &[]);
    assert_eq!(cloud.count("DescribeVpcs"), 2);
    cloud.fault(Fault::delay("DescribeVpcs", Duration::from_millis(200)));
    let begin = std::time::Instant::now();
    client.ask("DescribeVpcs", &[]);
    assert!(begin.elapsed() >= Duration::from_millis(200));
    let launches: Vec<_> = cloud
        .calls()
        .into_iter()
        .filter(|c| c.action == "RunInstances")
        .collect();
    assert_eq!(launches.len(), 5);
    assert_eq!(
        launches[3].parameters["Placement.AvailabilityZone"],
        "us-east-1b"
    );
}

#[test]
fn an_answer_is_lost_after_the_work_and_a_request_before_it() {
    require!(Tool::Moto);
    let cloud = Cloud::without_nodes();
    let client = Client::of(&cloud, None);
    client.import_key("key", PUBLIC);
    let image = cloud.image("x86_64");
    let launch = [
        ("ImageId", image.as_str()),
        ("InstanceType", "c5.large"),
        ("MinCount", "1"),
        ("MaxCount", "1"),
        ("KeyName", "key"),
        ("ClientToken", "t"),
    ];
    cloud.fault(Fault::lost_request("RunInstances"));
    assert_eq!(client.try_to("RunInstances", &launch), None);
    assert!(cloud.instances().is_empty());
    cloud.fault(Fault::lost_answer("RunInstances"));
    assert_eq!(client.try_to("RunInstances", &launch), None);
    let there = cloud.instances();
    assert_eq!(there.len(), 1);
    assert_eq!(
        all(&client.ask("RunInstances", &launch), "instanceId"),
        [there[0].id.clone()]
    );
    assert_eq!(
        (cloud.instances().len(), cloud.count("RunInstances")),
        (1, 3)
    );
}

#[test]
fn credentials_expire_and_clocks_differ() {
    require!(Tool::Moto);
    let cloud = Cloud::without_nodes();
    let client = Client::of(&cloud, None);
    cloud.expire_credentials();
    assert_eq!(client.refused("DescribeVpcs", &[]), "RequestExpired");
    let json = client
        .post(&[("X-Amz-Target", "AmazonSSM.GetParameter")], "{}")
        .expect("an answer");
    assert!(
        json.0 == 400 && json.1.contains("ExpiredTokenException"),
        "{json:?}"
    );
    cloud.restore_credentials();
    client.ask("DescribeVpcs", &[]);
    let signed_at = |ahead_s: i64| {
        let when = Timestamp::now() + SignedDuration::from_secs(ahead_s);
        let date = when.strftime("%Y%m%dT%H%M%SZ").to_string();
        let (status, body) = client
            .in_region("us-east-1", &[("X-Amz-Date", &date)], "DescribeVpcs", &[])
            .expect("an answer");
        (status, all(&body, "Code").join(""))
    };
    assert_eq!(signed_at(0).0, 200);
    cloud.skew(600);
    assert_eq!(signed_at(0), (400, "RequestExpired".into()));
    assert_eq!(signed_at(590).0, 200);
    cloud.skew(-600);
    assert_eq!(signed_at(0), (401, "AuthFailure".into()));
    cloud.skew(0);
    assert_eq!(signed_at(0).0, 200);
}

#[test]
fn status_checks_fail_where_the_test_asks() {
    require!(Tool::Moto);
    let cloud = Cloud::builder()
        .checks(Duration::from_secs(5))
        .without_nodes();
    let client = Client::of(&cloud, None);
    client.import_key("key", PUBLIC);
    cloud.impaired(1);
    let ids = client.launch("2", &[]);
    let checks = |id: &str| {
        let body = client.ask("DescribeInstanceStatus", &[("InstanceId.1", id)]);
        all(&body, "instanceStatus")
            .first()
            .map(|s| all(s, "status").remove(0))
    };
    assert_eq!(
        (checks(&ids[0]).as_deref(), checks(&ids[1]).as_deref()),
        (Some("impaired"), Some("initializing"))
    );
    wait_until("the checks", Duration::from_secs(30), || {
        checks(&ids[1]).as_deref() == Some("ok")
    });
    cloud.impair(&ids[1], true);
    assert_eq!(checks(&ids[1]).as_deref(), Some("impaired"));
    client.ask("TerminateInstances", &[("InstanceId.1", &ids[0])]);
    assert_eq!(checks(&ids[0]), None);
    let all_of_them = client.ask(
        "DescribeInstanceStatus",
        &[("InstanceId.1", &ids[0]), ("IncludeAllInstances", "true")],
    );
    assert!(all_of_them.contains("not-applicable"), "{all_of_them}");
}
