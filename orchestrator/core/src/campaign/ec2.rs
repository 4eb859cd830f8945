//! What a campaign file says of a site whose machines are EC2 instances, once checked.

use serde::{Deserialize, Serialize};

/// How instances are asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ec2Settings {
    /// Region, as in `us-east-1`.
    pub region: String,
    /// Profile of the user's AWS configuration; `None` is the default one.
    pub profile: Option<String>,
    /// Instead of the cloud's own addresses, as in `http://127.0.0.1:5000`.
    pub endpoint: Option<String>,
    /// Which instances.
    #[serde(flatten)]
    pub instances: InstanceSpec,
    /// Where the disks of the machine itself are mounted, striped if there are several; `None` leaves them alone.
    pub instance_store: Option<String>,
    /// Directory that the first node exports by NFS and all others mount; `None`: none.
    pub nfs: Option<String>,
    /// Time for which instances are kept after the campaign for the next one, seconds; `None`: not at all.
    pub keep_s: Option<f64>,
    /// Whether what the campaign needs is installed on fresh instances.
    pub install: bool,
}

/// The instances that a site wants, in terms of no particular cloud.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceSpec {
    /// Instance types; the next one is used if the one before is not available.
    pub instance_types: Vec<String>,
    /// Maximum number of instances.
    pub nodes: u32,
    /// Zones, in order of preference; empty is every zone that has the type.
    pub zones: Vec<String>,
    /// Subnet, which says the zone; `None` is the default one of each zone.
    pub subnet: Option<String>,
    /// What they boot.
    pub image: Image,
    /// Which market they are of.
    pub market: Market,
    /// Spot market: US dollars for an hour of one instance at most; `None` is the price on demand.
    pub max_price_usd: Option<f64>,
    /// Whether they are in a cluster placement group; `None`: where the type allows it and there is more than one.
    pub placement_group: Option<bool>,
    /// Whether they have the Elastic Fabric Adapter.
    pub efa: bool,
    /// Root volume.
    pub root: Disk,
    /// Further volumes, formatted and mounted.
    pub volumes: Vec<Volume>,
    /// Time after the last contact with cvc at which an instance ends itself, seconds.
    pub lifetime_s: f64,
    /// Time limit for an instance to answer by ssh, seconds.
    pub ready_limit_s: f64,
    /// Addresses from which ssh is allowed, as in `203.0.113.7/32`; `None` for the caller's own.
    pub allow_from: Option<String>,
    /// Whether all EBS volumes are encrypted.
    #[serde(default)]
    pub encrypted: bool,
    /// What burstable instances do when their processor credits are used up; `None` is the cloud's default for the type.
    pub credits: Option<Credits>,
}

impl InstanceSpec {
    /// What instances of this type do when their processor credits are used up; `None` if they are not burstable.
    pub fn credits_of(&self, instance_type: &str) -> Option<Credits> {
        Credits::of(instance_type, self.credits)
    }
}

/// The image of instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Image {
    /// An image that cvc knows: `debian-12`, `debian-13`, `ubuntu-22.04`, `ubuntu-24.04`, `amazon-linux-2023`.
    Known(String),
    /// `ami-...`.
    Id(String),
    /// The newest image of an owner whose name matches.
    Named {
        /// Account number, or `amazon`, `self`.
        owner: String,
        /// Name with `*` and `?`.
        name: String,
    },
    /// The image that a parameter of the Systems Manager names.
    Parameter(String),
}

/// The market of instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Market {
    /// Full price; they stay.
    #[default]
    OnDemand,
    /// Cheaper; the cloud may reclaim them.
    Spot,
    /// Spot, or on demand if no spot instances are available.
    SpotThenOnDemand,
}

/// What a burstable instance does when its processor credits are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Credits {
    /// It computes at full speed, and what is above its baseline is charged.
    Unlimited,
    /// It is throttled to its baseline.
    Standard,
}

impl Credits {
    /// Families of burstable types, with what they do unless somebody says otherwise.
    const FAMILIES: [(&str, Self); 4] = [
        ("t2", Self::Standard),
        ("t3", Self::Unlimited),
        ("t3a", Self::Unlimited),
        ("t4g", Self::Unlimited),
    ];

    /// What instances of this type do; `None` if they are not burstable. `wanted` is what the user says.
    pub fn of(instance_type: &str, wanted: Option<Self>) -> Option<Self> {
        let family = instance_type.split('.').next()?;
        let (_, usual) = Self::FAMILIES.iter().find(|(name, _)| *name == family)?;
        Some(wanted.unwrap_or(*usual))
    }

