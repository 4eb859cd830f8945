//! Creates the resources that the instances of a fleet need. Each resource is searched by name first, so that an interrupted call can be repeated. A
//! resource with the name but without the fleet's tags belongs to another owner and is not changed.

use crate::{Region, tags};
use aws_sdk_ec2::{
    primitives::Blob,
    types::{
        IpPermission, IpRange, Ipv6Range, KeyPairInfo, PlacementGroupState, PlacementStrategy,
        ResourceType, SecurityGroup, Tag, UserIdGroupPair,
    },
};
use cvc_cloud::provider::{ErrorKind, FleetOrder, PreparedFleet, ProviderError};
use cvc_journal::lease::Tags;
use std::{net::IpAddr, time::Duration};

/// Pauses between attempts, until a new resource is visible everywhere in the cloud.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

impl Region {
    pub(crate) async fn prepare_fleet(
        &self,
        order: &FleetOrder,
    ) -> Result<PreparedFleet, ProviderError> {
        let ssh = ssh_from(&order.allow_from).ok_or_else(|| {
            self.refused(
                "checking `allow_from`",
                format!(
                    "{:?} is not a network as in \"203.0.113.7/32\"",
                    order.allow_from
                ),
            )
        })?;
        let key_name = self.key_pair(order).await?;
        let group_id = self.security_group(order, &ssh).await?;
        let placement_group = if order.placement_group {
            Some(self.placement_group(order).await?)
        } else {
            None
        };
        Ok(PreparedFleet {
            key_name,
            group_id,
            placement_group,
        })
    }

    fn refused(&self, what: &str, message: String) -> ProviderError {
        ProviderError::before(ErrorKind::Invalid, what, &self.name, message)
    }

    /// Checks that a resource with a fleet's name belongs to the fleet, and updates its tags.
    async fn adopt(
        &self,
        what: &str,
        id: Option<&str>,
        there: &[Tag],
        tags: &Tags,
    ) -> Result<(), ProviderError> {
        if tags::read(there).is_none_or(|t| t.fleet != tags.fleet) {
            let message = format!(
                "{} exists already and does not belong to this fleet: cvc does not change it",
                tags.fleet
            );
            return Err(self.refused(what, message));
        }
        let (wanted, Some(id)) = (tags::written(tags), id) else {
            return Ok(());
        };
        if wanted.iter().all(|w| {
            there
                .iter()
                .any(|t| t.key() == w.key() && t.value() == w.value())
        }) {
            return Ok(());
        }
        self.order(what, |s| {
            s.ec2
                .create_tags()
                .resources(id)
                .set_tags(Some(wanted.clone()))
                .send()
        })
        .await
        .map(drop)
    }

    async fn key_named(
        &self,
        what: &str,
        name: &str,
    ) -> Result<Option<KeyPairInfo>, ProviderError> {
        let answer = self
            .ask(what, |s| {
                let named = tags::filter("key-name", [tags::literal(name)]);
                s.ec2
                    .describe_key_pairs()
                    .filters(named)
                    .include_public_key(true)
                    .send()
            })
            .await?;
        Ok(answer
            .key_pairs
            .unwrap_or_default()
            .into_iter()
            .find(|k| k.key_name() == Some(name)))
    }

    async fn key_pair(&self, order: &FleetOrder) -> Result<String, ProviderError> {
        let (what, name) = ("importing the key pair", order.tags.fleet.as_str());
        // at most twice: another call of a killed controller may have imported a key pair first
        for _ in 0..2 {
            if let Some(there) = self.key_named(what, name).await? {
                self.adopt(what, there.key_pair_id(), there.tags(), &order.tags)
                    .await?;
                if there
                    .public_key()
                    .is_some_and(|k| same_key(k, &order.public_key))
                {
                    return Ok(name.to_owned());
                }
                // the private key of this key pair is lost, so delete it: nobody could log in to instances launched with it
                self.order(what, |s| s.ec2.delete_key_pair().key_name(name).send())
                    .await?;
            }
            let made = self
                .order(what, |s| {
                    s.ec2
                        .import_key_pair()
                        .key_name(name)
                        .public_key_material(Blob::new(order.public_key.trim()))
                        .tag_specifications(tags::of_new(ResourceType::KeyPair, &order.tags))
                        .send()
                })
                .await;
            match made {
                Ok(_) => return Ok(name.to_owned()),
                Err(e) if e.code.as_deref() == Some("InvalidKeyPair.Duplicate") => {}
                Err(e) => return Err(e),
            }
        }
        Err(ProviderError::before(
            ErrorKind::Transient,
            what,
            &self.name,
            "another process keeps creating it",
        ))
    }

