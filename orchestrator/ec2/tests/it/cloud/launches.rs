//! Tests of launches: a repeated order for the same lease returns the same instances.

use super::{Site, fleet, order};
use cvc_cloud::provider::{ErrorKind, InstanceState, ResourceKind, SideEffect};
use cvc_testkit::{
    Cloud, Tool,
    cloud::{ApiCall, Fault},
    require,
};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

fn ids(instances: &[cvc_cloud::provider::Instance]) -> BTreeSet<String> {
    instances.iter().map(|i| i.id.clone()).collect()
}

#[test]
fn a_lease_gives_the_same_instances_however_often_it_is_asked_for() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::without_nodes());
    let made = site.prepare(&fleet("f"));
    let wanted = order(&site, "f", 1, 3, &made);
    let first = site.launch(&wanted);
    assert_eq!(first.len(), 3);
    assert!(first.iter().all(|i| i.lease == "f-1"
        && i.instance_type == "c5.large"
        && i.zone == "us-east-1a"
        && !i.spot));
    assert_eq!(ids(&site.launch(&wanted)), ids(&first));
    let calls: Vec<_> = site
        .cloud
        .calls()
        .into_iter()
        .filter(|c| c.action == "RunInstances")
        .collect();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].parameters, calls[1].parameters, "word for word");
    let parameter = |name: &str| calls[0].parameters.get(name).map(String::as_str);
    assert_eq!(parameter("ClientToken"), Some("f-1"));
    assert_eq!(
        (parameter("MinCount"), parameter("MaxCount")),
        (Some("3"), Some("3"))
    );
    assert_eq!(
        (
            parameter("MetadataOptions.HttpTokens"),
            parameter("MetadataOptions.HttpPutResponseHopLimit")
        ),
        (Some("required"), Some("2"))
    );
    assert_eq!(
        parameter("InstanceInitiatedShutdownBehavior"),
        Some("terminate")
    );
    assert_eq!(parameter("Placement.GroupName"), Some("f"));
    assert_eq!(
        parameter("BlockDeviceMapping.1.Ebs.DeleteOnTermination"),
        Some("true")
    );
    assert_eq!(
        (
            parameter("BlockDeviceMapping.2.DeviceName"),
            parameter("BlockDeviceMapping.2.Ebs.Iops")
        ),
        (Some("/dev/sdf"), Some("4000"))
    );
    let encrypted = |call: &ApiCall| {
        let keys = [
            "BlockDeviceMapping.1.Ebs.Encrypted",
            "BlockDeviceMapping.2.Ebs.Encrypted",
        ];
        keys.map(|key| call.parameters.get(key).cloned())
    };
    assert_eq!(encrypted(&calls[0]), [None, None], "as the order says");
    assert_eq!(
        site.cloud.instances()[0].user_data,
        Some(wanted.user_data().into_bytes())
    );

    let mut other = wanted.clone();
    other.count = 4;
    let e = site.refused(&other);
    assert_eq!(
        (e.kind, &e.left),
        (ErrorKind::TokenMismatch, &SideEffect::Clear),
        "{e}"
    );
    assert_eq!(site.alive("f").len(), 3);

    // the answer is lost, and the SDK repeats the call by itself
    let mut lost = order(&site, "f", 2, 2, &made);
    lost.encrypted = true;
    site.cloud.fault(Fault::lost_answer("RunInstances"));
    assert_eq!(site.launch(&lost).len(), 2);
    assert_eq!(site.alive("f").len(), 5);
    let launches: Vec<_> = site
        .cloud
        .calls()
        .into_iter()
        .filter(|c| c.action == "RunInstances")
        .collect();
    assert_eq!(
        encrypted(launches.last().expect("a launch")),
        [Some("true".to_owned()), Some("true".to_owned())],
        "root and further volumes"
    );

    // the answer to every attempt is lost: the error must not claim that the call had no effect
    let lost = order(&site, "f", 3, 1, &made);
    site.cloud.fault(Fault::lost_answer("RunInstances"));
    site.cloud.fault(Fault::throttle("RunInstances").always());
    let e = site.refused(&lost);
    assert_eq!(
        (e.kind, &e.left),
        (ErrorKind::Transient, &SideEffect::Unknown),
        "{e}"
    );
    site.cloud.clear_faults();
    assert_eq!(site.launch(&lost).len(), 1);
    assert_eq!(site.alive("f").len(), 6);

    // instances that have terminated meanwhile are reported as terminated
    site.wait(
        site.provider.terminate(
            &site
                .alive("f")
                .into_iter()
                .map(|i| i.id)
                .collect::<Vec<_>>(),
        ),
    )
    .expect("their end");
    cvc_testkit::wait_until("their end", Duration::from_secs(20), || {
        site.wait(site.provider.observe("f"))
            .expect("an answer")
            .iter()
            .all(|i| i.state == InstanceState::Terminated)
    });
    let ended = site.launch(&wanted);
    assert_eq!(ids(&ended), ids(&first));
    assert!(
        ended
            .iter()
            .all(|i| i.state == InstanceState::Terminated && i.lease == "f-1")
    );
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    site.cloud.assert_nothing_left();
}

