//! Tests of instances on paper, which need neither nodes nor root.

use std::{
    io::{BufRead, BufReader},
    time::{Duration, Instant},
};

use cvc_testkit::{Cloud, Tool, process, require, wait_until};

use super::{Client, PUBLIC, all};

#[test]
fn a_client_token_launches_once_however_often_it_is_sent() {
    require!(Tool::Moto);
    let cloud = Cloud::without_nodes();
    let client = Client::of(&cloud, None);
    client.import_key("key", PUBLIC);
    let first = client.launch("2", &[("ClientToken", "lease-1")]);
    assert_eq!(client.launch("2", &[("ClientToken", "lease-1")]), first);
    let image = cloud.image("x86_64");
    let other = [
        ("ImageId", image.as_str()),
        ("InstanceType", "c5.xlarge"),
        ("MinCount", "1"),
        ("MaxCount", "2"),
        ("ClientToken", "lease-1"),
    ];
    assert_eq!(
        client.refused("RunInstances", &other),
        "IdempotentParameterMismatch"
    );
    let second = client.launch("1", &[("ClientToken", "lease-2")]);
    assert_eq!(cloud.instances().len(), 3);
    let of_second = client.ask(
        "DescribeInstances",
        &[
            ("Filter.1.Name", "client-token"),
            ("Filter.1.Value.1", "lease-2"),
        ],
    );
    assert_eq!(all(&of_second, "instanceId"), second);
    client.ask(
        "TerminateInstances",
        &[
            ("InstanceId.1", &first[0]),
            ("InstanceId.2", &first[1]),
            ("InstanceId.3", &second[0]),
        ],
    );
    wait_until("the end of all", Duration::from_secs(20), || {
        client.states(&[]) == ["terminated"; 3]
    });
    let again = [
        ("ImageId", image.as_str()),
        ("InstanceType", "c5.large"),
        ("MinCount", "1"),
        ("MaxCount", "1"),
        ("KeyName", "key"),
        ("ClientToken", "lease-2"),
    ];
    assert_eq!(
        client.refused("RunInstances", &again),
        "IdempotentInstanceTerminated"
    );
    client.ask("DeleteKeyPair", &[("KeyName", "key")]);
    cloud.assert_nothing_left();
}

#[test]
fn sixty_four_instances_launch_at_once_and_are_listed_in_pages() {
    require!(Tool::Moto);
    let cloud = Cloud::builder()
        .boot(Duration::from_secs(3600))
        .without_nodes();
    let client = Client::of(&cloud, None);
    client.import_key("key", PUBLIC);
    let begin = Instant::now();
    let ids = client.launch(
        "64",
        &[
            ("TagSpecification.1.ResourceType", "instance"),
            ("TagSpecification.1.Tag.1.Key", "cvc:owner"),
            ("TagSpecification.1.Tag.1.Value", "me"),
        ],
    );
    assert_eq!(ids.len(), 64);
    eprintln!("64 instances on paper: launched in {:.2?}", begin.elapsed());
    let mine = [
        ("Filter.1.Name", "tag:cvc:owner"),
        ("Filter.1.Value.1", "me"),
        ("MaxResults", "50"),
    ];
    let in_state = |state: &str| {
        client
            .states(&[
                ("Filter.1.Name", "instance-state-name"),
                ("Filter.1.Value.1", state),
            ])
            .len()
    };
    assert_eq!((in_state("pending"), in_state("running")), (64, 0));
    cloud.finish_boots();
    assert_eq!((in_state("pending"), in_state("running")), (0, 64));
    let begin = Instant::now();
    let first = client.ask("DescribeInstances", &mine);
    eprintln!(
        "64 instances on paper: a page of 50 in {:.2?}",
        begin.elapsed()
    );
    let token = all(&first, "nextToken").remove(0);
    let second = client.ask(
        "DescribeInstances",
        &[mine[0], mine[1], mine[2], ("NextToken", &token)],
    );
    assert_eq!(
        (
            all(&first, "instanceId").len(),
            all(&second, "instanceId").len()
        ),
        (50, 14)
    );
    assert!(all(&second, "nextToken").is_empty());
    let mut both = [all(&first, "instanceId"), all(&second, "instanceId")].concat();
    both.sort();
    let mut sorted = ids.clone();
    sorted.sort();
    assert_eq!(both, sorted);
    assert_eq!(
        client.refused(
            "DescribeInstances",
            &[("MaxResults", "5"), ("InstanceId.1", &ids[0])]
        ),
        "InvalidParameterCombination"
    );
    assert_eq!(
        client.refused("DescribeInstances", &[("MaxResults", "2")]),
        "InvalidParameterValue"
    );
    assert_eq!(cloud.alive().volumes.len(), 64);
    let named: Vec<(String, &str)> = ids
        .iter()
        .enumerate()
        .map(|(n, id)| (format!("InstanceId.{}", n + 1), id.as_str()))
        .collect();
    client.ask(
        "TerminateInstances",
        &named
            .iter()
            .map(|(name, id)| (name.as_str(), *id))
            .collect::<Vec<_>>(),
    );
    wait_until("the end of all", Duration::from_secs(20), || {
        cloud.alive().instances.is_empty()
    });
    assert_eq!(cloud.alive().volumes.len(), 0);
}

