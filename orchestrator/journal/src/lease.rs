//! Orders to clouds. An order is journaled before its call, so that the call can be repeated.

use cvc_core::campaign::{Credits, Disk, Volume};

use cvc_core::ids::{FleetId, LeaseId, SiteName};

use crate::price::NodeRate;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The tags of everything in a cloud, by which alone it can be found again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tags {
    /// `cvc:owner`: who runs the campaign, as in `ada@laptop`.
    pub owner: String,
    /// `cvc:campaign`: its name.
    pub campaign: String,
    /// `cvc:site`: name of the site.
    pub site: SiteName,
    /// `cvc:fleet`: the instances of one site of one campaign directory.
    pub fleet: FleetId,
    /// `cvc:lease`: the order; `None` for resources that a whole fleet shares.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lease: Option<LeaseId>,
    /// `cvc:expires`: time by which it should be gone.
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

    /// Names and values, as they are written; values are cut to the 256 characters that a tag may have.
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

    /// Reads tags back; `None` without an owner and a fleet: then it is not cvc's.
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

/// The owner of campaigns here: `CVC_OWNER`, or user and machine.
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

/// One call that launches instances. All of it is journaled: after a controller is killed before the answer, the next one repeats the
/// identical call and gets the same instances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchOrder {
    /// Tags; [`Tags::lease`] is the name of the lease and the client token.
    pub tags: Tags,
    /// Region.
    pub region: String,
    /// Profile of the user's AWS configuration.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub profile: Option<String>,
    /// Instead of the cloud's own addresses.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub endpoint: Option<String>,
    /// Zone; `None` leaves it to the cloud.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub zone: Option<String>,
    /// Type.
    pub instance_type: String,
    /// Virtual processors of one.
    pub vcpus: u32,
    /// Number of instances; all of them or none.
    pub count: u32,
    /// Whether it is for spot instances.
    pub spot: bool,
    /// Spot market: maximum price of one instance, US dollars an hour; `None` for the on-demand price.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_price_usd: Option<f64>,
    /// US dollars for an hour of one instance, disks and address included, as far as known when it was ordered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usd_per_hour: Option<f64>,
    /// The same in its parts, each with where it is from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate: Option<NodeRate>,
    /// Image.
    pub image: String,
    /// Its root device.
    pub root_device: String,
    /// Name of the key pair.
    pub key_name: String,
    /// Security group.
    pub group_id: String,
    /// Subnet.
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
    /// Whether all volumes are encrypted; not in orders of an older version.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub encrypted: bool,
    /// Of burstable instances; `None` in orders of an older version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub credits: Option<Credits>,
    /// Digest of the instances' configuration; `None` in orders of an older version.
    #[serde(skip_serializing_if = "Option::is_none", default, alias = "alike")]
    pub config_digest: Option<String>,
    /// Seconds after its first boot at which an instance terminates itself.
    pub lifetime_s: u64,
}

impl LaunchOrder {
    /// The lease's name.
    pub fn lease(&self) -> &str {
        self.tags
            .lease
            .as_ref()
            .map(LeaseId::as_str)
            .unwrap_or_default()
    }

    /// The device name in the request for the further volume at this index, from EC2's recommended names in their order. `None` if there
    /// are no more. Machines may name the disk differently; the set-up finds it by this name.
    pub fn device_of(index: usize) -> Option<String> {
        ('f'..='p')
            .nth(index)
            .map(|letter| format!("/dev/sd{letter}"))
    }

    /// The script of an instance's first boot, run as root: it sets a deadline by the instance's own clock, which survives reboots and can
    /// be changed by writing another time to `/etc/cvc-deadline`. It depends only on the order, so that the same order gives the same call.
    pub fn user_data(&self) -> String {
        // without a time only the lifetime counts
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
