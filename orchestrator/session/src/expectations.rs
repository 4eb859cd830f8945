//! What is expected of a plan: time, space, money.

use cvc_cloud::cost::{self, Expected, PriceBook, known_cores};
use cvc_core::campaign::Spec;
use cvc_core::ids::PointId;
use cvc_core::plan::{self, Estimates, Machines, Plan};
use cvc_core::point::Point;
use cvc_core::store::CampaignDir;
use cvc_engine::attempt::ReadySite;
use cvc_prediction::space::{self, CheckpointSpace};
use indexmap::IndexMap;
use std::collections::HashMap;

/// What is expected of a plan.
#[derive(Debug)]
pub struct Expectations {
    /// Cores of nodes, where they are known without asking them.
    pub machines: Machines,
    /// Time and space of runs.
    pub estimates: Estimates,
    /// Space of checkpoints, and what that is based on.
    pub spaces: HashMap<PointId, CheckpointSpace>,
    /// Prices.
    pub prices: PriceBook,
}

impl Expectations {
    /// Those of a plan whose campaign is, or will be, in this directory.
    pub fn of(
        spec: &Spec,
        plan: &Plan,
        sites: &IndexMap<String, ReadySite>,
        dir: &CampaignDir,
    ) -> Self {
        let prices = PriceBook::open(&cost::cache_file());
        let here = sites.values().map(|s| s.cores).min().unwrap_or(1);
        let known = spec
            .sites
            .iter()
            .filter_map(|(name, site)| Some((name.clone(), known_cores(site, &prices)?)));
        let asked = sites.iter().map(|(name, site)| (name.clone(), site.cores));
        let machines = Machines {
            cores: here,
            sites: known.chain(asked).collect(),
        };
        let spaces = space::of_plan(spec, plan, dir.root());
        let stored_bytes = spaces
            .iter()
            .map(|(point, space)| (point.clone(), space.bytes))
            .collect();
        Self {
            estimates: plan::estimate(spec, plan, &machines, &stored_bytes),
            machines,
            spaces,
            prices,
        }
    }

    /// Returns the points that cannot run, each with the reason.
    pub fn obstacles<'p>(
        &self,
        spec: &Spec,
        plan: &'p Plan,
        sites: &IndexMap<String, ReadySite>,
    ) -> HashMap<&'p PointId, String> {
        let obstacle = |point: &Point| match sites.get(&point.site) {
            Some(site) => site.obstacle(point),
            None => self.too_small(spec, point),
        };
        plan.points
            .iter()
            .filter_map(|p| Some((&p.id, obstacle(&p.point)?)))
            .collect()
    }

    /// The reason why a point cannot run on the first instance type of its site.
    fn too_small(&self, spec: &Spec, point: &Point) -> Option<String> {
        let site = spec.sites.get(&point.site)?;
        let name = site.ec2.as_ref()?.instances.instance_types.first()?;
        let cores = known_cores(site, &self.prices)?;
        if site.oversubscribe || point.mapping.node_loads().all(|load| load <= cores) {
            return None;
        }
        Some(format!(
            "{} puts more processes on a node than the {cores} vCPUs of {name}; set oversubscribe = true for the site to allow it",
            point.mapping
        ))
    }

    /// Returns what the plan is expected to cost without the points that cannot run.
    pub fn cost(
        &self,
        spec: &Spec,
        plan: &Plan,
        obstacles: &HashMap<&PointId, String>,
    ) -> Expected {
        let cores = |site: &str| self.machines.sites.get(site).copied();
        cost::expected(spec, plan, &self.estimates, &self.prices, cores, |point| {
            !obstacles.contains_key(point)
        })
    }
}
