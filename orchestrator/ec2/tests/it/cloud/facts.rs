//! Tests of queries before any resource is created: types, images, prices, limits.

use super::{Site, fleet, order, settings};
use cvc_cloud::provider::{ErrorKind, FleetRequest, Health, Quota};
use cvc_core::campaign::{Ec2Settings, Image, InstanceSpec};
use cvc_testkit::{Cloud, Tool, cloud::Fault, require};
use std::time::Duration;

/// Returns the settings of a site with one type, after applying `change`.
fn with_instances(change: impl FnOnce(InstanceSpec) -> InstanceSpec) -> Ec2Settings {
    let settings = settings(&["c5.large"]);
    Ec2Settings {
        instances: change(settings.instances.clone()),
        ..settings
    }
}

#[test]
fn types_zones_and_images_are_found_for_a_site() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::without_nodes());
    let describe_offer = async |settings: &Ec2Settings| {
        site.provider
            .describe_offer(&FleetRequest::of(settings))
            .await
    };
    let offer = site
        .wait(describe_offer(&settings(&[
            "c5n.18xlarge",
            "c3.xlarge",
            "c6g.xlarge",
        ])))
        .unwrap_or_else(|e| panic!("{e}"));
    let [big, old, arm] = &offer.types[..] else {
        panic!("{:?}", offer.types)
    };
    assert_eq!(
        (big.vcpus, big.cores, big.efa, big.cluster_placement),
        (72, 36, true, true)
    );
    assert_eq!(
        (old.instance_store_disks, old.instance_store_gib, old.spot),
        (2, 74, true)
    );
    assert_eq!(
        (arm.architecture.as_str(), arm.vcpus, arm.cores),
        ("arm64", 4, 4)
    );
    assert!(
        big.zones.contains(&"us-east-1a".to_owned()),
        "{:?}",
        big.zones
    );
    assert_eq!(offer.images.len(), 2);
    let image = offer.image_for(big).expect("an image");
    assert_eq!(
        (image.user.as_str(), image.root_device.as_str()),
        ("admin", "/dev/xvda")
    );
    // the cloud has two images with this name
    assert_eq!(image.name, "debian-12-amd64-20260112", "the newest one");
    assert_eq!(
        offer.image_for(arm).expect("an image").name,
        "debian-12-arm64-20260112"
    );
    assert_eq!(offer.caller.as_deref(), Some("127.0.0.1/32"));

    for (image, user) in [
        (Image::Known("debian-13".into()), "admin"),
        (Image::Known("ubuntu-22.04".into()), "ubuntu"),
        (Image::Known("ubuntu-24.04".into()), "ubuntu"),
        (Image::Known("amazon-linux-2023".into()), "ec2-user"),
        (
            Image::Named {
                owner: "136693071363".into(),
                name: "debian-12-*".into(),
            },
            "admin",
        ),
        (
            Image::Parameter("/aws/service/debian/release/12/latest/amd64".into()),
            "admin",
        ),
        (Image::Id(site.cloud.image("x86_64")), "admin"),
    ] {
        let with = |spec| InstanceSpec {
            image: image.clone(),
            allow_from: Some("203.0.113.7/32".into()),
            ..spec
        };
        let offer = site.wait(describe_offer(&with_instances(with)));
        let offer = offer.unwrap_or_else(|e| panic!("{image:?}: {e}"));
        assert_eq!(
            (
                offer.images[0].user.as_str(),
                offer.images[0].architecture.as_str()
            ),
            (user, "x86_64"),
            "{image:?}"
        );
        assert_eq!(offer.caller, None, "nobody has to ask");
    }

    let refused = |settings: &Ec2Settings, wanted: &str| {
        let e = site.wait(describe_offer(settings)).expect_err(wanted);
        assert!(
            e.kind == ErrorKind::Invalid && e.message.contains(wanted),
            "{e}"
        );
    };
    refused(
        &settings(&["c5.larg"]),
        "unknown instance type c5.larg; its family has c5.large, c5.xlarge",
    );
    refused(&settings(&["nonsense"]), "unknown instance type nonsense");
    refused(
        &with_instances(|spec| InstanceSpec {
            zones: vec!["us-east-1q".into()],
            ..spec
        }),
        "unknown zone us-east-1q",
    );
    refused(
        &with_instances(|spec| InstanceSpec { efa: true, ..spec }),
        "no Elastic Fabric Adapter",
    );
    refused(
        &with_instances(|spec| InstanceSpec {
            subnet: Some("subnet-0123456789abcdef0".into()),
            ..spec
        }),
        "unknown subnet",
    );
    refused(
        &with_instances(|spec| InstanceSpec {
            image: Image::Id(site.cloud.image("arm64")),
            ..spec
        }),
        "is for arm64",
    );
    let nobody = Image::Named {
        owner: "136693071363".into(),
        name: "no-such-*".into(),
    };
    refused(
        &with_instances(|spec| InstanceSpec {
            image: nobody,
            ..spec
        }),
        "has no image for x86_64",
    );
    refused(
        &with_instances(|spec| InstanceSpec {
            image: Image::Parameter("/no/such".into()),
            ..spec
        }),
        "unknown parameter /no/such",
    );
    assert!(
        site.wait(site.provider.regions())
            .expect("regions")
            .contains(&"eu-west-1".to_owned())
    );
    site.cloud.assert_nothing_left();
}

