//! A price as a cloud's own price list gives it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A price from a cloud's own price list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quote {
    /// Instance type.
    pub instance_type: String,
    /// Region.
    pub region: String,
    /// Zone, for spot prices.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub zone: Option<String>,
    /// Whether the price is a spot price.
    pub spot: bool,
    /// Price of one instance for an hour, US dollars.
    pub usd_per_hour: f64,
    /// Time of the query; for a spot price, the time since which the market has had this price.
    pub at: Timestamp,
    /// Time of the query, also for spot prices; `None` in files of older versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked: Option<Timestamp>,
}

impl Quote {
    /// Returns the latest time at which the market is known to have had this price.
    pub fn held_at(&self) -> Timestamp {
        self.asked.unwrap_or(self.at)
    }
}
