//! Settings of a site whose machines are EC2 instances, after they were checked.

use serde::{Deserialize, Serialize};

/// How instances are requested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ec2Settings {
    /// Region, as in `us-east-1`.
    pub region: String,
    /// Profile of the user's AWS configuration; `None` for the default profile.
    pub profile: Option<String>,
    /// Endpoint instead of the cloud's own, as in `http://127.0.0.1:5000`.
    pub endpoint: Option<String>,
    /// The requested instances.
    #[serde(flatten)]
    pub instances: InstanceSpec,
    /// Mount point of the machine's own disks, striped if there are several; `None` if they are not used.
    pub instance_store: Option<String>,
    /// Directory that the first node exports by NFS and all others mount, if any.
    pub nfs: Option<String>,
    /// Time for which instances are kept after the campaign for the next one, seconds; `None` if they are not kept.
    pub keep_s: Option<f64>,
    /// Whether to install the needed software on fresh instances.
    pub install: bool,
    /// Replacement of instances that the spot market reclaims.
    #[serde(default, skip_serializing_if = "OnInterruption::is_default")]
    pub on_interruption: OnInterruption,
}

/// The instances that a site requests, independent of the cloud's interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceSpec {
    /// Instance types, in order of preference; the next is used if the previous one is not available.
    pub instance_types: Vec<String>,
    /// Maximum number of instances.
    pub nodes: u32,
    /// Zones, in order of preference; empty for all zones that have the type.
    pub zones: Vec<String>,
    /// Subnet, which determines the zone; `None` for each zone's default subnet.
    pub subnet: Option<String>,
    /// Image that the instances boot.
    pub image: Image,
    /// Market of the instances.
    pub market: Market,
    /// Maximum price of one spot instance, US dollars per hour; `None` for the on-demand price.
    pub max_price_usd: Option<f64>,
    /// Whether the instances are in a cluster placement group; `None`: if the type allows it and there are several instances.
    pub placement_group: Option<bool>,
    /// Whether the instances have the Elastic Fabric Adapter.
    pub efa: bool,
    /// Root volume.
    pub root: Disk,
    /// Further volumes, formatted and mounted.
    pub volumes: Vec<Volume>,
    /// Time after the last contact with cvc at which an instance ends by itself, seconds.
    pub lifetime_s: f64,
    /// Time limit for an instance to answer by ssh, seconds.
    pub ready_limit_s: f64,
    /// Addresses from which ssh is allowed, as in `203.0.113.7/32`; `None` for the caller's own address.
    pub allow_from: Option<String>,
    /// Whether all EBS volumes are encrypted.
    #[serde(default)]
    pub encrypted: bool,
    /// Behaviour of burstable instances when their CPU credits are used up; `None` for the cloud's default for the type.
    pub credits: Option<Credits>,
}

impl InstanceSpec {
    /// Returns the behaviour of instances of this type when their CPU credits are used up; `None` if the type is not burstable.
    pub fn credits_of(&self, instance_type: &str) -> Option<Credits> {
        Credits::of(instance_type, self.credits)
    }
}

/// The image of instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Image {
    /// A known image: `debian-12`, `debian-13`, `ubuntu-22.04`, `ubuntu-24.04`, `amazon-linux-2023`.
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
    /// Full price, not reclaimed.
    #[default]
    OnDemand,
    /// Cheaper; the cloud may reclaim them.
    Spot,
    /// Spot, or on demand if no spot instances are available.
    SpotThenOnDemand,
}

/// Replacement of reclaimed spot instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OnInterruption {
    /// Spot instances of the same type.
    #[default]
    Replace,
    /// A whole fleet of the next of `instance_types`.
    NextType,
    /// On-demand instances of the same type.
    OnDemand,
    /// None: the site is given up.
    Fail,
}

impl OnInterruption {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Behaviour of burstable instances without processor credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Credits {
    /// Full speed; use above the baseline is charged.
    Unlimited,
    /// Throttled to the baseline.
    Standard,
}

impl Credits {
    /// Prefixes of burstable types, with the default behaviour of each.
    const FAMILIES: [(&str, Self); 4] = [
        ("t2", Self::Standard),
        ("t3", Self::Unlimited),
        ("t3a", Self::Unlimited),
        ("t4g", Self::Unlimited),
    ];

    /// Returns the behaviour of instances of this type; `None` if the type is not burstable. `wanted` is the user's choice.
    pub fn of(instance_type: &str, wanted: Option<Self>) -> Option<Self> {
        let family = instance_type.split('.').next()?;
        let (_, usual) = Self::FAMILIES.iter().find(|(name, _)| *name == family)?;
        Some(wanted.unwrap_or(*usual))
    }

    /// Returns the name that the campaign file and the cloud use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unlimited => "unlimited",
            Self::Standard => "standard",
        }
    }

    /// Describes the effect on measurements.
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
    /// Mount point.
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

/// User's price of a node or a core; prices of EC2 instances come from the cloud.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PriceSettings {
    /// US dollars per node hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_node_hour_usd: Option<f64>,
    /// US dollars per core hour; a run is charged for all cores of its nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_core_hour_usd: Option<f64>,
}

/// Cost limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table with `usd`")]
pub struct Budget {
    /// Maximum cost over all sessions, US dollars.
    pub usd: f64,
    /// Policy for an insufficient budget. Default: `end`.
    #[serde(default)]
    pub when_short: WhenShort,
}

/// Policy for an insufficient budget. The budget is never exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WhenShort {
    /// A run starts if the budget covers its expected cost; a longer one is ended.
    #[default]
    End,
    /// A run starts only if the budget covers its time limit, so no run is ended.
    Finish,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of kept fleets, and agents of the previous version, have the settings in this form.
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