#[test]
fn groups_in_use_cannot_be_deleted() {
    require!(Tool::Moto);
    let cloud = Cloud::builder()
        .stopping(Duration::from_secs(5))
        .without_nodes();
    let client = Client::of(&cloud, None);
    client.import_key("key", PUBLIC);
    let group = all(
        &client.ask(
            "CreateSecurityGroup",
            &[("GroupName", "g"), ("GroupDescription", "of a test")],
        ),
        "groupId",
    )
    .remove(0);
    let tags = [
        ("TagSpecification.1.ResourceType", "placement-group"),
        ("TagSpecification.1.Tag.1.Key", "cvc:owner"),
        ("TagSpecification.1.Tag.1.Value", "me"),
    ];
    client.ask(
        "CreatePlacementGroup",
        &[
            ("GroupName", "p"),
            ("Strategy", "cluster"),
            tags[0],
            tags[1],
            tags[2],
        ],
    );
    assert_eq!(
        client.refused("CreatePlacementGroup", &[("GroupName", "p")]),
        "InvalidPlacementGroup.Duplicate"
    );
    let found = |value: &str| {
        all(
            &client.ask(
                "DescribePlacementGroups",
                &[
                    ("Filter.1.Name", "tag:cvc:owner"),
                    ("Filter.1.Value.1", value),
                ],
            ),
            "groupName",
        )
    };
    assert_eq!(
        (found("me"), found("you")),
        (vec!["p".to_owned()], Vec::new())
    );
    let image = cloud.image("x86_64");
    let small = [
        ("ImageId", image.as_str()),
        ("InstanceType", "t2.micro"),
        ("MaxCount", "1"),
        ("KeyName", "key"),
        ("Placement.GroupName", "p"),
    ];
    assert_eq!(
        client.refused("RunInstances", &small),
        "InvalidParameterCombination"
    );
    // the group of the instance itself, and that of an interface
    let ids = [
        client.launch(
            "1",
            &[("SecurityGroupId.1", &group), ("Placement.GroupName", "p")],
        ),
        client.launch(
            "1",
            &[
                ("NetworkInterface.1.DeviceIndex", "0"),
                ("NetworkInterface.1.SecurityGroupId.1", &group),
                ("Placement.AvailabilityZone", "us-east-1b"),
            ],
        ),
    ]
    .concat();
    assert_eq!(cloud.instances()[1].zone, "us-east-1b");
    let (in_use, placed) = (
        || client.try_to("DeleteSecurityGroup", &[("GroupId", &group)]),
        || client.try_to("DeletePlacementGroup", &[("GroupName", "p")]),
    );
    let code = |answer: Option<(u16, String)>| all(&answer.expect("an answer").1, "Code");
    assert_eq!(
        (code(in_use()), code(placed())),
        (
            vec!["DependencyViolation".to_owned()],
            vec!["InvalidPlacementGroup.InUse".to_owned()]
        )
    );
    client.ask(
        "TerminateInstances",
        &[("InstanceId.1", &ids[0]), ("InstanceId.2", &ids[1])],
    );
    assert_eq!(client.states(&[]), ["shutting-down"; 2]);
    assert_eq!(code(in_use()), ["DependencyViolation"]);
    wait_until("the end of both", Duration::from_secs(20), || {
        client.states(&[]) == ["terminated"; 2]
    });
    cloud.hold_group(2);
    assert_eq!(
        [code(in_use()), code(in_use()), code(in_use())].concat(),
        ["DependencyViolation"; 2]
    );
    assert!(!cloud.alive().is_empty());
    assert_eq!(placed().expect("an answer").0, 200);
    client.ask("DeleteKeyPair", &[("KeyName", "key")]);
    cloud.assert_nothing_left();
}

