//! Tests of removal: cvc's resources are found by their tags alone, and removed in order; no other resources are removed.

use super::{KEY, OTHER_KEY, Site, fleet, order};
use aws_sdk_ec2::types::{IpPermission, UserIdGroupPair};
use cvc_cloud::provider::{ErrorKind, FleetOrder, ResourceKind};
use cvc_testkit::{Cloud, Tool, cloud::Fault, require};
use std::collections::BTreeMap;

#[test]
fn everything_made_is_found_and_removed_twice() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::without_nodes());
    for round in 1..=2 {
        let made = site.prepare(&fleet("f"));
        assert_eq!(site.prepare(&fleet("f")), made, "round {round}: made once");
        let other = site.prepare(&FleetOrder {
            tags: cvc_journal::lease::Tags {
                owner: "bob@desk".into(),
                ..super::tags("g")
            },
            ..fleet("g")
        });
        site.launch(&order(&site, "f", round, 2, &made));
        let found = site
            .wait(site.provider.discover(Some("ada@laptop"), None))
            .all_shown()
            .expect("what there is");
        let mut kinds: BTreeMap<ResourceKind, usize> = BTreeMap::new();
        found
            .iter()
            .for_each(|r| *kinds.entry(r.kind).or_default() += 1);
        let expected = [
            (ResourceKind::Instance, 2),
            (ResourceKind::Volume, 4),
            (ResourceKind::PlacementGroup, 1),
            (ResourceKind::SecurityGroup, 1),
            (ResourceKind::KeyPair, 1),
        ];
        assert_eq!(kinds, BTreeMap::from(expected), "round {round}");
        assert!(found.iter().all(|r| r.tags.fleet == "f"
            && r.tags.owner == "ada@laptop"
            && r.region == "us-east-1"));
        let volume = found
            .iter()
            .find(|r| r.kind == ResourceKind::Volume && r.size_gib == Some(50))
            .expect("a volume");
        assert_eq!(
            (volume.volume_type.as_deref(), volume.tags.lease.clone()),
            (Some("gp3"), Some(format!("f-{round}").into()))
        );
        assert!(volume.tags.expires.is_some() && volume.since.is_some());
        assert_eq!(
            site.remove_all(Some("f"), 30.0),
            Vec::<String>::new(),
            "round {round}"
        );
        // remove them again: a missing resource is not an error
        assert_eq!(
            site.wait(site.provider.remove(&found, 5.0, &|_| {}))
                .expect("an answer"),
            []
        );
        let rest = site
            .wait(site.provider.discover(None, None))
            .all_shown()
            .expect("what there is");
        assert!(
            rest.len() == 3 && rest.iter().all(|r| r.tags.owner == "bob@desk"),
            "round {round}: others' things stay: {rest:?}"
        );
        assert_eq!(
            other.group_id,
            rest.iter()
                .find(|r| r.kind == ResourceKind::SecurityGroup)
                .expect("its group")
                .id
        );
        assert_eq!(site.remove_all(Some("g"), 30.0), Vec::<String>::new());
        site.cloud.assert_nothing_left();
    }
}

#[test]
fn a_fleet_keeps_to_its_key_and_its_rules() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::without_nodes());
    site.prepare(&fleet("f"));
    assert_eq!(site.cloud.count("ImportKeyPair"), 1);
    // the caller has another address and another key
    let moved = FleetOrder {
        allow_from: "198.51.100.0/24".into(),
        public_key: OTHER_KEY.into(),
        ..fleet("f")
    };
    site.prepare(&moved);
    assert_eq!(
        (
            site.cloud.count("ImportKeyPair"),
            site.cloud.count("DeleteKeyPair")
        ),
        (2, 1)
    );
    let revoked = site
        .cloud
        .calls()
        .into_iter()
        .rfind(|c| c.action == "RevokeSecurityGroupIngress")
        .expect("the old rule goes");
    assert_eq!(
        revoked
            .parameters
            .get("IpPermissions.1.IpRanges.1.CidrIp")
            .map(String::as_str),
        Some("203.0.113.7/32")
    );
    let before = site.cloud.calls().len();
    site.prepare(&FleetOrder {
        public_key: format!("{OTHER_KEY} with another comment"),
        ..moved
    });
    let changes: Vec<String> = site
        .cloud
        .calls()
        .split_off(before)
        .into_iter()
        .map(|c| c.action)
        .filter(|a| !a.starts_with("Describe"))
        .collect();
    assert_eq!(changes, Vec::<String>::new(), "nothing is left to be done");

    let e = site
        .wait(site.provider.prepare(&FleetOrder {
            allow_from: "everybody".into(),
            ..fleet("f")
        }))
        .expect_err("no network");
    assert_eq!(e.kind, ErrorKind::Invalid);
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    site.cloud.assert_nothing_left();
}

