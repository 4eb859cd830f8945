//! What is expected of a plan: time, space, money.

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
    /// Memory that all processes of each point need together, where instances have to have it.
    memory: HashMap<PointId, CheckpointSpace>,
}

impl Expectations {
    /// Those of a plan whose campaign is, or will be, in this directory.
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
        let stored_bytes = spaces
            .iter()
            .map(|(point, space)| (point.clone(), space.bytes))
            .collect();
        Self {
            estimates: plan::estimate(spec, plan, &machines, &stored_bytes),
            machines,
            spaces,
            prices,
            memory,
        }
    }

    /// Returns what instances have too little of for points that can run.
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

    /// Says of each site whose cores are not known that times are not estimated.
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
        let cores = |site: &str| self.machines.cores_of(site);
        cost::expected(spec, plan, &self.estimates, &self.prices, cores, |point| {
            !obstacles.contains_key(point)
        })
    }
}

/// The most that a node of each site of instances writes to each of its storage areas, MiB per second, where it is known.
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
            // what one node exports has the network between as well, and the files of all
            let (place, is_exported) = shortage::place(site, ec2, instance_type, storage);
            if let Some(mib_s) = place.mib_s.filter(|_| !is_exported) {
                all.insert((name.clone(), storage.clone()), mib_s);
            }
        }
    }
    all
}
