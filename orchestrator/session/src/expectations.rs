//! Expected time, space and cost of a plan.

use crate::shortage::{self, Shortage};
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

/// Expected time, space and cost of a plan.
#[derive(Debug)]
pub struct Expectations {
    /// Number of cores of each site's nodes and write rates of storage, where known.
    pub machines: Machines,
    /// Time and space of the runs.
    pub estimates: Estimates,
    /// Space of one checkpoint of each point, and how it was estimated.
    pub spaces: HashMap<PointId, CheckpointSpace>,
    /// Prices of cloud resources.
    pub prices: PriceBook,
    /// Memory that all processes of each point need together; empty unless a site has cloud instances.
    memory: HashMap<PointId, CheckpointSpace>,
}

impl Expectations {
    /// Returns the expectations for a plan. `dir` is the directory of the campaign, which need not exist yet.
    pub fn of(
        spec: &Spec,
        plan: &Plan,
        sites: &IndexMap<String, ReadySite>,
        dir: &CampaignDir,
    ) -> Self {
        let prices = PriceBook::open_for_plan(&cost::cache_file());
        let known = spec
            .sites
            .iter()
            .filter_map(|(name, site)| Some((name.clone(), known_cores(site, &prices)?)));
        let asked = sites.iter().map(|(name, site)| (name.clone(), site.cores));
        let machines = Machines {
            cores: known.chain(asked).collect(),
            storage_mib_s: bandwidths(spec),
        };
        let in_cloud = |site: &str| spec.sites.get(site).is_some_and(|s| s.ec2.is_some());
        let memory = if plan.points.iter().any(|p| in_cloud(&p.point.site)) {
            space::memory_of_plan(spec, plan, dir.root())
        } else {
            HashMap::new()
        };
        let spaces = space::of_plan(spec, plan, dir.root());
        let stored = spaces
            .iter()
            .map(|(point, space)| (point.clone(), space.checkpoint_bytes()))
            .collect();
        Self {
            estimates: plan::estimate(spec, plan, &machines, &stored),
            machines,
            spaces,
            prices,
            memory,
        }
    }

    /// Returns for which points the instances of a site do not have enough memory or disk space. Ignores points that cannot run anyway.
    pub fn shortages(
        &self,
        spec: &Spec,
        plan: &Plan,
        obstacles: &HashMap<&PointId, String>,
    ) -> Vec<Shortage> {
        let points = plan
            .points
            .iter()
            .zip(&self.estimates.points)
            .filter(|(p, _)| !obstacles.contains_key(&p.id))
            .map(|(p, estimate)| (&p.id, &p.point, estimate));
        shortage::find(spec, &self.prices, points, &self.memory)
    }

    /// Returns a message for each site whose run times cannot be estimated, because its number of cores is unknown.
    pub fn without_cores(&self, spec: &Spec, plan: &Plan) -> Vec<String> {
        spec.sites
            .iter()
            .filter(|(name, _)| {
                self.machines.cores_of(name).is_none()
                    && plan.points.iter().any(|p| p.point.site == **name)
            })
            .map(|(name, site)| {
                let of = site
                    .ec2
                    .as_ref()
                    .and_then(|ec2| ec2.instances.instance_types.first())
                    .map_or_else(
                        || format!("nodes of the site {name}"),
                        |instance_type| format!("{instance_type} (site {name})"),
                    );
                format!(
                    "cores of {of} are not known: time not estimated; hint: cores = N in [sites.{name}]"
                )
            })
            .collect()
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

    /// Returns why the first instance type of a site is too small for a point; `None` if it is large enough.
    fn too_small(&self, spec: &Spec, point: &Point) -> Option<String> {
        let site = spec.sites.get(&point.site)?;
        let name = site.ec2.as_ref()?.instances.instance_types.first()?;
        let cores = known_cores(site, &self.prices)?;
        if site.oversubscribe || !point.mapping.oversubscribes(cores) {
            return None;
        }
        Some(format!(
            "{} puts more {} on a node than the {cores} vCPUs of {name}; set oversubscribe = true for the site to allow it",
            point.mapping,
            point.mapping.workers()
        ))
    }

    /// Returns the expected cost of the plan, excluding the points that cannot run.
    pub fn cost(
        &self,
        spec: &Spec,
        plan: &Plan,
        obstacles: &HashMap<&PointId, String>,
    ) -> Expected {
        let cores = |site: &str| self.machines.cores_of(site);
        cost::expected(spec, plan, &self.estimates, &self.prices, cores, |point| {
            !obstacles.contains_key(point)
        })
    }
}

/// Returns the maximum rate at which a node writes to a storage area, MiB per second, by site and area. Only for sites of cloud instances, where
/// known.
fn bandwidths(spec: &Spec) -> HashMap<(String, String), f64> {
    let mut all = HashMap::new();
    for (name, site) in &spec.sites {
        let Some((ec2, instance_type)) = site
            .ec2
            .as_ref()
            .and_then(|ec2| Some((ec2, ec2.instances.instance_types.first()?)))
        else {
            continue;
        };
        for storage in site.storage.keys() {
            // an exported area is limited by the network, too, and stores the files of all nodes
            let (place, is_exported) = shortage::place(site, ec2, instance_type, storage);
            if let Some(mib_s) = place.mib_s.filter(|_| !is_exported) {
                all.insert((name.clone(), storage.clone()), mib_s);
            }
        }
    }
    all
}
