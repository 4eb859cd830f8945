//! What one node of a site costs, and of what parts.

use super::{
    book::{DiskSize, PriceBook},
    price::{Price, PriceFrom, UnknownPrice},
};
use crate::{
    cloud::Instance,
    ids::RunId,
    record::{Record, Source, Unit, names},
    spec::{Ec2Settings, Market, PriceSettings, Site},
};
use serde::{Deserialize, Serialize};

/// The least that is billed for an instance.
pub const LEAST_S: f64 = 60.0;
/// Root volume where neither the campaign file nor the image says its size: that of the images that cvc knows.
pub const ROOT_GIB: u32 = 8;

/// What one node costs, while it is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRate {
    /// US dollars for an hour of one node, all parts together.
    pub usd_per_hour: f64,
    /// Of what it consists; the first part is the machine itself.
    pub parts: Vec<RatePart>,
    /// The least that is billed of one node, seconds.
    pub least_s: f64,
}

/// A part of what a node costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatePart {
    /// Of what, as in `c5.xlarge`, `root volume`.
    pub what: String,
    /// How much.
    #[serde(flatten)]
    pub price: Price,
}

impl NodeRate {
    fn new(parts: Vec<RatePart>, least_s: f64) -> Self {
        Self { usd_per_hour: parts.iter().map(|p| p.price.usd_per_hour).sum(), parts, least_s }
    }

    /// US dollars for so long on so many nodes: the share of a run, which has its nodes to itself but is not billed by itself.
    pub fn cost_of(&self, seconds: f64, nodes: u32) -> f64 {
        self.usd_per_hour * seconds.max(0.0) / 3600.0 * f64::from(nodes)
    }

    /// US dollars that are billed for nodes which are there for so long.
    pub fn billed(&self, seconds: f64, nodes: u32) -> f64 {
        self.cost_of(seconds.max(self.least_s), nodes)
    }

    /// Where the price of the machine itself is from, with its date.
    pub fn source(&self) -> String {
        self.parts.first().map(|p| p.price.source()).unwrap_or_default()
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

    /// Whether a part is the most that may be asked and not what is expected.
    pub fn is_at_most(&self) -> bool {
        self.parts.iter().any(|p| p.price.at_most)
    }

    /// What the user says of a site, whose nodes have so many cores; `None` where the user says nothing, or where it depends on cores that
    /// are not known.
    pub fn of_settings(price: &PriceSettings, cores: Option<u32>) -> Option<Self> {
        let part = |what: String, usd: f64| Self::new(vec![RatePart { what, price: Price::new(usd, PriceFrom::Campaign) }], 0.0);
        match (price.per_node_hour_usd, price.per_core_hour_usd, cores) {
            (Some(usd), _, _) => Some(part("node".into(), usd)),
            (None, Some(usd), Some(cores)) => Some(part(format!("{cores} cores"), usd * f64::from(cores))),
            (None, Some(_), None) | (None, None, _) => None,
        }
    }

    /// An instance of this type for a site, with its disks and its address. `root_gib` is the size of the root volume where the campaign file
    /// does not say it: that of the image.
    pub fn of_instance(
        book: &PriceBook,
        settings: &Ec2Settings,
        instance_type: &str,
        spot: bool,
        root_gib: Option<u32>,
    ) -> Result<Self, UnknownPrice> {
        let region = settings.region.as_str();
        let machine = if spot {
            book.spot(region, instance_type, &settings.zones, settings.max_price_usd)?
        } else {
            book.on_demand(region, instance_type)?
        };
        let market = if spot { " (spot)" } else { "" };
        let mut parts = vec![RatePart { what: format!("{instance_type}{market}"), price: machine }];
        if let Some(credits) = book.credits(instance_type) {
            parts.push(RatePart { what: "processor credits if always busy".into(), price: credits });
        }
        let root = DiskSize {
            kind: &settings.root.kind,
            gib: settings.root.size_gib.or(root_gib).unwrap_or(ROOT_GIB),
            iops: settings.root.iops,
            throughput_mib_s: settings.root.throughput_mib_s,
        };
        parts.push(RatePart { what: format!("root volume, {} of {} GiB", root.kind, root.gib), price: book.disk(region, &root)? });
        for volume in &settings.volumes {
            let disk = DiskSize { kind: &volume.kind, gib: volume.size_gib, iops: volume.iops, throughput_mib_s: volume.throughput_mib_s };
            let what = format!("{}, {} of {} GiB", volume.mount, disk.kind, disk.gib);
            parts.push(RatePart { what, price: book.disk(region, &disk)? });
        }
        parts.push(RatePart { what: "public IPv4 address".into(), price: book.address() });
        Ok(Self::new(parts, LEAST_S))
    }

    /// What a node of a fleet costs that was launched: of several types the dearest, as an upper bound. `None` if one of the prices is not known.
    pub fn of_fleet(book: &PriceBook, settings: &Ec2Settings, machines: &[Instance], root_gib: Option<u32>) -> Option<Self> {
        let mut rates = Vec::new();
        for machine in machines {
            let zones = vec![machine.zone.clone()];
            let there = Ec2Settings { zones, ..settings.clone() };
            rates.push(Self::of_instance(book, &there, &machine.instance_type, machine.spot, root_gib).ok()?);
        }
        let mixed = rates.iter().any(|r| r.usd_per_hour != rates[0].usd_per_hour);
        let dearest = rates.into_iter().max_by(|a, b| a.usd_per_hour.total_cmp(&b.usd_per_hour))?;
        Some(if mixed { dearest.at_most() } else { dearest })
    }

    /// What a run has cost, which had so many nodes for so long.
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

    /// What a node of a site is expected to cost before there is one: an instance of the first type that the site names. Where spot instances
    /// may give way to others, it is the price of those. `None` where a site has no price.
    pub fn planned(book: &PriceBook, site: &Site, cores: Option<u32>) -> Result<Option<Self>, UnknownPrice> {
        let Some(ec2) = &site.ec2 else {
            return match (Self::of_settings(&site.price, cores), site.price.per_core_hour_usd) {
                (None, Some(_)) => Err(UnknownPrice::Cores),
                (rate, _) => Ok(rate),
            };
        };
        let Some(first) = ec2.instance_types.first() else { return Ok(None) };
        let rate = Self::of_instance(book, ec2, first, ec2.market == Market::Spot, None)?;
        let may_give_way = ec2.market == Market::SpotThenOnDemand;
        Ok(Some(if may_give_way { rate.at_most() } else { rate }))
    }

    /// The same, as an upper bound.
    fn at_most(mut self) -> Self {
        if let Some(machine) = self.parts.first_mut() {
            machine.price.at_most = true;
        }
        self
    }

    /// The dearest of the types that a site may get, for a budget; `None` where none of their prices is known or the site has no price.
    pub fn dearest(book: &PriceBook, site: &Site, cores: Option<u32>) -> Option<Self> {
        let Some(ec2) = &site.ec2 else { return Self::of_settings(&site.price, cores) };
        let spot = ec2.market == Market::Spot;
        let rates = ec2.instance_types.iter().filter_map(|name| Self::of_instance(book, ec2, name, spot, None).ok());
        rates.max_by(|a, b| a.usd_per_hour.total_cmp(&b.usd_per_hour))
    }
}
