//! Where calls go, and in whose name.

use cvc_core::{campaign::Ec2Settings, lease::LaunchOrder};
use serde::{Deserialize, Serialize};

/// Where calls go, and in whose name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Account {
    /// Region; `None` is what the user's environment and profile say.
    pub region: Option<String>,
    /// Profile of the user's AWS configuration.
    pub profile: Option<String>,
    /// Instead of the cloud's own addresses: a compatible cloud, or a test's.
    pub endpoint: Option<String>,
}

impl Account {
    /// The account of a site.
    pub fn of(settings: &Ec2Settings) -> Self {
        Self { region: Some(settings.region.clone()), profile: settings.profile.clone(), endpoint: settings.endpoint.clone() }
    }

    /// The account of an order.
    pub fn of_order(order: &LaunchOrder) -> Self {
        Self { region: Some(order.region.clone()), profile: order.profile.clone(), endpoint: order.endpoint.clone() }
    }
}
