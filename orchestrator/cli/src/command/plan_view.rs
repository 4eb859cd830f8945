//! A plan with its estimates, for the output of `cvc plan` as text and as JSON.

use crate::args::SortBy;
use camino::Utf8PathBuf;
use cvc_cloud::cost::Expected;
use cvc_core::campaign::Spec;
use cvc_core::ids::PointId;
use cvc_core::plan::{self, Plan, PointEstimate};
use cvc_core::point::{PlannedPoint, Repeat};
use cvc_core::store::CampaignDir;
use cvc_core::units::{dollars, size};
use cvc_engine::attempt::ReadySite;
use cvc_session::{CampaignSession, Expectations, ShortResource, Shortage};
use indexmap::IndexMap;
use std::collections::HashMap;

/// A plan with its estimates.
pub struct View<'a> {
    /// The campaign.
    pub session: &'a CampaignSession,
    /// The part of the plan that the command line selects.
    pub plan: &'a Plan,
    /// Sites on this machine.
    pub sites: &'a IndexMap<String, ReadySite>,
    /// Expected time, space, and prices.
    pub expectations: Expectations,
    /// Points that cannot run, with the reason for each.
    pub obstacles: HashMap<&'a PointId, String>,
    /// Expected costs, and the end of each site's runs.
    pub expected: Expected,
    /// Resources of which the machines of a site have too little for some points.
    pub shortages: Vec<Shortage>,
}

/// A resource of which the plan needs more than is available.
#[derive(serde::Serialize)]
pub struct NotEnough {
    /// The resource: `time`, `notice`, `run time`, `memory`, `disk`, `budget`.
    pub of: &'static str,
    /// Describes the needed and the available amount.
    pub what: String,
}

impl<'a> View<'a> {
    /// Estimates a plan. Its sites on this machine must have been queried before.
    pub fn of(
        session: &'a CampaignSession,
        plan: &'a Plan,
        sites: &'a IndexMap<String, ReadySite>,
    ) -> Self {
        let expectations = session.expectations(plan, sites);
        let obstacles = expectations.obstacles(&session.spec, plan, sites);
        Self {
            expected: expectations.cost(&session.spec, plan, &obstacles),
            shortages: expectations.shortages(&session.spec, plan, &obstacles),
            obstacles,
            expectations,
            session,
            plan,
            sites,
        }
    }

    /// Returns the numbers of warm-ups and of measured runs of each point.
    pub fn runs(&self) -> HashMap<&PointId, (u32, u32)> {
        let mut runs: HashMap<_, (u32, u32)> = HashMap::new();
        for run in &self.plan.runs {
            let (warmups, measured) = runs.entry(&run.point).or_default();
            match run.repeat {
                Repeat::Warmup(_) => *warmups += 1,
                Repeat::Measured(_) => *measured += 1,
            }
        }
        runs
    }

    /// Returns the points that run, with their estimates, in the requested order.
    pub fn points(&self, sort: Option<SortBy>) -> Vec<(&PlannedPoint, &PointEstimate)> {
        let mut points: Vec<_> = self
            .plan
            .points
            .iter()
            .zip(&self.expectations.estimates.points)
            .filter(|(p, _)| !self.obstacles.contains_key(&p.id))
            .collect();
        let one = self.expected.of_point(self.plan);
        let key = |point: &PointId, estimate: &PointEstimate| match sort {
            Some(SortBy::Cost) => one.get(point).copied(),
            Some(SortBy::Time) => estimate.known_cores.map(|_| estimate.seconds),
            None => None,
        };
        points.sort_by(|(a, x), (b, y)| {
            let (a, b) = (key(&a.id, x), key(&b.id, y));
            a.unwrap_or(f64::INFINITY)
                .total_cmp(&b.unwrap_or(f64::INFINITY))
        });
        points
    }

