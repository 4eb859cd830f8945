//! Computes the expected costs of a plan before anything is started, from the plan, its estimates and the price book.
//!
//! Instances are billed from their start to the end of the last run of their site. Sites that share no machine run at the same time. Sites that share
//! a machine, and all sites with `sites_in_turn`, wait for each other unless both allow runs `side_by_side`; their instances cost while they wait.
//! Boot and set-up are assumed to take [`SETUP_S`] for each block of runs. Nodes for which the user gives a price cost only while a run uses them.

use super::book::PriceBook;
use cvc_core::campaign::{Site, Spec};
use cvc_core::ids::PointId;
use cvc_core::plan::{Estimates, Plan, PointEstimate};
use cvc_core::point::Point;
use cvc_journal::price::{MIN_S, NodeRate, UnknownPrice};
use indexmap::IndexMap;
use std::collections::HashMap;

/// Time from the order of instances to the first run, seconds: one minute for booting, two for the set-up.
pub const SETUP_S: f64 = 180.0;

/// The expected cost of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteCost {
    /// Name of the site.
    pub site: String,
    /// The price of a node; `Ok(None)` if neither a cloud nor the user gives one.
    pub rate: Result<Option<NodeRate>, UnknownPrice>,
    /// Number of cloud instances; 0 on other sites.
    pub instances: u32,
    /// Whether the time of the site's runs is known. If the number of cores of the nodes is unknown, the time and the cost are unknown, too.
    pub is_timed: bool,
    /// Time for which the site's instances exist, seconds, including set-up. On sites without instances, the time of the runs.
    pub there_s: f64,
    /// Cost of the time that the site's runs use, US dollars.
    pub runs_usd: Option<f64>,
    /// Bytes transferred out of the cloud: everything that runs keep.
    pub transfer_bytes: u64,
    /// Cost of the transfer, US dollars.
    pub transfer_usd: Option<f64>,
    /// Total cost, US dollars.
    pub usd: Option<f64>,
}

impl SiteCost {
    /// Returns whether this site costs money, because it is in a cloud or the user gives a price.
    pub fn has_price(&self) -> bool {
        !matches!(self.rate, Ok(None))
    }
}

/// The expected costs of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Cost of one run of each point, US dollars, in the order of the plan; `None` if the cost is unknown or the point does not run.
    pub points: Vec<Option<f64>>,
    /// Costs of the sites with runs, in the order of the campaign file.
    pub sites: Vec<SiteCost>,
    /// Total cost of all sites that have a price, US dollars; `None` if the cost of a site is unknown.
    pub usd: Option<f64>,
    /// Whether a site has to wait until another site's runs have ended.
    pub in_turn: bool,
    /// Time from the start of the first run to the end of the last, seconds. Unknown times of runs are guessed.
    pub last_s: f64,
    /// End of the last run of each site, seconds from the start of the first run of all sites.
    pub ends_s: IndexMap<String, f64>,
}

impl Expected {
    /// Returns whether there are any costs to show.
    pub fn has_price(&self) -> bool {
        self.sites.iter().any(SiteCost::has_price)
    }

    /// Returns the total cost of all sites whose cost is known, US dollars.
    pub fn known_usd(&self) -> f64 {
        let priced = self.sites.iter().filter(|s| s.has_price());
        priced.filter_map(|s| s.usd).sum()
    }

    /// Returns the cost of a checkpoint of a point, US dollars: the price of the point's nodes while the checkpoint is written.
    pub fn of_checkpoint(&self, point: &Point, estimate: &PointEstimate) -> Option<f64> {
        estimate.known_cores?;
        let site = self.sites.iter().find(|s| s.site == point.site)?;
        let rate = site.rate.as_ref().ok()?.as_ref()?;
        Some(rate.cost_of(estimate.checkpoint_s?, point.mapping.nodes()))
    }

