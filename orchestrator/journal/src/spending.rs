//! The cost of a campaign so far: a function of its journal.

use cvc_core::ids::{NodeName, RunId};

use crate::{CampaignState, Fetched, Lease};

use crate::price::{MIN_S, NodeRate};
use jiff::Timestamp;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The cost of a site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent {
    /// US dollars, as far as prices are known.
    pub usd: f64,
    /// Number of instances of unknown price, which are not in `usd`.
    pub unknown: u32,
    /// Number of instances, including those that are gone.
    pub instances: u32,
    /// Total time that they existed, seconds.
    pub instance_s: f64,
    /// Bytes that were fetched from them. If their price is known, it is in `usd`.
    pub fetched_bytes: u64,
}

/// Seconds added to a lifetime: an instance counts it from its boot, and takes a moment to end.
const BOOT_S: u64 = 300;

impl Spent {
    fn add(&mut self, other: &Self) {
        self.usd += other.usd;
        self.unknown += other.unknown;
        self.instances += other.instances;
        self.instance_s += other.instance_s;
        self.fetched_bytes = self.fetched_bytes.saturating_add(other.fetched_bytes);
    }

    /// Whether `usd` is complete.
    pub fn is_known(&self) -> bool {
        self.unknown == 0
    }
}

/// The cost of a cloud's lease until now, or until its end; `None` for a lease of a scheduler. Instances count from the time of their
/// request, which is at most seconds before they cost; each counts for at least a minute, until it was lost or the lease ended. A lease
/// whose launch was never answered counts too until it ends, because its instances may exist. One that is kept for a next campaign counts
/// until the end of that time.
pub fn lease_cost(lease: &Lease, now: Timestamp) -> Option<Spent> {
    let order = lease.order.as_ref()?;
    let ids = lease.instances();
    let end = lease.ended.unwrap_or(now).min(
        lease
            .kept_until
            .filter(|_| lease.ended.is_none())
            .unwrap_or(Timestamp::MAX),
    );
    // by itself an instance ends at its deadline, whenever that is noticed
    let own = order.lifetime_s.saturating_add(BOOT_S);
    let first = jiff::SignedDuration::from_secs(i64::try_from(own).unwrap_or(i64::MAX));
    let first = lease
        .acquired
        .unwrap_or(lease.intended)
        .checked_add(first)
        .unwrap_or(Timestamp::MAX);
    let last = lease.deadline.map_or(first, |d| {
        d.checked_add(jiff::SignedDuration::from_secs(BOOT_S as i64))
            .unwrap_or(d)
    });
    let end = end.min(last);
    let seconds = |until: Timestamp| until.duration_since(lease.intended).as_secs_f64().max(0.0);
    let times: Vec<f64> = if !ids.is_empty() {
        ids.iter()
            .map(|id| seconds(lease.lost.get(*id).copied().unwrap_or(end).min(end)))
            .collect()
    } else if lease.released {
        // it was refused, or it was queried and nothing was found
        Vec::new()
    } else {
        vec![seconds(end); order.count as usize]
    };
    let mut spent = Spent {
        instances: times.len() as u32,
        instance_s: times.iter().sum(),
        ..Spent::default()
    };
    match order.usd_per_hour {
        Some(usd) => {
            spent.usd = times
                .iter()
                .map(|s| usd_for(lease, usd, s.max(MIN_S)))
                .sum()
        }
        None => spent.unknown = spent.instances,
    }
    Some(spent)
}

/// The cost of an instance of a lease that exists for this time, each part of it at the price that held then.
fn usd_for(lease: &Lease, ordered_usd_per_hour: f64, seconds: f64) -> f64 {
    let begins = lease.prices.iter().map(|(since, usd)| {
        (
            since
                .duration_since(lease.intended)
                .as_secs_f64()
                .clamp(0.0, seconds),
            *usd,
        )
    });
    let mut usd = 0.0;
    let (mut from_s, mut per_hour) = (0.0, ordered_usd_per_hour);
    for (until_s, next) in begins.chain([(seconds, 0.0)]) {
        usd += (until_s - from_s) / 3600.0 * per_hour;
        (from_s, per_hour) = (until_s, next);
    }
    usd
}