#[test]
fn sixty_four_instances_are_one_call_and_one_question_a_time() {
    require!(Tool::Moto);
    let site = Site::new(
        Cloud::builder()
            .quotas(2048, 0)
            .boot(Duration::from_secs(1))
            .without_nodes(),
    );
    let mut wanted = fleet("f");
    wanted.placement_group = false;
    let made = site.prepare(&wanted);
    let begin = Instant::now();
    let launched = site.launch(&order(&site, "f", 1, 64, &made));
    assert_eq!(launched.len(), 64);
    eprintln!("64 instances: launched in {:.2?}", begin.elapsed());
    assert_eq!(site.running("f", 64).len(), 64);
    eprintln!("64 instances: running after {:.2?}", begin.elapsed());
    assert_eq!(site.cloud.count("RunInstances"), 1);
    let before = site.cloud.count("DescribeInstances");
    let asked = Instant::now();
    assert_eq!(ids(&site.alive("f")), ids(&launched));
    eprintln!("64 instances: observed in {:.2?}", asked.elapsed());
    assert_eq!(
        site.cloud.count("DescribeInstances"),
        before + 1,
        "one question for all"
    );
    let last = site
        .cloud
        .calls()
        .into_iter()
        .rfind(|c| c.action == "DescribeInstances")
        .expect("a call");
    assert_eq!(
        last.parameters.get("MaxResults").map(String::as_str),
        Some("1000"),
        "a page that has an end"
    );
    assert_eq!(
        site.wait(site.provider.health("f")).expect("checks").len(),
        64
    );
    let found = site
        .wait(site.provider.discover(Some("ada@laptop"), None))
        .all_shown()
        .expect("what there is");
    assert_eq!(
        found
            .iter()
            .filter(|r| r.kind == ResourceKind::Instance)
            .count(),
        64
    );
    assert_eq!(
        found
            .iter()
            .filter(|r| r.kind == ResourceKind::Volume)
            .count(),
        128
    );
    let begin = Instant::now();
    assert_eq!(site.remove_all(None, 60.0), Vec::<String>::new());
    eprintln!("64 instances: removed in {:.2?}", begin.elapsed());
    site.cloud.assert_nothing_left();
}

#[test]
fn a_long_lease_has_a_token_that_the_cloud_takes() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::without_nodes());
    let name = format!("cvc-{}", "a-campaign-with-a-long-name-".repeat(4));
    let made = site.prepare(&fleet(&name));
    let orders = [1, 2].map(|n| order(&site, &name, n, 1, &made));
    let first = site.launch(&orders[0]);
    assert_eq!(ids(&site.launch(&orders[0])), ids(&first));
    assert_ne!(
        ids(&site.launch(&orders[1])),
        ids(&first),
        "another lease of the same fleet"
    );
    let tokens: BTreeSet<String> = site
        .cloud
        .instances()
        .into_iter()
        .filter_map(|i| i.client_token)
        .collect();
    assert!(
        tokens.len() == 2 && tokens.iter().all(|t| t.len() <= 64 && t.is_ascii()),
        "{tokens:?}"
    );
    assert_eq!(
        site.alive(&name)[0].lease,
        orders[0].lease(),
        "the tag has all of it"
    );
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    site.cloud.assert_nothing_left();
}

