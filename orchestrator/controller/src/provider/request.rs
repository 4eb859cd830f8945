//! What a site requests from a cloud, in terms of no particular cloud. Made once, from the settings of the campaign file or from an order
//! of the journal, which nothing else has to know.

use super::account::Account;
use cvc_core::{
    campaign::{Credits, Disk, Ec2Settings, Image, Market, Volume},
    ids::{canonical_json, short_digest},
    lease::LaunchOrder,
};

/// Time limit for ssh to answer on instances of an order, seconds; unused, since nobody waits for them.
const READY_LIMIT_S: f64 = 300.0;

/// The instances that a site wants.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetRequest {
    /// Region and credentials.
    pub account: Account,
    /// Instance types; the next one is tried if the one before is not available.
    pub instance_types: Vec<String>,
    /// Maximum number of instances.
    pub nodes: u32,
    /// Zones, in order of preference; empty is every zone that has the type.
    pub zones: Vec<String>,
    /// Subnet, which says the zone; `None` is the default one of each zone.
    pub subnet: Option<String>,
    /// Their image.
    pub image: Image,
    /// Their market.
    pub market: Market,
    /// Spot market: maximum US dollars for an hour of one instance; `None` is the price on demand.
    pub max_price_usd: Option<f64>,
    /// Whether they are in a cluster placement group; `None`: if the type allows it and there is more than one.
    pub placement_group: Option<bool>,
    /// Whether they have the Elastic Fabric Adapter.
    pub efa: bool,
    /// Root volume.
    pub root: Disk,
    /// Further volumes, formatted and mounted.
    pub volumes: Vec<Volume>,
    /// Time after the last contact with cvc at which an instance ends itself, seconds.
    pub lifetime_s: f64,
    /// Time limit for ssh to answer on an instance, seconds.
    pub ready_limit_s: f64,
    /// Who may come by ssh, as in `203.0.113.7/32`; `None` is the caller's own address.
    pub allow_from: Option<String>,
    /// Whether all volumes are encrypted.
    pub encrypted: bool,
    /// What burstable instances do when their credits are used up; `None` is the default of the type.
    pub credits: Option<Credits>,
    /// Digest of the instances' configuration: a campaign with the same digest can use them.
    pub config_digest: String,
}

impl FleetRequest {
    /// The request of an EC2 site.
    pub fn of(settings: &Ec2Settings) -> Self {
        Self {
            account: Account::of(settings),
            instance_types: settings.instance_types.clone(),
            nodes: settings.nodes,
            zones: settings.zones.clone(),
            subnet: settings.subnet.clone(),
            image: settings.image.clone(),
            market: settings.market,
            max_price_usd: settings.max_price_usd,
            placement_group: settings.placement_group,
            efa: settings.efa,
            root: settings.root.clone(),
            volumes: settings.volumes.clone(),
            lifetime_s: settings.lifetime_s,
            ready_limit_s: settings.ready_limit_s,
            allow_from: settings.allow_from.clone(),
            encrypted: settings.encrypted,
            credits: settings.credits,
            config_digest: config_digest(settings),
        }
    }

    /// The request from an order of the journal: enough to find and end its instances.
    pub fn of_order(order: &LaunchOrder) -> Self {
        Self {
            account: Account::of_order(order),
            instance_types: vec![order.instance_type.clone()],
            nodes: order.count,
            zones: order.zone.iter().cloned().collect(),
            subnet: order.subnet.clone(),
            image: Image::Id(order.image.clone()),
            market: if order.spot { Market::Spot } else { Market::OnDemand },
            max_price_usd: order.max_price_usd,
            placement_group: Some(order.placement_group.is_some()),
            efa: order.efa,
            root: order.root.clone(),
            volumes: order.volumes.clone(),
            lifetime_s: order.lifetime_s as f64,
            ready_limit_s: READY_LIMIT_S,
            allow_from: None,
            encrypted: order.encrypted,
            credits: order.credits,
            config_digest: order.config_digest.clone().unwrap_or_default(),
        }
    }
}

impl FleetRequest {
    /// What instances of this type do when their processor credits are used up; `None` if they are not burstable.
    pub fn credits_of(&self, instance_type: &str) -> Option<Credits> {
        Credits::of(instance_type, self.credits)
    }
}

/// A digest of the instances' configuration. Their number and lifetime do not matter.
fn config_digest(settings: &Ec2Settings) -> String {
    let compared = Ec2Settings { nodes: 0, lifetime_s: 0.0, keep_s: None, ready_limit_s: 0.0, install: false, ..settings.clone() };
    short_digest(canonical_json(&compared).as_bytes())
}
