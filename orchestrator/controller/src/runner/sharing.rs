//! Sets the time until which the budget pays for each fleet.

use super::{fleet_end::share_of, resources::Resources};
use cvc_cloud::cost;
use cvc_core::clock;

impl Resources<'_> {
    /// Gives each fleet its share of the rest of the budget. If cvc dies, all fleets then end by themselves before the budget is used up.
    pub(super) fn share_budget(&self) {
        let Some(limit) = self
            .budget
            .limit()
            .filter(|_| !self.sites.fleets.is_empty())
        else {
            return;
        };
        let view = self.budget_view();
        let left_usd = limit.usd - view.spent_after(0.0);
        let (pending, by_use_per_s) = (self.pending_fleets(), view.by_use_per_s());
        let at = clock::now();
        for (site, fleet) in &self.sites.fleets {
            fleet.set_budget_share(Some(share_of(
                site,
                at,
                left_usd,
                &view.state.leases,
                &pending,
                by_use_per_s,
            )));
        }
    }

    /// Returns the sites whose instances have not been launched yet, each with its future cost per second, US dollars. They get a share of the budget
    /// although their instances do not exist yet.
    fn pending_fleets(&self) -> Vec<(String, f64)> {
        let state = self.record.state();
        let is_pending = |name: &&String| !self.sites.is_open(name) && !self.closing.has(name);
        let clouds = self
            .record
            .spec
            .sites
            .iter()
            .filter(|(name, site)| site.ec2.is_some() && is_pending(name));
        let mut pending = Vec::new();
        for (name, site) in clouds {
            let waiting = self.record.scheduler.open_runs(state, |s| s == name);
            let nodes = waiting
                .iter()
                .filter_map(|r| Some(self.record.scheduler.point(&r.point)?.mapping.nodes()))
                .max();
            let Some(nodes) = nodes.map(|n| site.nodes_for(n)) else {
                continue;
            };
            let book = cost::PriceBook::open(&cost::cache_file()).for_budget();
            // a site of unknown price launches nothing
            let Ok(rate) = cost::dearest_rate(&book, site, None) else {
                continue;
            };
            let there: usize = state
                .leases
                .iter()
                .filter(|l| l.site == name.as_str() && !l.released && l.order.is_some())
                .map(|l| {
                    if l.is_acquired() {
                        l.instances().len().saturating_sub(l.lost.len())
                    } else {
                        l.order.as_ref().map_or(0, |o| o.count as usize)
                    }
                })
                .sum();
            let missing = nodes.saturating_sub(u32::try_from(there).unwrap_or(u32::MAX));
            pending.push((name.clone(), rate.cost_of(1.0, missing)));
        }
        pending
    }
}