#[test]
fn prices_are_those_of_list_and_market() {
    require!(Tool::Moto);
    let site = Site::new(
        Cloud::builder()
            .price("c5.large", 0.1)
            .price("c6g.xlarge", 0.25)
            .without_nodes(),
    );
    let names = [
        "c5.large".to_owned(),
        "c6g.xlarge".to_owned(),
        "made.up".to_owned(),
    ];
    let listed = site
        .wait(site.provider.prices(&names, false))
        .expect("prices");
    let shown: Vec<_> = listed
        .iter()
        .map(|q| (q.instance_type.as_str(), q.usd_per_hour, q.spot))
        .collect();
    assert_eq!(
        shown,
        [("c5.large", 0.1, false), ("c6g.xlarge", 0.25, false)]
    );
    assert!(
        site.cloud
            .calls()
            .iter()
            .filter(|c| c.action == "GetProducts")
            .all(|c| c.region == "us-east-1")
    );
    let market = site
        .wait(site.provider.prices(&names[..1], true))
        .expect("prices");
    assert!(
        !market.is_empty()
            && market
                .iter()
                .all(|q| q.spot && q.zone.is_some() && q.usd_per_hour < 0.1),
        "{market:?}"
    );
    let mut zones: Vec<_> = market.iter().map(|q| q.zone.clone()).collect();
    zones.dedup();
    assert_eq!(zones.len(), market.len(), "one price for each zone");
}

#[test]
fn limits_and_checks_are_reported() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::builder().quotas(10, 6).without_nodes());
    let made = site.prepare(&fleet("f"));
    site.launch(&order(&site, "f", 1, 2, &made));
    let facts = site
        .wait(
            site.provider
                .describe_offer(&FleetRequest::of(&settings(&["c5.large"]))),
        )
        .expect("facts")
        .types
        .remove(0);
    let quota = |spot| {
        site.wait(site.provider.quota(&facts, spot))
            .expect("an answer")
    };
    assert_eq!(
        quota(false),
        Some(Quota {
            limit: 10.0,
            used: 4.0
        })
    );
    assert_eq!(
        quota(true),
        Some(Quota {
            limit: 6.0,
            used: 0.0
        })
    );
    let e = site.refused(&order(&site, "f", 2, 4, &made));
    assert_eq!(e.kind, ErrorKind::Quota, "{e}");
    assert!(e.hint().is_some());
    site.cloud.fault(Fault::error(
        "GetServiceQuota",
        "AccessDeniedException",
        400,
    ));
    assert_eq!(quota(false), None, "who may not ask does not know");

    let instances = site.running("f", 2);
    site.cloud.impair(&instances[0].id, true);
    let impaired = || {
        let checks = site.wait(site.provider.health("f")).expect("checks");
        let of = |id: &str| checks.iter().find(|(i, _)| i == id).map(|(_, h)| h.clone());
        (of(&instances[0].id), of(&instances[1].id))
    };
    cvc_testkit::wait_until("the checks", Duration::from_secs(20), || {
        matches!(impaired(), (Some(Health::Impaired(_)), Some(Health::Ok)))
    });
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    site.cloud.assert_nothing_left();
}
