//! What a site requests from a cloud, in terms of no particular cloud. Made once, from the settings of the campaign file or from an order
//! of the journal, which nothing else has to know.

use super::account::Account;
use cvc_core::campaign::{Ec2Settings, Image, InstanceSpec, Market};
use cvc_core::ids::{canonical_json, short_digest};
use cvc_journal::lease::LaunchOrder;

/// Time limit for ssh to answer on instances of an order, seconds; unused, since nobody waits for them.
const READY_LIMIT_S: f64 = 300.0;

/// The instances that a site wants, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetRequest {
    /// Region and credentials.
    pub account: Account,
    /// The instances.
    pub instances: InstanceSpec,
    /// Digest of the instances' configuration: a campaign with the same digest can use them.
    pub config_digest: String,
}

impl FleetRequest {
    /// The request of an EC2 site.
    pub fn of(settings: &Ec2Settings) -> Self {
        Self {
            account: Account::of(settings),
            instances: settings.instances.clone(),
            config_digest: config_digest(settings),
        }
    }

    /// The request from an order of the journal: enough to find and end its instances.
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
        }
    }
}

/// A digest of the instances' configuration. Their number and lifetime do not matter.
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
        ..settings.clone()
    };
    short_digest(canonical_json(&compared).as_bytes())
}