/// The end of a lease's instances if nobody extends or ends them; `None` for a lease of a scheduler.
pub fn promised_until(lease: &Lease) -> Option<Timestamp> {
    let order = lease.order.as_ref()?;
    let own = jiff::SignedDuration::from_secs(i64::try_from(order.lifetime_s).unwrap_or(i64::MAX));
    // not the time in its tags, which is of the machine's clock: that of a journal may be ahead
    let first = || lease.intended.checked_add(own).unwrap_or(Timestamp::MAX);
    Some(lease.deadline.unwrap_or_else(first))
}

/// The time until which costs are counted: a clock that was set back does not make them smaller than they were.
pub fn counted_until(state: &CampaignState, now: Timestamp) -> Timestamp {
    state.span.map_or(now, |(_, last)| now.max(last))
}

/// The cost of what was fetched from the instances of a site.
pub fn fetched_cost(fetched: &Fetched) -> Spent {
    Spent {
        usd: fetched.usd.unwrap_or(0.0),
        fetched_bytes: fetched.bytes,
        ..Spent::default()
    }
}

/// The cost of a campaign's cloud leases until now, and of what was fetched from them, by site.
pub fn campaign_cost(state: &CampaignState, now: Timestamp) -> BTreeMap<String, Spent> {
    let now = counted_until(state, now);
    let mut sites: BTreeMap<String, Spent> = BTreeMap::new();
    for lease in &state.leases {
        if let Some(spent) = lease_cost(lease, now) {
            sites.entry(lease.site.to_string()).or_default().add(&spent);
        }
    }
    for (site, fetched) in &state.fetched {
        sites
            .entry(site.to_string())
            .or_default()
            .add(&fetched_cost(fetched));
    }
    sites
}

/// The cost of attempts at runs until now on sites that are billed by use, by site: all attempts, including failed and cut-off ones, each
/// with its nodes. `site_of` returns the site of a run and the number of nodes of its mapping; `rates` has the prices of nodes. A site
/// without a rate is left out.
pub fn attempts_cost(
    state: &CampaignState,
    site_of: impl Fn(&RunId) -> Option<(String, u32)>,
    rates: &BTreeMap<String, NodeRate>,
    now: Timestamp,
) -> BTreeMap<String, Spent> {
    let now = counted_until(state, now);
    let mut sites: BTreeMap<String, Spent> = BTreeMap::new();
    // attempts on the same nodes share the list of them, which may be long
    let mut counted: HashMap<*const NodeName, u32> = HashMap::new();
    // in a fixed order: sums of fractions depend on it
    for (run, history) in state.runs.iter().collect::<BTreeMap<_, _>>() {
        let Some((site, nodes)) = site_of(run) else {
            continue;
        };
        let Some(rate) = rates.get(&site) else {
            continue;
        };
        let spent = sites.entry(site).or_default();
        for attempt in &history.attempts {
            let Some(started) = attempt.started else {
                continue;
            };
            let seconds = attempt
                .ended
                .unwrap_or(now)
                .duration_since(started)
                .as_secs_f64()
                .max(0.0);
            let mut distinct = || {
                *counted
                    .entry(attempt.nodes.as_ptr())
                    .or_insert_with(|| count_distinct(&attempt.nodes))
            };
            let nodes = if attempt.nodes.is_empty() {
                nodes
            } else {
                distinct()
            };
            spent.usd += rate.cost_of(seconds, nodes);
            spent.instance_s += seconds * f64::from(nodes);
        }
    }
    sites
}

/// All sites together.
pub fn total<'a>(sites: impl IntoIterator<Item = &'a Spent>) -> Spent {
    let mut all = Spent::default();
    for spent in sites {
        all.add(spent);
    }
    all
}

/// Number of different nodes among these.
pub fn count_distinct(nodes: &[NodeName]) -> u32 {
    nodes.iter().collect::<HashSet<_>>().len() as u32
}
