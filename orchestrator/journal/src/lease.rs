//! Orders to clouds. An order is journaled before the call that places it, so that the call can be repeated.

use cvc_core::campaign::{Credits, Disk, Volume};

use cvc_core::ids::{FleetId, LeaseId, SiteName};

use crate::price::NodeRate;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Tags of a resource that cvc has created in a cloud. By its tags alone the resource can be found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tags {
    /// `cvc:owner`: the user who runs the campaign, as in `ada@laptop`.
    pub owner: String,
    /// `cvc:campaign`: name of the campaign.
    pub campaign: String,
    /// `cvc:site`: name of the site.
    pub site: SiteName,
    /// `cvc:fleet`: identifier of the fleet, the instances of one site of one campaign directory.
    pub fleet: FleetId,
    /// `cvc:lease`: name of the order; `None` for resources that a whole fleet shares.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lease: Option<LeaseId>,
    /// `cvc:expires`: time by which the resource should have ended; `None` if it has no such time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires: Option<Timestamp>,
}

impl Tags {
    /// Name of the tag with the owner.
    pub const OWNER: &str = "cvc:owner";
    /// Name of the tag with the fleet.
    pub const FLEET: &str = "cvc:fleet";
    /// Name of the tag with the end.
    pub const EXPIRES: &str = "cvc:expires";

    /// Returns the names and values of the tags. Values are cut to 256 characters, the maximum for a tag.
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let cut = |text: &str| text.chars().take(256).collect::<String>();
        let mut pairs = vec![
            (Self::OWNER, cut(&self.owner)),
            ("cvc:campaign", cut(&self.campaign)),
            ("cvc:site", cut(self.site.as_str())),
            (Self::FLEET, cut(self.fleet.as_str())),
        ];
        if let Some(lease) = &self.lease {
            pairs.push(("cvc:lease", cut(lease.as_str())));
        }
        if let Some(expires) = &self.expires {
            pairs.push((Self::EXPIRES, expires.to_string()));
        }
        pairs.push(("Name", cut(&format!("cvc {} {}", self.campaign, self.site))));
        pairs
    }

    /// Parses tags; `None` if the owner or the fleet is missing, because the resource is then not cvc's.
    pub fn read<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let mut tags = Self::default();
        for (name, value) in pairs {
            match name {
                Self::OWNER => tags.owner = value.to_owned(),
                "cvc:campaign" => tags.campaign = value.to_owned(),
                "cvc:site" => tags.site = value.into(),
                Self::FLEET => tags.fleet = value.into(),
                "cvc:lease" => tags.lease = Some(value.into()),
                Self::EXPIRES => tags.expires = value.parse().ok(),
                _ => {}
            }
        }
        (!tags.owner.is_empty() && !tags.fleet.as_str().is_empty()).then_some(tags)
    }
}

/// Returns the owner of campaigns on this machine: `CVC_OWNER`, or the names of user and machine.
pub fn owner() -> String {
    if let Ok(owner) = std::env::var("CVC_OWNER")
        && !owner.trim().is_empty()
    {
        return owner.trim().to_owned();
    }
    let user = nix::unistd::User::from_uid(nix::unistd::getuid())
        .ok()
        .flatten()
        .map_or_else(|| "unknown".to_owned(), |u| u.name);
    let machine = cvc_core::paths::host_name().unwrap_or_else(|| "unknown".to_owned());
    format!("{user}@{machine}")
}