    /// Returns the identifier of the subnet's network (VPC), by default of the default network.
    async fn vpc(&self, subnet: Option<&str>) -> Result<String, ProviderError> {
        let what = "looking for the network";
        if let Some(subnet) = subnet {
            let answer = self
                .ask(what, |s| s.ec2.describe_subnets().subnet_ids(subnet).send())
                .await?;
            let vpc = answer
                .subnets()
                .first()
                .and_then(|s| s.vpc_id())
                .map(str::to_owned);
            return vpc.ok_or_else(|| self.refused(what, format!("unknown subnet {subnet}")));
        }
        let answer = self
            .ask(what, |s| {
                s.ec2
                    .describe_vpcs()
                    .filters(tags::filter("is-default", ["true"]))
                    .send()
            })
            .await?;
        let vpc = answer
            .vpcs()
            .first()
            .and_then(|v| v.vpc_id())
            .map(str::to_owned);
        vpc.ok_or_else(|| {
            self.refused(
                what,
                "the account has no default network here: set `subnet`".into(),
            )
        })
    }

    async fn group_named(
        &self,
        what: &str,
        name: &str,
        vpc: &str,
    ) -> Result<Option<SecurityGroup>, ProviderError> {
        let answer = self
            .ask(what, |s| {
                let filters = [
                    tags::filter("group-name", [tags::literal(name)]),
                    tags::filter("vpc-id", [vpc]),
                ];
                s.ec2
                    .describe_security_groups()
                    .set_filters(Some(filters.to_vec()))
                    .send()
            })
            .await?;
        Ok(answer
            .security_groups
            .unwrap_or_default()
            .into_iter()
            .find(|g| g.group_name() == Some(name)))
    }

    async fn security_group(
        &self,
        order: &FleetOrder,
        ssh: &IpPermission,
    ) -> Result<String, ProviderError> {
        let (what, name) = ("making the security group", order.tags.fleet.as_str());
        let vpc = self.vpc(order.subnet.as_deref()).await?;
        let mut there = self.group_named(what, name, &vpc).await?;
        if there.is_none() {
            let made = self
                .order(what, |s| {
                    s.ec2
                        .create_security_group()
                        .group_name(name)
                        .description("instances of a cvc campaign: ssh from outside, everything among themselves")
                        .vpc_id(&vpc)
                        .tag_specifications(tags::of_new(ResourceType::SecurityGroup, &order.tags))
                        .send()
                })
                .await;
            match made {
                Ok(made) => {
                    // a new group has no other rules than the cloud's defaults
                    let id = made.group_id().unwrap_or_default();
                    there = Some(
                        SecurityGroup::builder()
                            .group_id(id)
                            .set_tags(Some(tags::written(&order.tags)))
                            .build(),
                    );
                }
                Err(e) if e.code.as_deref() == Some("InvalidGroup.Duplicate") => {
                    // the group exists but may not be visible yet
                    for pause in PAUSES {
                        there = self.group_named(what, name, &vpc).await?;
                        if there.is_some() {
                            break;
                        }
                        tokio::time::sleep(pause).await;
                    }
                }
                Err(e) => return Err(e),
            }
        }
        let Some(there) = there else {
            return Err(ProviderError::before(
                ErrorKind::Transient,
                what,
                &self.name,
                "it exists but is not visible yet",
            ));
        };
        let Some(id) = there.group_id().filter(|i| !i.is_empty()) else {
            return Err(ProviderError::before(
                ErrorKind::Other,
                what,
                &self.name,
                "the answer lacks the group",
            ));
        };
        let mut pauses = PAUSES.iter();
        loop {
            let set = async {
                self.adopt(what, Some(id), there.tags(), &order.tags)
                    .await?;
                self.rules(&there, id, ssh).await
            };
            match (set.await, pauses.next()) {
                // all calls of the loop may be repeated
                (Err(e), Some(pause)) if is_unknown_group(&e) => tokio::time::sleep(*pause).await,
                (set, _) => return set.map(|()| id.to_owned()),
            }
        }
    }

