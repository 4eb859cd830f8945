//! What a campaign has cost so far: a function of its journal.

use crate::{
    ids::{NodeName, RunId},
    journal::{CampaignState, Lease},
    price::{LEAST_S, NodeRate},
};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// What a site has cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent {
    /// US dollars, as far as they are known.
    pub usd: f64,
    /// Instances whose price is not known, so that they are not in `usd`.
    pub unknown: u32,
    /// Instances, those that are gone included.
    pub instances: u32,
    /// Seconds that they were there, all together.
    pub instance_s: f64,
}

/// Seconds added to a lifetime: an instance counts it from its boot, and takes a moment to end.
const BOOT_S: u64 = 300;

impl Spent {
    fn add(&mut self, other: &Self) {
        self.usd += other.usd;
        self.unknown += other.unknown;
        self.instances += other.instances;
        self.instance_s += other.instance_s;
    }

    /// Whether `usd` is all of it.
    pub fn is_known(&self) -> bool {
        self.unknown == 0
    }
}

/// What a cloud's lease has cost until now, or until its end; `None` for a lease of a scheduler. Instances count from the moment when they were
/// asked for, which is at most seconds before they cost; each counts for a minute at least, until it was lost or the lease ended. A lease whose
/// launch was never answered counts too, as long as it has not ended: its instances may be there. One that is kept for a next campaign counts
/// until the end of that time.
pub fn lease_cost(lease: &Lease, now: Timestamp) -> Option<Spent> {
    let order = lease.order.as_ref()?;
    let ids = lease.instances();
    let end = lease.ended.unwrap_or(now).min(lease.kept_until.filter(|_| lease.ended.is_none()).unwrap_or(Timestamp::MAX));
    // by itself an instance ends at its deadline, whenever that is noticed
    let own = order.lifetime_s.saturating_add(BOOT_S);
    let first = jiff::SignedDuration::from_secs(i64::try_from(own).unwrap_or(i64::MAX));
    let first = lease.acquired.unwrap_or(lease.intended).checked_add(first).unwrap_or(Timestamp::MAX);
    let last = lease.deadline.map_or(first, |d| d.checked_add(jiff::SignedDuration::from_secs(BOOT_S as i64)).unwrap_or(d));
    let end = end.min(last);
    let seconds = |until: Timestamp| until.duration_since(lease.intended).as_secs_f64().max(0.0);
    let times: Vec<f64> = if !ids.is_empty() {
        ids.iter().map(|id| seconds(lease.lost.get(*id).copied().unwrap_or(end).min(end))).collect()
    } else if lease.released {
        // it was refused, or it was looked for and nothing was there
        Vec::new()
    } else {
        vec![seconds(end); order.count as usize]
    };
    let mut spent = Spent { instances: times.len() as u32, instance_s: times.iter().sum(), ..Spent::default() };
    match order.usd_per_hour {
        Some(usd) => spent.usd = times.iter().map(|s| s.max(LEAST_S) / 3600.0 * usd).sum(),
        None => spent.unknown = spent.instances,
    }
    Some(spent)
}

/// What the leases of a campaign have cost until now, by site; only clouds have such leases.
pub fn campaign_cost(state: &CampaignState, now: Timestamp) -> BTreeMap<String, Spent> {
    let mut sites: BTreeMap<String, Spent> = BTreeMap::new();
    for lease in &state.leases {
        if let Some(spent) = lease_cost(lease, now) {
            sites.entry(lease.site.to_string()).or_default().add(&spent);
        }
    }
    sites
}

/// What the attempts at runs have cost until now on sites that are billed by use, by site: all attempts, also those that failed or were cut off,
/// each with the nodes that it was given. `site_of` says the site of a run and how many nodes its mapping has; `rates` what nodes cost there. A
/// site without a rate does not occur.
pub fn attempts_cost(
    state: &CampaignState,
    site_of: impl Fn(&RunId) -> Option<(String, u32)>,
    rates: &BTreeMap<String, NodeRate>,
    now: Timestamp,
) -> BTreeMap<String, Spent> {
    let mut sites: BTreeMap<String, Spent> = BTreeMap::new();
    // in a fixed order: sums of fractions depend on it
    for (run, history) in state.runs.iter().collect::<BTreeMap<_, _>>() {
        let Some((site, nodes)) = site_of(run) else { continue };
        let Some(rate) = rates.get(&site) else { continue };
        let spent = sites.entry(site).or_default();
        for attempt in &history.attempts {
            let Some(started) = attempt.started else { continue };
            let seconds = attempt.ended.unwrap_or(now).duration_since(started).as_secs_f64().max(0.0);
            let nodes = if attempt.nodes.is_empty() { nodes } else { distinct(&attempt.nodes) };
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

fn distinct(nodes: &[NodeName]) -> u32 {
    nodes.iter().collect::<std::collections::BTreeSet<_>>().len() as u32
}