    /// The name, as the campaign file and the cloud write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unlimited => "unlimited",
            Self::Standard => "standard",
        }
    }

    /// What that means for measurements.
    pub fn remark(self) -> &'static str {
        match self {
            Self::Unlimited => {
                "burstable instances with unlimited credits: above their baseline they are charged, and share their processors"
            }
            Self::Standard => {
                "burstable instances with standard credits: they are throttled to their baseline when these are used up, so times may not be comparable"
            }
        }
    }
}

/// An EBS volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Type: `gp3`, `gp2`, `io1`, `io2`, `st1`, `sc1`, `standard`.
    #[serde(rename = "type", default = "gp3")]
    pub kind: String,
    /// Size, GiB. Default: that of the image.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 65_536)))]
    pub size_gib: Option<u32>,
    /// I/O operations per second; gp3, io1, io2.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schema", schemars(range(min = 100, max = 256_000)))]
    pub iops: Option<u32>,
    /// Throughput, MiB per second; gp3.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schema", schemars(range(min = 125, max = 2_000)))]
    pub throughput_mib_s: Option<u32>,
}

fn gp3() -> String {
    "gp3".into()
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            kind: gp3(),
            size_gib: None,
            iops: None,
            throughput_mib_s: None,
        }
    }
}

/// A further volume, and its mount point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Where it is mounted.
    pub mount: String,
    /// Type: `gp3`, `gp2`, `io1`, `io2`, `st1`, `sc1`, `standard`.
    #[serde(rename = "type", default = "gp3")]
    pub kind: String,
    /// Size, GiB.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 65_536)))]
    pub size_gib: u32,
    /// I/O operations per second; gp3, io1, io2.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schema", schemars(range(min = 100, max = 256_000)))]
    pub iops: Option<u32>,
    /// Throughput, MiB per second; gp3.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schema", schemars(range(min = 125, max = 2_000)))]
    pub throughput_mib_s: Option<u32>,
}

/// The user's price of a node or a core of a site; prices of EC2 instances come from the cloud.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PriceSettings {
    /// US dollars for an hour of one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_node_hour_usd: Option<f64>,
    /// US dollars for an hour of one core; a run is charged for the cores of all its nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_core_hour_usd: Option<f64>,
}

/// What the campaign may cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table with `usd`")]
pub struct Budget {
    /// US dollars over all sessions of the campaign. It is not exceeded.
    pub usd: f64,
    /// What happens to runs when it is used up. Default: `end`.
    #[serde(default)]
    pub when_short: WhenShort,
}

/// What happens to runs when the budget is used up. It is never exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WhenShort {
    /// A run begins if the budget covers its expected cost; one that takes longer is ended.
    #[default]
    End,
    /// A run begins only if the budget covers it up to its time limit, so no running one is ended.
    Finish,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fleets that are kept, and agents of the version before, know them in this form.
    #[test]
    fn settings_of_instances_are_written_without_a_table_of_their_own() {
        let text = "schema = 1\nname = 'x'\n[matrix]\napp = 'npb-bt'\nclass = 'S'\nprocesses = 1\n[sites.cloud]\nkind = 'ec2'\n\
            [sites.cloud.ec2]\nregion = 'us-east-1'\ninstance_types = ['c5.large']\nnodes = 2\n";
        let apps = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/apps");
        let spec = crate::campaign::load_text(std::path::Path::new("x.toml"), text, &[apps])
            .expect("a campaign");
        let settings = spec.sites["cloud"].ec2.as_ref().expect("settings");
        assert_eq!(
            crate::ids::canonical_json(settings),
            r#"{"allow_from":null,"credits":null,"efa":false,"encrypted":true,"endpoint":null,"image":{"known":"debian-12"},"install":true,"instance_store":null,"instance_types":["c5.large"],"keep_s":null,"lifetime_s":14400.0,"market":"on-demand","max_price_usd":null,"nfs":null,"nodes":2,"placement_group":null,"profile":null,"ready_limit_s":300.0,"region":"us-east-1","root":{"type":"gp3"},"subnet":null,"volumes":[],"zones":[]}"#
        );
        let written = serde_json::to_string(settings).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Ec2Settings>(&written).expect("settings"),
            *settings
        );
    }

    #[test]
    fn only_burstable_families_have_credits_and_the_user_may_choose() {
        let of = |name| Credits::of(name, None);
        assert_eq!(
            (of("t2.micro"), of("t3.micro"), of("t3a.small")),
            (
                Some(Credits::Standard),
                Some(Credits::Unlimited),
                Some(Credits::Unlimited)
            )
        );
        assert_eq!(
            (of("c5.xlarge"), of("t1.micro"), of("trn1.2xlarge"), of("")),
            (None, None, None, None)
        );
        assert_eq!(
            Credits::of("t3.micro", Some(Credits::Standard)),
            Some(Credits::Standard)
        );
        assert_eq!(Credits::of("c5.xlarge", Some(Credits::Standard)), None);
    }
}