#[test]
fn spot_instances_have_requests_and_a_price() {
    require!(Tool::Moto);
    let cloud = Cloud::builder()
        .price("c5.large", 0.1)
        .quotas(4, 6)
        .without_nodes();
    let client = Client::of(&cloud, None);
    client.import_key("key", PUBLIC);
    let prices = client.ask(
        "DescribeSpotPriceHistory",
        &[
            ("InstanceType.1", "c5.large"),
            ("ProductDescription.1", "Linux/UNIX"),
            ("AvailabilityZone", "us-east-1b"),
        ],
    );
    assert_eq!(all(&prices, "spotPrice"), ["0.040000"]);
    let spot = ("InstanceMarketOptions.MarketType", "spot");
    let image = cloud.image("x86_64");
    let basic = [
        ("ImageId", image.as_str()),
        ("InstanceType", "c5.large"),
        ("KeyName", "key"),
        spot,
    ];
    let cheap = [
        basic[0],
        basic[1],
        basic[2],
        spot,
        ("MaxCount", "1"),
        ("InstanceMarketOptions.SpotOptions.MaxPrice", "0.03"),
    ];
    assert_eq!(client.refused("RunInstances", &cheap), "SpotMaxPriceTooLow");
    let ids = client.launch(
        "3",
        &[
            spot,
            ("TagSpecification.1.ResourceType", "spot-instances-request"),
            ("TagSpecification.1.Tag.1.Key", "k"),
            ("TagSpecification.1.Tag.1.Value", "v"),
        ],
    );
    assert!(cloud.instances().iter().all(|i| i.is_spot));
    assert_eq!(
        client.refused(
            "RunInstances",
            &[basic[0], basic[1], basic[2], spot, ("MaxCount", "1")]
        ),
        "MaxSpotInstanceCountExceeded"
    );
    let on_demand = client.launch("2", &[]);
    assert_eq!(
        client.refused(
            "RunInstances",
            &[basic[0], basic[1], basic[2], ("MaxCount", "1")]
        ),
        "VcpuLimitExceeded"
    );
    let requests = client.ask(
        "DescribeSpotInstanceRequests",
        &[("Filter.1.Name", "tag:k"), ("Filter.1.Value.1", "v")],
    );
    assert_eq!(all(&requests, "instanceId"), ids);
    let request = all(&requests, "spotInstanceRequestId");
    client.ask(
        "CancelSpotInstanceRequests",
        &[("SpotInstanceRequestId.1", &request[0])],
    );
    assert_eq!(cloud.alive().spot_requests, request[1..]);
    cloud.interrupt(&ids[1], Duration::ZERO);
    wait_until("the reclaim", Duration::from_secs(20), || {
        cloud.instances()[1].state == "terminated"
    });
    let described = client.ask("DescribeInstances", &[("InstanceId.1", &ids[1])]);
    assert!(
        described.contains("<code>Server.SpotInstanceTermination</code>"),
        "{described}"
    );
    let rest: Vec<&String> = ids
        .iter()
        .chain(&on_demand)
        .filter(|id| **id != ids[1])
        .collect();
    let named: Vec<(String, &str)> = rest
        .iter()
        .enumerate()
        .map(|(n, id)| (format!("InstanceId.{}", n + 1), id.as_str()))
        .collect();
    client.ask(
        "TerminateInstances",
        &named
            .iter()
            .map(|(name, id)| (name.as_str(), *id))
            .collect::<Vec<_>>(),
    );
    client.ask("DeleteKeyPair", &[("KeyName", "key")]);
    wait_until("the end of all", Duration::from_secs(20), || {
        cloud.alive().is_empty()
    });
    cloud.assert_nothing_left();
}