    /// Returns all resources of which the plan needs more than is available.
    pub fn not_enough(&self) -> Vec<NotEnough> {
        let spec = &self.session.spec;
        let estimates = &self.expectations.estimates;
        let mut all = Vec::new();
        if let Some(what) = estimates.too_long(spec.run.timeout_s) {
            all.push(NotEnough { of: "time", what });
        }
        let beyond_jobs = estimates.beyond_jobs(spec, self.plan).into_iter();
        all.extend(beyond_jobs.map(|what| NotEnough { of: "time", what }));
        let beyond_notices = estimates.beyond_notices(spec, self.plan).into_iter();
        all.extend(beyond_notices.map(|what| NotEnough { of: "notice", what }));
        let too_short = estimates.too_short().into_iter();
        all.extend(too_short.map(|what| NotEnough {
            of: "run time",
            what,
        }));
        all.extend(self.shortages.iter().map(|shortage| NotEnough {
            of: match shortage.resource {
                ShortResource::Memory => "memory",
                ShortResource::Disk => "disk",
            },
            what: shortage.describe(),
        }));
        for need in &estimates.disk {
            let there = Area::of(spec, &self.session.dir, need);
            if there.is_too_small(need) {
                all.push(NotEnough {
                    of: "disk",
                    what: there.describe(&[need]),
                });
            }
        }
        if let Some(budget) = &spec.budget
            && self.expected.known_usd() > budget.usd
        {
            all.push(NotEnough {
                of: "budget",
                what: format!(
                    "the budget of {} is NOT ENOUGH: {} are expected",
                    dollars(budget.usd),
                    dollars(self.expected.known_usd())
                ),
            });
        }
        all
    }
}

/// The place of a storage area, and its free space.
#[derive(PartialEq, Eq, Hash)]
pub enum Area {
    /// On other machines: the directory there.
    Elsewhere(String),
    /// On this machine: the directory, and the free bytes if known.
    Here(Utf8PathBuf, Option<u64>),
}

impl Area {
    /// Finds the storage area that a need of the plan is for.
    pub fn of(spec: &Spec, dir: &CampaignDir, need: &plan::DiskNeed) -> Self {
        let site = spec.sites.get(&need.site);
        let area = site.and_then(|s| s.storage.get(&need.storage));
        if let Some(cluster) = site.and_then(|s| s.cluster.as_ref()) {
            let directory = area.and_then(|a| a.path.as_deref());
            return Self::Elsewhere(directory.unwrap_or(&cluster.base).to_owned());
        }
        let directory = match area.and_then(|a| a.path.as_ref()) {
            Some(path) => cvc_core::paths::expand_below(spec.directory(), path),
            None => dir.root().to_owned(),
        };
        let free = cvc_engine::attempt::free_bytes(&directory);
        Self::Here(directory, free)
    }

    fn is_too_small(&self, need: &plan::DiskNeed) -> bool {
        matches!(self, Self::Here(_, Some(free)) if *free < need.bytes)
    }

    /// Describes the needed and the free space; `needs` are equal needs of several sites.
    pub fn describe(&self, needs: &[&plan::DiskNeed]) -> String {
        let [need, others @ ..] = needs else {
            return String::new();
        };
        let needed = size(need.bytes as f64);
        match self {
            Self::Elsewhere(directory) => format!(
                "space in {} of {} ({directory}): {needed} needed, checked on each node before each run",
                need.storage,
                match others {
                    [] => format!("site {}", need.site),
                    others => {
                        let names = others.iter().map(|other| other.site.as_str());
                        let names: Vec<&str> =
                            std::iter::once(need.site.as_str()).chain(names).collect();
                        format!("each of the sites {}", names.join(", "))
                    }
                }
            ),
            Self::Here(directory, free) => {
                let verdict = match free {
                    Some(free) if self.is_too_small(need) => {
                        format!("{} free: NOT ENOUGH", size(*free as f64))
                    }
                    Some(free) => format!("{} free", size(*free as f64)),
                    None => "free space unknown".into(),
                };
                format!(
                    "space in {} ({directory}): {needed} needed, {verdict}",
                    need.storage
                )
            }
        }
    }
}
