//! A site's request for instances, independent of any cloud. It is created once, from the settings of the campaign file or from an order of the
//! journal, so that other code depends on neither.

use super::account::Account;
use cvc_core::campaign::{Ec2Settings, Image, InstanceSpec, Market, OnInterruption};
use cvc_core::ids::{canonical_json, short_digest};
use cvc_journal::lease::LaunchOrder;

/// Time limit for instances to answer by ssh, seconds, in a request made from an order. It has no effect, because nothing waits for instances that
/// are to be ended.
const READY_LIMIT_S: f64 = 300.0;

/// The instances that a site requests, and their account.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetRequest {
    /// Region and credentials.
    pub account: Account,
    /// The instances.
    pub instances: InstanceSpec,
    /// Digest of the instances' configuration. Campaigns with equal digests can use each other's kept instances.
    pub config_digest: String,
    /// What replaces reclaimed instances.
    pub on_interruption: OnInterruption,
}

impl FleetRequest {
    /// Returns the request of an EC2 site.
    pub fn of(settings: &Ec2Settings) -> Self {
        Self {
            account: Account::of(settings),
            instances: settings.instances.clone(),
            config_digest: config_digest(settings),
            on_interruption: settings.on_interruption,
        }
    }

    /// Returns a request made from an order of the journal. It has enough to find and end the instances of the order.
    pub fn of_order(order: &LaunchOrder) -> Self {
        Self {
            account: Account::of_order(order),
            instances: InstanceSpec {
                instance_types: vec![order.instance_type.clone()],
                nodes: order.count,
                zones: order.zone.iter().cloned().collect(),
                subnet: order.subnet.clone(),
                image: Image::Id(order.image.clone()),
                market: if order.spot {
                    Market::Spot
                } else {
                    Market::OnDemand
                },
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
            },
            config_digest: order.config_digest.clone().unwrap_or_default(),
            on_interruption: OnInterruption::default(),
        }
    }
}

/// Returns a digest of the instances' configuration. The number of instances and their lifetime are not included.
fn config_digest(settings: &Ec2Settings) -> String {
    let instances = InstanceSpec {
        nodes: 0,
        lifetime_s: 0.0,
        ready_limit_s: 0.0,
        ..settings.instances.clone()
    };
    let compared = Ec2Settings {
        instances,
        keep_s: None,
        install: false,
        on_interruption: OnInterruption::default(),
        ..settings.clone()
    };
    short_digest(canonical_json(&compared).as_bytes())
}
