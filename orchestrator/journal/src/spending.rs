//! Computes the cost of a campaign so far from its journal.

use cvc_core::ids::{NodeName, RunId};

use crate::{CampaignState, Fetched, Lease};

use crate::price::{MIN_S, NodeRate};
use jiff::Timestamp;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Cost of a site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent {
    /// US dollars, excluding resources of unknown price.
    pub usd: f64,
    /// Number of instances of unknown price, which `usd` excludes.
    pub unknown: u32,
    /// Number of instances, including lost ones.
    pub instances: u32,
    /// Total time of all instances, seconds.
    pub instance_s: f64,
    /// Bytes that were fetched from the instances. If the price of the transfer is known, `usd` includes it.
    pub fetched_bytes: u64,
}

/// Allowance for the time from an order to the instance's boot and from its deadline to its end, seconds. The instance counts its lifetime only from
/// its boot.
const BOOT_S: u64 = 300;

impl Spent {
    fn add(&mut self, other: &Self) {
        self.usd += other.usd;
        self.unknown += other.unknown;
        self.instances += other.instances;
        self.instance_s += other.instance_s;
        self.fetched_bytes = self.fetched_bytes.saturating_add(other.fetched_bytes);
    }

    /// Returns whether `usd` includes all costs, because all prices are known.
    pub fn is_known(&self) -> bool {
        self.unknown == 0
    }
}

/// Returns the cost of a cloud's lease until now, or until the lease has ended; `None` for a lease of a scheduler. Each instance is counted from the
/// time of the request, at most seconds before it costs, until it was lost or the lease ended, and for at least a minute. It ends by itself at its
/// deadline, and is not counted for longer. If the answer to a launch was lost, the instances may exist, and are counted until the lease has ended. A
/// lease that is kept for the next campaign is counted until the time for which it is kept.
pub fn lease_cost(lease: &Lease, now: Timestamp) -> Option<Spent> {
    let order = lease.order.as_ref()?;
    let ids = lease.instances();
    let end = lease.ended.unwrap_or(now).min(
        lease
            .kept_until
            .filter(|_| lease.ended.is_none())
            .unwrap_or(Timestamp::MAX),
    );
    // an instance ends by itself at its deadline, even if that is noticed later
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
        // the request was refused, or a query found no instance
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

/// Returns the cost of one instance of a lease for its first `seconds`, US dollars. Each part of this time has the price that was valid then.
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

/// Returns the time at which a lease's instances end by themselves if their deadline is not moved; `None` for a lease of a scheduler.
pub fn promised_until(lease: &Lease) -> Option<Timestamp> {
    let order = lease.order.as_ref()?;
    let own = jiff::SignedDuration::from_secs(i64::try_from(order.lifetime_s).unwrap_or(i64::MAX));
    // not the time in the tags: it is by the machine's clock, and the journal's clock may be ahead of that
    let first = || lease.intended.checked_add(own).unwrap_or(Timestamp::MAX);
    Some(lease.deadline.unwrap_or_else(first))
}

/// Returns the time until which costs are counted: `now`, or the time of the last entry if the clock was set back to before it. Costs therefore never
/// shrink.
pub fn counted_until(state: &CampaignState, now: Timestamp) -> Timestamp {
    state.span.map_or(now, |(_, last)| now.max(last))
}

/// Returns the cost of the transfers from a site's instances.
pub fn fetched_cost(fetched: &Fetched) -> Spent {
    Spent {
        usd: fetched.usd.unwrap_or(0.0),
        fetched_bytes: fetched.bytes,
        ..Spent::default()
    }
}

/// Returns the cost of a campaign by site: its cloud leases until now, and the transfers from their instances.
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

/// Returns the cost of attempts until now, by site, for sites that are billed by use. All attempts count, including failed and interrupted ones, each
/// with the nodes that it used. `site_of` returns the site of a run and the number of nodes of its mapping; `rates` has the prices of nodes by site.
/// Sites without a price are omitted.
pub fn attempts_cost(
    state: &CampaignState,
    site_of: impl Fn(&RunId) -> Option<(String, u32)>,
    rates: &BTreeMap<String, NodeRate>,
    now: Timestamp,
) -> BTreeMap<String, Spent> {
    let now = counted_until(state, now);
    let mut sites: BTreeMap<String, Spent> = BTreeMap::new();
    // attempts on the same nodes share one list, which may be long and is counted once
    let mut counted: HashMap<*const NodeName, u32> = HashMap::new();
    // in a fixed order, because floating-point sums depend on it
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

/// Returns the sum over all sites.
pub fn total<'a>(sites: impl IntoIterator<Item = &'a Spent>) -> Spent {
    let mut all = Spent::default();
    for spent in sites {
        all.add(spent);
    }
    all
}

/// Returns the number of different nodes in a list.
pub fn count_distinct(nodes: &[NodeName]) -> u32 {
    nodes.iter().collect::<HashSet<_>>().len() as u32
}