#[test]
fn volumes_are_deleted_with_their_instances_unless_kept() {
    require!(Tool::Moto);
    let cloud = Cloud::without_nodes();
    let client = Client::of(&cloud, None);
    client.import_key("key", PUBLIC);
    let id = client.launch(
        "1",
        &[
            ("BlockDeviceMapping.1.DeviceName", "/dev/sdf"),
            ("BlockDeviceMapping.1.Ebs.VolumeSize", "50"),
            ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", "false"),
            ("BlockDeviceMapping.2.DeviceName", "/dev/sdg"),
            ("BlockDeviceMapping.2.Ebs.VolumeSize", "60"),
            ("BlockDeviceMapping.2.Ebs.DeleteOnTermination", "true"),
            ("BlockDeviceMapping.3.DeviceName", "/dev/sdh"),
            ("BlockDeviceMapping.3.VirtualName", "ephemeral0"),
        ],
    );
    let sizes = || {
        let mut sizes = all(&client.ask("DescribeVolumes", &[]), "size");
        sizes.sort();
        sizes
    };
    assert_eq!(sizes(), ["50", "60", "8"]);
    client.ask("TerminateInstances", &[("InstanceId.1", &id[0])]);
    assert_eq!(sizes(), ["50"]);
    assert_eq!(cloud.alive().volumes.len(), 1);
}

/// Calls a service that uses JSON; `None` if there was no answer.
fn json(client: &Client, target: &str, body: &str) -> Option<(u16, serde_json::Value)> {
    let (status, body) = client.post(
        &[
            ("X-Amz-Target", target),
            ("Content-Type", "application/x-amz-json-1.1"),
        ],
        body,
    )?;
    Some((status, serde_json::from_str(&body).expect("JSON")))
}

