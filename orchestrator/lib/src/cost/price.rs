//! A price, and where it is from.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a price is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PriceFrom {
    /// `[sites.NAME.price]` of the campaign file.
    Campaign,
    /// The table that cvc ships.
    Shipped {
        /// Of which day its figures are.
        date: Date,
    },
    /// The cloud's price list.
    List {
        /// When it was asked.
        date: Date,
    },
    /// The history of the spot market.
    Spot {
        /// Since when it holds.
        date: Date,
        /// Zone.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        zone: Option<String>,
    },
}

impl PriceFrom {
    /// Of which day it is; `None` where the user says it.
    pub fn date(&self) -> Option<Date> {
        match self {
            Self::Campaign => None,
            Self::Shipped { date } | Self::List { date } | Self::Spot { date, .. } => Some(*date),
        }
    }
}

impl fmt::Display for PriceFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Campaign => write!(f, "campaign file"),
            Self::Shipped { date } => write!(f, "shipped table of {date}"),
            Self::List { date } => write!(f, "price list of {date}"),
            Self::Spot { date, zone: Some(zone) } => write!(f, "spot history of {date} in {zone}"),
            Self::Spot { date, zone: None } => write!(f, "spot history of {date}"),
        }
    }
}

/// US dollars for an hour, and where they are from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// US dollars for an hour.
    pub usd_per_hour: f64,
    /// Where it is from.
    pub from: PriceFrom,
    /// Whether it is the most that may be asked and not what is expected: the price on demand of an instance of the spot market.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most: bool,
    /// Whether it is old, so that another may hold by now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

impl Price {
    /// A price that is expected and not old.
    pub fn new(usd_per_hour: f64, from: PriceFrom) -> Self {
        Self { usd_per_hour, from, at_most: false, stale: false }
    }

    /// Source and date, and what is to be known of it.
    pub fn source(&self) -> String {
        let mut text = self.from.to_string();
        if self.at_most {
            text.push_str(", an upper bound");
        }
        if self.stale {
            text.push_str(", old");
        }
        text
    }
}

/// A price that nobody has said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPrice {
    /// Of something of a cloud.
    #[error("the price of {what} in {region} is not known")]
    Cloud {
        /// Of what, as in `c9.large`.
        what: String,
        /// Region.
        region: String,
    },
    /// Of a node that is paid by the core.
    #[error("the price of a node is not known, since it is by the core, and nobody says how many cores a node has")]
    Cores,
}

impl UnknownPrice {
    /// The mend.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Cloud { .. } => "with credentials, `cvc prices` asks the cloud's price list",
            Self::Cores => "set `cores` for the site",
        }
    }
}
