//! A price and its source.

use cvc_core::campaign::PriceSettings;

use cvc_core::ids::RunId;

use cvc_core::record::{Record, Source, Unit, names};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Source of a price.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PriceFrom {
    /// `[sites.NAME.price]` of the campaign file.
    Campaign,
    /// The table that cvc ships.
    Shipped {
        /// Date of its figures.
        date: Date,
    },
    /// The cloud's price list.
    List {
        /// When it was queried.
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
    /// The day of the price; `None` if the user states it.
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

/// US dollars for an hour, and where they are from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// US dollars for an hour.
    pub usd_per_hour: f64,
    /// Where it is from.
    pub from: PriceFrom,
    /// Whether it is an upper bound instead of the expected price: the on-demand price of a spot instance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most: bool,
    /// Whether it is old and may have changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

impl Price {
    /// A price that is neither an upper bound nor old.
    pub fn new(usd_per_hour: f64, from: PriceFrom) -> Self {
        Self {
            usd_per_hour,
            from,
            at_most: false,
            stale: false,
        }
    }

    /// Source and date, with remarks.
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

/// An unknown price.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPrice {
    /// Of something of a cloud.
    #[error("unknown price of {what} in {region}")]
    Cloud {
        /// Of what, as in `c9.large`.
        what: String,
        /// Region.
        region: String,
    },
    /// Of a node that is paid by the core.
    #[error("the node price is per core, and `cores` is not set")]
    Cores,
}

impl UnknownPrice {
    /// The hint.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Cloud { .. } => "with credentials, `cvc prices` asks the cloud's price list",
            Self::Cores => "set `cores` for the site",
        }
    }
}

/// Minimum number of seconds billed for an instance.
pub const MIN_S: f64 = 60.0;

/// The price of one node while it exists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRate {
    /// US dollars for an hour of one node, all parts together.
    pub usd_per_hour: f64,
    /// Its parts; the first one is the machine itself.
    pub parts: Vec<RatePart>,
    /// Minimum time billed for one node, seconds.
    pub least_s: f64,
}

/// A part of a node's price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatePart {
    /// Of what, as in `c5.xlarge`, `root volume`.
    pub what: String,
    /// How much.
    #[serde(flatten)]
    pub price: Price,
}

impl NodeRate {
    /// The rate that these parts sum up to.
    pub fn new(parts: Vec<RatePart>, least_s: f64) -> Self {
        Self {
            usd_per_hour: parts.iter().map(|p| p.price.usd_per_hour).sum(),
            parts,
            least_s,
        }
    }

    /// US dollars for a time on a number of nodes: the share of a run, which has its nodes to itself but is not billed separately.
    pub fn cost_of(&self, seconds: f64, nodes: u32) -> f64 {
        self.usd_per_hour * seconds.max(0.0) / 3600.0 * f64::from(nodes)
    }

    /// US dollars that are billed for nodes that exist for this time.
    pub fn billed(&self, seconds: f64, nodes: u32) -> f64 {
        self.cost_of(seconds.max(self.least_s), nodes)
    }

    /// The source of the machine's own price, with its date.
    pub fn source(&self) -> String {
        self.parts
            .first()
            .map(|p| p.price.source())
            .unwrap_or_default()
    }

    /// All sources, each once, in the order of the parts.
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

    /// Whether a part is an upper bound instead of the expected price.
    pub fn is_at_most(&self) -> bool {
        self.parts.iter().any(|p| p.price.at_most)
    }

    /// The user's price of a site whose nodes have this many cores; `None` if there is none, or if it depends on an unknown number of
    /// cores.
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

    /// The record of a run's cost.
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

    /// The same, as an upper bound.
    pub fn at_most(mut self) -> Self {
        if let Some(machine) = self.parts.first_mut() {
            machine.price.at_most = true;
        }
        self
    }
}