    /// Returns the cost of one run, US dollars, by the identifier of its point.
    pub fn of_point<'a>(&self, plan: &'a Plan) -> HashMap<&'a PointId, f64> {
        plan.points
            .iter()
            .zip(&self.points)
            .filter_map(|(p, usd)| Some((&p.id, (*usd)?)))
            .collect()
    }
}

/// Returns the number of cores of a site's node if it is known without a query: from the campaign file, or from the first instance type, where each
/// vCPU counts as a core.
pub fn known_cores(site: &Site, book: &PriceBook) -> Option<u32> {
    let message = site.cluster.as_ref().and_then(|c| c.cores);
    message.or_else(|| {
        book.facts(site.ec2.as_ref()?.instances.instance_types.first()?)
            .map(|t| t.vcpus)
    })
}

/// Returns the expected costs of a plan. `cores` returns the number of cores of a site's node, for prices per core. Points for which `runs_here`
/// returns false are excluded.
pub fn expected(
    spec: &Spec,
    plan: &Plan,
    estimates: &Estimates,
    book: &PriceBook,
    cores: impl Fn(&str) -> Option<u32>,
    runs_here: impl Fn(&PointId) -> bool,
) -> Expected {
    let rates: IndexMap<&str, _> = spec
        .sites
        .iter()
        .map(|(name, site)| {
            let cores = known_cores(site, book).or_else(|| cores(name));
            (name.as_str(), super::rate::planned_rate(book, site, cores))
        })
        .collect();
    let rate_of = |site: &str| {
        rates
            .get(site)
            .and_then(|r| r.as_ref().ok())
            .and_then(Option::as_ref)
    };
    let points: Vec<Option<f64>> = plan
        .points
        .iter()
        .zip(&estimates.points)
        .map(|(planned, estimate)| {
            estimate.known_cores?;
            let rate = rate_of(&planned.point.site).filter(|_| runs_here(&planned.id))?;
            Some(rate.cost_of(estimate.seconds, planned.point.mapping.nodes()))
        })
        .collect();
    let shares = |site: &str| {
        let cluster = spec.sites.get(site).and_then(|s| s.cluster.as_ref());
        cluster.is_some_and(|c| c.side_by_side)
    };
    let waits = |site: &str, other: &str| {
        site != other && !spec.are_apart(site, other) && !(shares(site) && shares(other))
    };
    let mut used = uses(spec, plan, estimates, &points, &runs_here, shares, waits);
    used.retain(|_, used| used.runs > 0);
    let in_turn = used
        .keys()
        .any(|site| used.keys().any(|other| waits(site, other)));
    let last_s = used.values().map(|used| used.last_s).fold(0.0, f64::max);
    let ends = used
        .iter()
        .map(|(site, used)| ((*site).to_owned(), used.last_s));
    let ends_s = ends.collect();
    let sites: Vec<SiteCost> = used
        .into_iter()
        .filter_map(|(name, used)| {
            Some(site_cost(
                name,
                spec.sites.get(name)?,
                rates.get(name)?.clone(),
                &used,
                spec.run.block_count(),
                book,
            ))
        })
        .collect();
    let priced = sites.iter().filter(|s| s.has_price());
    let usd = priced.map(|s| s.usd).sum::<Option<f64>>();
    Expected {
        points,
        usd,
        sites,
        in_turn,
        last_s,
        ends_s,
    }
}

