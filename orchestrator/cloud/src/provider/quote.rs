//! One price of a cloud, as its own list gives it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A price of the cloud's own list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quote {
    /// Instance type.
    pub instance_type: String,
    /// Region.
    pub region: String,
    /// Zone, of spot prices.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub zone: Option<String>,
    /// Whether it is the spot market's.
    pub spot: bool,
    /// US dollars for an hour of one instance.
    pub usd_per_hour: f64,
    /// When it was asked for; of spot prices, since when it holds.
    pub at: Timestamp,
    /// When it was asked for; `None` in files of older versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked: Option<Timestamp>,
}

impl Quote {
    /// The last time at which it is known to have held.
    pub fn held_at(&self) -> Timestamp {
        self.asked.unwrap_or(self.at)
    }
}
