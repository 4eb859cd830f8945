//! Region and credentials for calls to a cloud.

use cvc_core::campaign::Ec2Settings;

use cvc_journal::lease::LaunchOrder;
use serde::{Deserialize, Serialize};

/// Region and credentials for calls to a cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Account {
    /// Region; `None` for the one of the user's environment or profile.
    pub region: Option<String>,
    /// Profile of the user's AWS configuration.
    pub profile: Option<String>,
    /// Address of a compatible cloud or a test's, instead of the cloud's own.
    pub endpoint: Option<String>,
}

impl Account {
    /// The account of a site.
    pub fn of(settings: &Ec2Settings) -> Self {
        Self {
            region: Some(settings.region.clone()),
            profile: settings.profile.clone(),
            endpoint: settings.endpoint.clone(),
        }
    }

    /// The account of an order.
    pub fn of_order(order: &LaunchOrder) -> Self {
        Self {
            region: Some(order.region.clone()),
            profile: order.profile.clone(),
            endpoint: order.endpoint.clone(),
        }
    }
}
