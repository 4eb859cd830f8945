//! A plan with everything that is expected of it: what `cvc plan` shows as text and as JSON.

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
use cvc_session::{Expectations, Resource, Session, Shortage};
use indexmap::IndexMap;
use std::collections::HashMap;

/// A plan, and what is expected of it.
pub struct View<'a> {
    /// The campaign.
    pub session: &'a Session,
    /// The part that is asked for.
    pub plan: &'a Plan,
    /// Sites on this machine.
    pub sites: &'a IndexMap<String, ReadySite>,
    /// Time, space, prices.
    pub expectations: Expectations,
    /// Points that cannot run, each with the reason.
    pub obstacles: HashMap<&'a PointId, String>,
    /// Money, and when each site ends.
    pub expected: Expected,
    /// What instances have too little of.
    pub shortages: Vec<Shortage>,
}

/// What a plan needs more of than there is.
#[derive(serde::Serialize)]
pub struct NotEnough {
    /// `time`, `run time`, `memory`, `disk`, `budget`.
    pub of: &'static str,
    /// With numbers.
    pub what: String,
}

impl<'a> View<'a> {
    /// Finds out what is expected of a plan, whose sites on this machine were asked.
    pub fn of(
        session: &'a Session,
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

    /// Warm-ups and counted runs of each point.
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

    /// The points that run, with what is expected of each, in an order that the user wants.
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

    /// Everything that the plan needs more of than there is.
    pub fn not_enough(&self) -> Vec<NotEnough> {
        let spec = &self.session.spec;
        let estimates = &self.expectations.estimates;
        let mut all = Vec::new();
        if let Some(what) = estimates.too_long(spec.run.timeout_s) {
            all.push(NotEnough { of: "time", what });
        }
        let too_short = estimates.too_short().into_iter();
        all.extend(too_short.map(|what| NotEnough {
            of: "run time",
            what,
        }));
        all.extend(self.shortages.iter().map(|shortage| NotEnough {
            of: match shortage.resource {
                Resource::Memory => "memory",
                Resource::Disk => "disk",
            },
            what: shortage.told(),
        }));
        for need in &estimates.disk {
            let there = Area::of(spec, &self.session.dir, need);
            if there.is_too_small(need) {
                all.push(NotEnough {
                    of: "disk",
                    what: there.told(need),
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

/// A storage area, and what is free there.
pub enum Area {
    /// On other machines: its directory there.
    Elsewhere(String),
    /// On this machine: its directory, and the bytes that are free.
    Here(Utf8PathBuf, Option<u64>),
}

impl Area {
    /// Looks where a need of a plan is met.
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

    /// What is needed and free there.
    pub fn told(&self, need: &plan::DiskNeed) -> String {
        let needed = size(need.bytes as f64);
        match self {
            Self::Elsewhere(directory) => format!(
                "space in {} of site {} ({directory}): {needed} needed, checked on every node before each run",
                need.storage, need.site
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