/// Returns for each site how the runs of a plan use it.
fn uses<'a>(
    spec: &'a Spec,
    plan: &Plan,
    estimates: &Estimates,
    points_usd: &[Option<f64>],
    runs_here: impl Fn(&PointId) -> bool,
    shares: impl Fn(&str) -> bool,
    waits: impl Fn(&str, &str) -> bool,
) -> IndexMap<&'a str, Use> {
    let by_id: HashMap<&PointId, usize> = plan
        .points
        .iter()
        .enumerate()
        .map(|(i, p)| (&p.id, i))
        .collect();
    let sites = spec.sites.keys();
    let mut all: IndexMap<&str, Use> = sites.map(|name| (name.as_str(), Use::default())).collect();
    for run in plan.runs.iter().filter(|r| runs_here(&r.point)) {
        let Some(&number) = by_id.get(&run.point) else {
            continue;
        };
        let (point, estimate) = (&plan.points[number].point, &estimates.points[number]);
        let site = point.site.as_str();
        let others_end_s = all
            .iter()
            .filter(|(other, _)| waits(site, other))
            .map(|(_, other)| other.last_s)
            .fold(0.0, f64::max);
        let Some(used) = all.get_mut(site) else {
            continue;
        };
        used.runs += 1;
        used.is_untimed |= estimate.known_cores.is_none();
        used.run_s += estimate.seconds;
        used.nodes = used.nodes.max(point.mapping.nodes());
        if shares(site) {
            // if the number of nodes is unknown, the largest mapping determines it
            let all = spec
                .sites
                .get(site)
                .map_or(Some(1), Site::known_nodes)
                .unwrap_or(used.nodes);
            used.place(
                others_end_s,
                estimate.seconds,
                point.mapping.nodes() as usize,
                all as usize,
            );
        } else {
            used.last_s = used.last_s.max(others_end_s) + estimate.seconds;
        }
        used.runs_usd += points_usd[number].unwrap_or(0.0);
        used.bytes += estimate.kept_bytes;
    }
    all
}

/// How its runs use a site.
#[derive(Default)]
struct Use {
    runs: u64,
    /// Whether the time of a run is unknown.
    is_untimed: bool,
    run_s: f64,
    /// End of the last run, seconds from the start of the first run of all sites.
    last_s: f64,
    nodes: u32,
    runs_usd: f64,
    bytes: u64,
    /// For each node, the time at which it becomes free, seconds. Used if several runs may be active at the same time.
    free_s: Vec<f64>,
}

impl Use {
    /// Assigns a run of `seconds` to the nodes that become free first. The run begins not before `from_s`.
    fn place(&mut self, from_s: f64, seconds: f64, nodes: usize, all: usize) {
        self.free_s.resize(all.max(nodes), 0.0);
        self.free_s.sort_by(f64::total_cmp);
        let end = self.free_s[nodes.saturating_sub(1)].max(from_s) + seconds;
        self.free_s[..nodes].fill(end);
        self.last_s = self.last_s.max(end);
    }
}

fn site_cost(
    name: &str,
    site: &Site,
    rate: Result<Option<NodeRate>, UnknownPrice>,
    used: &Use,
    launches: u32,
    book: &PriceBook,
) -> SiteCost {
    let node = rate
        .as_ref()
        .ok()
        .and_then(Option::as_ref)
        .filter(|_| !used.is_untimed);
    let mut cost = SiteCost {
        site: name.to_owned(),
        instances: 0,
        is_timed: !used.is_untimed,
        there_s: used.run_s,
        runs_usd: node.map(|_| used.runs_usd),
        transfer_bytes: 0,
        transfer_usd: None,
        usd: node.map(|_| used.runs_usd),
        rate: Ok(None),
    };
    if let Some(ec2) = &site.ec2 {
        let side_by_side = site.cluster.as_ref().is_some_and(|c| c.side_by_side);
        cost.instances = if side_by_side {
            ec2.instances.nodes
        } else {
            used.nodes.min(ec2.instances.nodes)
        };
        cost.there_s = (SETUP_S * f64::from(launches) + used.last_s).max(MIN_S);
        cost.transfer_bytes = used.bytes;
        cost.transfer_usd = if used.bytes == 0 {
            Some(0.0)
        } else {
            book.transfer(&ec2.region, used.bytes).ok()
        };
        let instances = node.map(|rate| rate.billed(cost.there_s, cost.instances));
        cost.usd = instances.zip(cost.transfer_usd).map(|(a, b)| a + b);
    }
    cost.rate = rate;
    cost
}