#[test]
fn prices_quotas_and_images_are_listed() {
    require!(Tool::Moto);
    let cloud = Cloud::builder()
        .quotas(32, 8)
        .price("x9.large", 1.25)
        .without_nodes();
    let client = Client::of(&cloud, None);
    let filter = |field: &str, value: &str| {
        format!(r#"{{"Type":"TERM_MATCH","Field":"{field}","Value":"{value}"}}"#)
    };
    let wanted = [
        ("instanceType", "x9.large"),
        ("regionCode", "eu-west-1"),
        ("operatingSystem", "Linux"),
        ("tenancy", "Shared"),
        ("capacitystatus", "Used"),
    ];
    let filters = wanted.map(|(field, value)| filter(field, value)).join(",");
    let (_, found) = json(
        &client,
        "AWSPriceListService.GetProducts",
        &format!(r#"{{"ServiceCode":"AmazonEC2","Filters":[{filters}]}}"#),
    )
    .expect("an answer");
    let products = found["PriceList"].as_array().expect("a list");
    assert_eq!(products.len(), 1, "{found}");
    assert!(
        products[0]
            .as_str()
            .is_some_and(|p| p.contains(r#""USD":"1.2500000000""#)),
        "{found}"
    );
    let (mut pages, mut token, mut count) = (0, String::new(), 0);
    loop {
        let body = format!(r#"{{"ServiceCode":"AmazonEC2","NextToken":"{token}"}}"#);
        let (_, page) = json(&client, "AWSPriceListService.GetProducts", &body).expect("an answer");
        (pages, count) = (
            pages + 1,
            count + page["PriceList"].as_array().expect("a list").len(),
        );
        match page["NextToken"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert!(pages == 2 && count > 100, "{pages} {count}");
    let quota = |code: &str| {
        json(
            &client,
            "ServiceQuotasV20190624.GetServiceQuota",
            &format!(r#"{{"ServiceCode":"ec2","QuotaCode":"{code}"}}"#),
        )
        .expect("an answer")
    };
    assert_eq!(
        (
            quota("L-1216C47A").1["Quota"]["Value"].as_f64(),
            quota("L-34B43A08").1["Quota"]["Value"].as_f64()
        ),
        (Some(32.0), Some(8.0))
    );
    assert_eq!(quota("L-0").0, 400);
    let (_, newest) = json(
        &client,
        "AmazonSSM.GetParameter",
        r#"{"Name":"/aws/service/debian/release/12/latest/amd64"}"#,
    )
    .expect("an answer");
    let newest = newest["Parameter"]["Value"]
        .as_str()
        .expect("an image")
        .to_owned();
    let images = client.ask(
        "DescribeImages",
        &[
            ("Owner.1", "136693071363"),
            ("Filter.1.Name", "name"),
            ("Filter.1.Value.1", "debian-12-amd64-*"),
        ],
    );
    assert_eq!(all(&images, "imageId").len(), 2);
    assert!(
        images.contains(&newest) && images.contains("debian-12-amd64-20260112"),
        "{images}"
    );
}

#[test]
fn several_clouds_are_independent() {
    require!(Tool::Moto);
    let clouds = [Cloud::without_nodes(), Cloud::without_nodes()];
    assert_ne!(clouds[0].endpoint(), clouds[1].endpoint());
    Client::of(&clouds[0], None).import_key("key", PUBLIC);
    assert_eq!(clouds[0].alive().key_pairs, ["key"]);
    clouds[1].assert_nothing_left();
    // leftovers in other regions are found too
    Client::of(&clouds[1], None)
        .in_region(
            "eu-west-1",
            &[],
            "CreatePlacementGroup",
            &[("GroupName", "far")],
        )
        .expect("an answer");
    assert_eq!(clouds[1].alive().placement_groups, ["far"]);
}

#[test]
fn a_test_that_is_killed_leaves_nothing_of_its_cloud() {
    require!(Tool::Moto);
    const INNER: &str = "CVC_CLOUD_INNER";
    if std::env::var_os(INNER).is_some() {
        let cloud = Cloud::without_nodes();
        println!("up at {}", cloud.endpoint());
        std::thread::sleep(Duration::from_secs(600));
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut inner = std::process::Command::new(std::env::current_exe().expect("this test"));
    inner.args([
        "--exact",
        "--nocapture",
        "cloud::paper::a_test_that_is_killed_leaves_nothing_of_its_cloud",
    ]);
    inner
        .env(INNER, "1")
        .env("TMPDIR", directory.path())
        .stdout(std::process::Stdio::piped());
    let mut inner = inner.spawn().expect("starts");
    let output = BufReader::new(inner.stdout.take().expect("piped"));
    assert!(
        output
            .lines()
            .map_while(Result::ok)
            .any(|line| line.contains("up at http://127.0.0.1:"))
    );
    let processes = || {
        process::of_directory(directory.path())
            .into_iter()
            .filter(|(_, line)| line.contains("moto"))
            .count()
    };
    assert_eq!(processes(), 1);
    inner.kill().expect("a process");
    inner.wait().expect("its end");
    wait_until("the end of moto", Duration::from_secs(20), || {
        processes() == 0
    });
    assert_eq!(
        std::fs::read_dir(directory.path())
            .expect("the directory")
            .count(),
        0
    );
}