#[test]
fn what_has_the_name_without_the_tags_is_not_touched() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::without_nodes());
    let stranger = site.stranger();
    let key = aws_sdk_ec2::primitives::Blob::new(KEY);
    site.wait(
        stranger
            .import_key_pair()
            .key_name("f")
            .public_key_material(key)
            .send(),
    )
    .expect("a key pair");
    let e = site
        .wait(site.provider.prepare(&fleet("f")))
        .expect_err("somebody else's");
    assert!(
        e.kind == ErrorKind::Invalid && e.message.contains("does not change it"),
        "{e}"
    );
    let group = stranger
        .create_security_group()
        .group_name("g")
        .description("somebody's")
        .send();
    let group = site
        .wait(group)
        .expect("a group")
        .group_id
        .expect("its name");
    let e = site
        .wait(site.provider.prepare(&fleet("g")))
        .expect_err("somebody else's");
    assert!(
        e.kind == ErrorKind::Invalid && e.message.contains("does not change it"),
        "{e}"
    );
    // the key pair of g was created before
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    let left = site.cloud.alive();
    assert_eq!(
        (left.key_pairs, left.security_groups),
        (vec!["f".to_owned()], vec!["g".to_owned()])
    );
    site.wait(stranger.delete_security_group().group_id(group).send())
        .expect("its end");
    site.wait(stranger.delete_key_pair().key_name("f").send())
        .expect("its end");
    site.cloud.assert_nothing_left();
}

#[test]
fn groups_that_refer_to_each_other_are_parted_first() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::without_nodes());
    let groups = ["f", "g"].map(|name| site.prepare(&fleet(name)).group_id);
    let stranger = site.stranger();
    for (one, other) in [(&groups[0], &groups[1]), (&groups[1], &groups[0])] {
        let pair = UserIdGroupPair::builder().group_id(other).build();
        let rule = IpPermission::builder()
            .ip_protocol("-1")
            .user_id_group_pairs(pair)
            .build();
        site.wait(
            stranger
                .authorize_security_group_ingress()
                .group_id(one)
                .ip_permissions(rule.clone())
                .send(),
        )
        .expect("a rule");
        site.wait(
            stranger
                .authorize_security_group_egress()
                .group_id(one)
                .ip_permissions(rule)
                .send(),
        )
        .expect("a rule");
    }
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    assert_eq!(
        (
            site.cloud.count("RevokeSecurityGroupIngress"),
            site.cloud.count("RevokeSecurityGroupEgress")
        ),
        (2, 2)
    );
    site.cloud.assert_nothing_left();
}

#[test]
fn a_group_in_use_is_tried_again_until_it_goes_or_the_time_is_up() {
    require!(Tool::Moto);
    let site = Site::new(Cloud::without_nodes());
    let made = site.prepare(&fleet("f"));
    site.launch(&order(&site, "f", 1, 1, &made));
    site.cloud.hold_group(3);
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    assert_eq!(site.cloud.count("DeleteSecurityGroup"), 4);
    site.cloud.assert_nothing_left();

    let made = site.prepare(&fleet("f"));
    site.cloud.hold_group(1_000_000);
    let left = site.remove_all(None, 1.0);
    assert!(
        left.len() == 1
            && left[0].contains(&made.group_id)
            && left[0].contains("DependencyViolation"),
        "{left:?}"
    );
    site.cloud.hold_group(0);
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    site.cloud.assert_nothing_left();

    // a call without permission is not retried, and all other resources are removed
    site.prepare(&fleet("f"));
    site.cloud.fault(
        Fault::error("DeleteKeyPair", "UnauthorizedOperation", 403)
            .message("You are not authorized to perform this operation."),
    );
    let left = site.remove_all(None, 30.0);
    assert!(
        left.len() == 1 && left[0].contains("not authorized"),
        "{left:?}"
    );
    assert_eq!(site.remove_all(None, 30.0), Vec::<String>::new());
    site.cloud.assert_nothing_left();
}