/// An order: one call that launches instances, with all its parameters, because they are journaled. If a controller is killed before the cloud
/// answers, the next controller repeats the identical call and gets the same instances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchOrder {
    /// Tags; [`Tags::lease`] is the name of the lease, and the client token.
    pub tags: Tags,
    /// Region.
    pub region: String,
    /// Profile of the user's AWS configuration.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<String>,
    /// Endpoint to use instead of the cloud's own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub endpoint: Option<String>,
    /// Zone; `None` if the cloud chooses it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub zone: Option<String>,
    /// Instance type.
    pub instance_type: String,
    /// Virtual processors of one instance.
    pub vcpus: u32,
    /// Number of instances; the cloud launches all or none.
    pub count: u32,
    /// Whether spot instances are ordered.
    pub spot: bool,
    /// Maximum price of one spot instance, US dollars per hour; `None` for the on-demand price.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_price_usd: Option<f64>,
    /// Price of one instance, US dollars per hour, including disks and address, if it was known at the time of the order.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usd_per_hour: Option<f64>,
    /// The parts of `usd_per_hour`, each with its source.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate: Option<NodeRate>,
    /// Identifier of the image.
    pub image: String,
    /// Name of the image's root device.
    pub root_device: String,
    /// Name of the key pair.
    pub key_name: String,
    /// Identifier of the security group.
    pub group_id: String,
    /// Identifier of the subnet.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subnet: Option<String>,
    /// Name of the placement group.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub placement_group: Option<String>,
    /// Whether the network interface is an Elastic Fabric Adapter.
    pub efa: bool,
    /// Root volume.
    pub root: Disk,
    /// Further volumes, in order.
    pub volumes: Vec<Volume>,
    /// Whether all volumes are encrypted; absent in orders of an older version.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub encrypted: bool,
    /// Behaviour of burstable instances without CPU credits; `None` in orders of an older version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub credits: Option<Credits>,
    /// Digest of the instances' configuration; `None` in orders of an older version.
    #[serde(skip_serializing_if = "Option::is_none", default, alias = "alike")]
    pub config_digest: Option<String>,
    /// Time from an instance's first boot until it terminates itself, seconds.
    pub lifetime_s: u64,
}

impl LaunchOrder {
    /// Returns the name of the lease.
    pub fn lease(&self) -> &str {
        self.tags
            .lease
            .as_ref()
            .map(LeaseId::as_str)
            .unwrap_or_default()
    }

    /// Returns the device name of the further volume at this index: one of the names that EC2 recommends, in order; `None` if there are no more. The
    /// instance may give the disk another name; its set-up finds the disk by the name in the order.
    pub fn device_of(index: usize) -> Option<String> {
        ('f'..='p')
            .nth(index)
            .map(|letter| format!("/dev/sd{letter}"))
    }

    /// Returns the script that an instance runs as root at its first boot. The script sets a deadline by the instance's own clock. The deadline
    /// survives reboots; writing another time into `/etc/cvc-deadline` changes it. The script depends only on the order, so that repeating the order
    /// repeats the identical call.
    pub fn user_data(&self) -> String {
        // without an end time only the lifetime applies
        let until = self
            .tags
            .expires
            .map_or(i64::from(u32::MAX), Timestamp::as_second);
        include_str!("deadline.sh")
            .replace("@LIFETIME_S@", &self.lifetime_s.to_string())
            .replace("@UNTIL_S@", &until.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_have_the_names_that_ec2_recommends() {
        let names: Vec<String> = (0..20).map_while(LaunchOrder::device_of).collect();
        assert_eq!(
            (names.len(), names[0].as_str(), names[10].as_str()),
            (11, "/dev/sdf", "/dev/sdp")
        );
    }

    #[test]
    fn tags_are_read_back_as_they_were_written() {
        let tags = Tags {
            owner: "ada@laptop".into(),
            campaign: "c".into(),
            site: "s".into(),
            fleet: "cvc-c-1-s".into(),
            lease: Some("cvc-c-1-s-1".into()),
            expires: Some("2026-01-02T03:04:05Z".parse().expect("a time")),
        };
        let pairs = tags.pairs();
        assert_eq!(
            Tags::read(pairs.iter().map(|(n, v)| (*n, v.as_str()))),
            Some(tags)
        );
        assert_eq!(Tags::read([("Name", "somebody else's")]), None);
    }
}