    /// Sets the rules of the group: from outside only ssh from the allowed addresses, and all traffic within the group. EFA also requires an outgoing
    /// rule to the group itself.
    async fn rules(
        &self,
        group: &SecurityGroup,
        id: &str,
        ssh: &IpPermission,
    ) -> Result<(), ProviderError> {
        let what = "setting the rules of the security group";
        let inside = IpPermission::builder()
            .ip_protocol("-1")
            .user_id_group_pairs(UserIdGroupPair::builder().group_id(id).build())
            .build();
        let wanted = [ssh, &inside];
        let stale: Vec<IpPermission> = group
            .ip_permissions()
            .iter()
            .flat_map(single)
            .filter(|r| !wanted.iter().any(|w| same_rule(w, r)))
            .collect();
        if !stale.is_empty() {
            let answer = self
                .order(what, |s| {
                    s.ec2
                        .revoke_security_group_ingress()
                        .group_id(id)
                        .set_ip_permissions(Some(stale.clone()))
                        .send()
                })
                .await;
            match answer {
                Ok(_) => {}
                Err(e) if e.kind == ErrorKind::NotFound && !is_unknown_group(&e) => {}
                Err(e) => return Err(e),
            }
        }
        let has = |rules: &[IpPermission], wanted: &IpPermission| {
            rules.iter().flat_map(single).any(|r| same_rule(wanted, &r))
        };
        for rule in wanted
            .into_iter()
            .filter(|w| !has(group.ip_permissions(), w))
        {
            let answer = self
                .order(what, |s| {
                    s.ec2
                        .authorize_security_group_ingress()
                        .group_id(id)
                        .ip_permissions(rule.clone())
                        .send()
                })
                .await;
            match answer {
                Err(e) if e.code.as_deref() != Some("InvalidPermission.Duplicate") => {
                    return Err(e);
                }
                _ => {}
            }
        }
        if !has(group.ip_permissions_egress(), &inside) {
            let answer = self
                .order(what, |s| {
                    s.ec2
                        .authorize_security_group_egress()
                        .group_id(id)
                        .ip_permissions(inside.clone())
                        .send()
                })
                .await;
            match answer {
                Err(e) if e.code.as_deref() != Some("InvalidPermission.Duplicate") => {
                    return Err(e);
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn placement_group(&self, order: &FleetOrder) -> Result<String, ProviderError> {
        let (what, name) = ("making the placement group", order.tags.fleet.as_str());
        // creating or deleting a placement group takes some seconds
        for pause in [0, 1, 2, 3, 5, 8, 13] {
            tokio::time::sleep(Duration::from_secs(pause)).await;
            let answer = self
                .ask(what, |s| {
                    s.ec2
                        .describe_placement_groups()
                        .filters(tags::filter("group-name", [tags::literal(name)]))
                        .send()
                })
                .await?;
            let there = answer
                .placement_groups()
                .iter()
                .find(|g| g.group_name() == Some(name));
            match there {
                Some(there) if there.state() == Some(&PlacementGroupState::Available) => {
                    self.adopt(what, there.group_id(), there.tags(), &order.tags)
                        .await?;
                    return Ok(name.to_owned());
                }
                Some(there) if there.state() == Some(&PlacementGroupState::Deleted) => {}
                Some(_) => continue,
                None => {}
            }
            let made = self
                .order(what, |s| {
                    s.ec2
                        .create_placement_group()
                        .group_name(name)
                        .strategy(PlacementStrategy::Cluster)
                        .tag_specifications(tags::of_new(ResourceType::PlacementGroup, &order.tags))
                        .send()
                })
                .await;
            match made {
                Ok(made)
                    if made
                        .placement_group()
                        .and_then(|g| g.state())
                        .is_some_and(|s| *s == PlacementGroupState::Available) =>
                {
                    return Ok(name.to_owned());
                }
                Ok(_) => {}
                Err(e) if e.code.as_deref() == Some("InvalidPlacementGroup.Duplicate") => {}
                Err(e) => return Err(e),
            }
        }
        Err(ProviderError::before(
            ErrorKind::Transient,
            what,
            &self.name,
            "it did not become available in time",
        ))
    }
}

/// Returns whether the error means that the cloud does not know the security group (yet).
fn is_unknown_group(error: &ProviderError) -> bool {
    matches!(
        error.code.as_deref(),
        Some(
            "InvalidGroup.NotFound" | "InvalidGroupId.NotFound" | "InvalidSecurityGroupID.NotFound"
        )
    )
}

/// Returns whether two public keys are equal, apart from their comments.
fn same_key(one: &str, other: &str) -> bool {
    one.split_whitespace()
        .take(2)
        .eq(other.split_whitespace().take(2))
}

/// Returns a rule that allows ssh from a network or an address; `None` if the text is invalid.
fn ssh_from(network: &str) -> Option<IpPermission> {
    let (address, bits) = network
        .trim()
        .split_once('/')
        .map_or((network.trim(), None), |(a, b)| (a, Some(b)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits: u8 = bits
        .map_or(Some(most), |b| b.parse().ok())
        .filter(|b| *b <= most)?;
    let (rule, text) = (
        IpPermission::builder()
            .ip_protocol("tcp")
            .from_port(22)
            .to_port(22),
        format!("{address}/{bits}"),
    );
    Some(
        match address {
            IpAddr::V4(_) => rule.ip_ranges(IpRange::builder().cidr_ip(text).build()),
            IpAddr::V6(_) => rule.ipv6_ranges(Ipv6Range::builder().cidr_ipv6(text).build()),
        }
        .build(),
    )
}

/// Splits a rule with several sources, as the cloud returns them, into rules with one source each.
fn single(rule: &IpPermission) -> Vec<IpPermission> {
    let bare = || {
        IpPermission::builder()
            .set_ip_protocol(rule.ip_protocol.clone())
            .set_from_port(rule.from_port)
            .set_to_port(rule.to_port)
    };
    let v4 = rule
        .ip_ranges()
        .iter()
        .filter_map(|r| r.cidr_ip())
        .map(|c| {
            bare()
                .ip_ranges(IpRange::builder().cidr_ip(c).build())
                .build()
        });
    let v6 = rule.ipv6_ranges().iter().filter_map(|r| r.cidr_ipv6());
    let v6 = v6.map(|c| {
        bare()
            .ipv6_ranges(Ipv6Range::builder().cidr_ipv6(c).build())
            .build()
    });
    let groups = rule
        .user_id_group_pairs()
        .iter()
        .filter_map(|p| p.group_id());
    let groups = groups.map(|g| {
        bare()
            .user_id_group_pairs(UserIdGroupPair::builder().group_id(g).build())
            .build()
    });
    let lists = rule
        .prefix_list_ids()
        .iter()
        .map(|l| bare().prefix_list_ids(l.clone()).build());
    v4.chain(v6).chain(groups).chain(lists).collect()
}

/// Returns whether two rules with one source each are equal. The cloud has several forms for the ports of "all protocols".
fn same_rule(one: &IpPermission, other: &IpPermission) -> bool {
    let all = one.ip_protocol() == Some("-1");
    one.ip_protocol() == other.ip_protocol()
        && (all || (one.from_port(), one.to_port()) == (other.from_port(), other.to_port()))
        && one
            .ip_ranges()
            .iter()
            .map(|r| r.cidr_ip())
            .eq(other.ip_ranges().iter().map(|r| r.cidr_ip()))
        && one
            .ipv6_ranges()
            .iter()
            .map(|r| r.cidr_ipv6())
            .eq(other.ipv6_ranges().iter().map(|r| r.cidr_ipv6()))
        && one
            .user_id_group_pairs()
            .iter()
            .map(|p| p.group_id())
            .eq(other.user_id_group_pairs().iter().map(|p| p.group_id()))
        && one.prefix_list_ids() == other.prefix_list_ids()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_or_refused() {
        let of = |text: &str| {
            ssh_from(text).map(|r| {
                format!(
                    "{:?}{:?}",
                    r.ip_ranges().first().and_then(|i| i.cidr_ip()),
                    r.ipv6_ranges().first().and_then(|i| i.cidr_ipv6())
                )
            })
        };
        assert_eq!(
            of("203.0.113.7/32").as_deref(),
            Some("Some(\"203.0.113.7/32\")None")
        );
        assert_eq!(
            of("203.0.113.7").as_deref(),
            Some("Some(\"203.0.113.7/32\")None")
        );
        assert_eq!(
            of("2001:db8::/48").as_deref(),
            Some("NoneSome(\"2001:db8::/48\")")
        );
        for wrong in [
            "",
            "everybody",
            "203.0.113.7/33",
            "203.0.113/24",
            "2001:db8::/129",
            "203.0.113.7/",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn comments_of_keys_do_not_count() {
        assert!(same_key(
            "ssh-ed25519 AAAA ada@laptop",
            "ssh-ed25519 AAAA\n"
        ));
        assert!(!same_key("ssh-ed25519 AAAA", "ssh-ed25519 AAAB"));
    }
}
