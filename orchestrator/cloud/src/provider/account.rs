//! Region and credentials for calls to a cloud.

use cvc_core::campaign::Ec2Settings;

use cvc_journal::lease::LaunchOrder;
use serde::{Deserialize, Serialize};

/// Region and credentials for calls to a cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Account {
    /// Region; `None` for the region of the user's environment or profile.
    pub region: Option<String>,
    /// Profile of the user's AWS configuration.
    pub profile: Option<String>,
    /// Endpoint of a compatible or test cloud, instead of the cloud's own.
    pub endpoint: Option<String>,
}

impl Account {
    /// Returns the account that a site's settings name.
    pub fn of(settings: &Ec2Settings) -> Self {
        Self {
            region: Some(settings.region.clone()),
            profile: settings.profile.clone(),
            endpoint: settings.endpoint.clone(),
        }
    }

    /// Returns the account in which an order was placed.
    pub fn of_order(order: &LaunchOrder) -> Self {
        Self {
            region: Some(order.region.clone()),
            profile: order.profile.clone(),
            endpoint: order.endpoint.clone(),
        }
    }
}