#[test]
fn spot_instances_have_their_price_and_are_known_as_such() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::builder().price("c5.large", 0.1).without_nodes());
    let made = site.prepare(&fleet("f"));
    let mut wanted = order(&site, "f", 1, 2, &made);
    wanted.spot = true;
    wanted.max_price_usd = Some(0.03);
    let e = site.refused(&wanted);
    assert_eq!(
        (e.kind, e.elsewhere(), &e.left),
        (ErrorKind::SpotPrice, true, &SideEffect::Clear),
        "{e}"
    );
    wanted.tags.lease = Some("f-2".into());
    wanted.max_price_usd = Some(0.05);
    let spot = site.launch(&wanted);
    assert!(spot.len() == 2 && spot.iter().all(|i| i.spot));
    let call = site
        .cloud
        .calls()
        .into_iter()
        .rfind(|c| c.action == "RunInstances")
        .expect("a call");
    let parameter = |name: &str| {
        call.parameters
            .get(&format!("InstanceMarketOptions.SpotOptions.{name}"))
            .map(String::as_str)
    };
    assert_eq!(
        (parameter("MaxPrice"), parameter("SpotInstanceType")),
        (Some("0.05"), Some("one-time"))
    );
    assert_eq!(parameter("InstanceInterruptionBehavior"), Some("terminate"));
    let found = site
        .wait(site.provider.discover(None, Some("f")))
        .all_shown()
        .expect("what there is");
    assert_eq!(
        found
            .iter()
            .filter(|r| r.kind == ResourceKind::SpotRequest)
            .count(),
        2
    );
    assert!(
        found
            .iter()
            .filter(|r| r.kind == ResourceKind::Instance)
            .all(|r| r.spot && r.instance_type.as_deref() == Some("c5.large"))
    );

    site.running("f", 2);
    site.cloud.interrupt(&spot[0].id, Duration::ZERO);
    cvc_testkit::wait_until("the reclaim", Duration::from_secs(20), || {
        site.alive("f").len() == 1
    });
    let all = site.wait(site.provider.observe("f")).expect("an answer");
    assert!(
        all.iter()
            .find(|i| i.id == spot[0].id)
            .is_some_and(cvc_cloud::provider::Instance::reclaimed)
    );
    assert!(
        !all.iter()
            .find(|i| i.id == spot[1].id)
            .is_some_and(cvc_cloud::provider::Instance::reclaimed)
    );
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    site.cloud.assert_nothing_left();
}

#[test]
fn an_adapter_is_an_interface_of_its_kind() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::builder().quotas(1024, 0).without_nodes());
    let made = site.prepare(&fleet("f"));
    let mut wanted = order(&site, "f", 1, 2, &made);
    wanted.efa = true;
    wanted.instance_type = "c5n.18xlarge".into();
    assert_eq!(site.launch(&wanted).len(), 2);
    let call = site
        .cloud
        .calls()
        .into_iter()
        .rfind(|c| c.action == "RunInstances")
        .expect("a call");
    let parameter = |name: &str| call.parameters.get(name).map(String::as_str);
    assert_eq!(parameter("NetworkInterface.1.InterfaceType"), Some("efa"));
    assert_eq!(
        parameter("NetworkInterface.1.SecurityGroupId.1"),
        Some(made.group_id.as_str())
    );
    assert_eq!(
        parameter("SecurityGroupId.1"),
        None,
        "a group beside an interface is refused"
    );
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    site.cloud.assert_nothing_left();
}
