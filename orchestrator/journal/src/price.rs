//! Prices and their sources.

use cvc_core::campaign::PriceSettings;

use cvc_core::ids::RunId;

use cvc_core::record::{Record, Source, Unit, names};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a price comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PriceFrom {
    /// `[sites.NAME.price]` of the campaign file.
    Campaign,
    /// The table that is shipped with cvc.
    Shipped {
        /// Date of the table's figures.
        date: Date,
    },
    /// The cloud's price list.
    List {
        /// Date of the query.
        date: Date,
    },
    /// The history of the spot market.
    Spot {
        /// Date since which the price holds.
        date: Date,
        /// Zone of the price.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        zone: Option<String>,
    },
}

impl PriceFrom {
    /// Returns the date of the price; `None` if the price is stated in the campaign file.
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
            Self::Spot {
                date,
                zone: Some(zone),
            } => write!(f, "spot history of {date} in {zone}"),
            Self::Spot { date, zone: None } => write!(f, "spot history of {date}"),
        }
    }
}

/// A price per hour, with its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// US dollars per hour.
    pub usd_per_hour: f64,
    /// Source of the price.
    pub from: PriceFrom,
    /// Whether the price is an upper bound instead of the expected price, for example the on-demand price for a spot instance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most: bool,
    /// Whether the price is old, so that it may have changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

impl Price {
    /// Returns a price that is certain: neither an upper bound nor old.
    pub fn new(usd_per_hour: f64, from: PriceFrom) -> Self {
        Self {
            usd_per_hour,
            from,
            at_most: false,
            stale: false,
        }
    }

    /// Returns the source and the date of the price as text, with a remark if the price is an upper bound or old.
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

/// Why a price is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPrice {
    /// The price of a cloud resource is unknown.
    #[error("unknown price of {what} in {region}")]
    Cloud {
        /// The resource, as in `c9.large`.
        what: String,
        /// Region.
        region: String,
    },
    /// The user gives a price per core, and the number of cores of the node is unknown.
    #[error("the node price is per core, and `cores` is not set")]
    Cores,
}

impl UnknownPrice {
    /// Returns how to correct the problem.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Cloud { .. } => "with credentials, `cvc prices` queries the cloud's price list",
            Self::Cores => "set `cores` for the site",
        }
    }
}

/// Minimum time for which an instance is billed, seconds.
pub const MIN_S: f64 = 60.0;

/// Price of one node for the time that it exists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRate {
    /// US dollars per hour for one node, the sum of all parts.
    pub usd_per_hour: f64,
    /// Parts of the price; the first part is the machine itself.
    pub parts: Vec<RatePart>,
    /// Minimum time for which one node is billed, seconds.
    pub least_s: f64,
}

/// A part of a node's price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatePart {
    /// The resource, as in `c5.xlarge` or `root volume`.
    pub what: String,
    /// Price of the part.
    #[serde(flatten)]
    pub price: Price,
}

impl NodeRate {
    /// Returns the price that consists of these parts. `least_s` is the minimum billed time, seconds.
    pub fn new(parts: Vec<RatePart>, least_s: f64) -> Self {
        Self {
            usd_per_hour: parts.iter().map(|p| p.price.usd_per_hour).sum(),
            parts,
            least_s,
        }
    }

    /// Returns the cost of using `nodes` nodes for `seconds`, US dollars, without a minimum. This is the cost of a run: it has its nodes to itself,
    /// and is not billed separately.
    pub fn cost_of(&self, seconds: f64, nodes: u32) -> f64 {
        self.usd_per_hour * seconds.max(0.0) / 3600.0 * f64::from(nodes)
    }

    /// Returns the amount that is billed for `nodes` nodes that exist for `seconds`, US dollars, including the minimum.
    pub fn billed(&self, seconds: f64, nodes: u32) -> f64 {
        self.cost_of(seconds.max(self.least_s), nodes)
    }

    /// Returns the source and date of the machine's own price.
    pub fn source(&self) -> String {
        self.parts
            .first()
            .map(|p| p.price.source())
            .unwrap_or_default()
    }

    /// Returns the sources of all parts, each once, in the order of the parts.
    pub fn sources(&self) -> Vec<String> {
        let mut all = Vec::new();
        for price in self.parts.iter().map(|p| &p.price) {
            let source = format!("{}{}", price.from, if price.stale { ", old" } else { "" });
            if !all.contains(&source) {
                all.push(source);
            }
        }
        all
    }

    /// Returns whether the price of a part is an upper bound instead of the expected price.
    pub fn is_at_most(&self) -> bool {
        self.parts.iter().any(|p| p.price.at_most)
    }

    /// Returns the user's price for a site whose nodes have this many cores. `None` if the user gives no price, or if the price depends on an unknown
    /// number of cores.
    pub fn of_settings(price: &PriceSettings, cores: Option<u32>) -> Option<Self> {
        let part = |what: String, usd: f64| {
            Self::new(
                vec![RatePart {
                    what,
                    price: Price::new(usd, PriceFrom::Campaign),
                }],
                0.0,
            )
        };
        match (price.per_node_hour_usd, price.per_core_hour_usd, cores) {
            (Some(usd), _, _) => Some(part("node".into(), usd)),
            (None, Some(usd), Some(cores)) => {
                Some(part(format!("{cores} cores"), usd * f64::from(cores)))
            }
            (None, Some(_), None) | (None, None, _) => None,
        }
    }

    /// Returns the record of the cost of a run.
    pub fn record(&self, run: &RunId, seconds: f64, nodes: u32) -> Record {
        let labels = [
            ("nodes", nodes.to_string()),
            ("seconds", format!("{seconds:.3}")),
            ("usd_per_node_hour", self.usd_per_hour.to_string()),
            ("price", self.source()),
        ];
        Record {
            run: run.clone(),
            name: names::COST_USD.to_owned(),
            value: self.cost_of(seconds, nodes),
            unit: Unit::Usd,
            source: Source::Price,
            artefact: None,
            labels: labels.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
        }
    }

    /// Returns this rate marked as an upper bound.
    pub fn at_most(mut self) -> Self {
        if let Some(machine) = self.parts.first_mut() {
            machine.price.at_most = true;
        }
        self
    }
}
