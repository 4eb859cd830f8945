//! Input and results of estimates.

use super::late::LateCheckpoints;
use crate::{
    campaign::{Market, Spec, WARNING_S},
    ids::PointId,
    plan::Plan,
    point::{PlannedPoint, Point},
    units::{counted, duration},
};
use indexmap::IndexMap;
use serde::Serialize;
use std::collections::HashMap;

/// Facts about the machines, which the caller provides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machines {
    /// Number of cores of one node, by site.
    pub cores: HashMap<String, u32>,
    /// Maximum write rate of one node, MiB per second, by site and storage area.
    pub storage_mib_s: HashMap<(String, String), f64>,
}

impl Machines {
    /// Returns the number of cores of one node of a site, if known.
    pub fn cores_of(&self, site: &str) -> Option<u32> {
        self.cores.get(site).copied().map(|cores| cores.max(1))
    }

    pub(super) fn storage_of(&self, point: &Point) -> Option<f64> {
        let area = (point.site.clone(), point.storage.clone());
        self.storage_mib_s.get(&area).copied().filter(|v| *v > 0.0)
    }
}

/// Size of the files of one checkpoint, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointBytes {
    /// All files.
    pub all: u64,
    /// The part of `all` that later checkpoints do not replace ([`crate::retention::left_mib`]).
    pub left: u64,
}

/// The estimate of one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointEstimate {
    /// Identifier of the point.
    pub point: PointId,
    /// Time for which one run occupies its nodes, seconds; at most `run.timeout_s`, which ends the run.
    pub seconds: f64,
    /// Time that a run would need to complete, seconds.
    pub needed_s: f64,
    /// Whether the descriptor declares the computing time; otherwise 30 core-seconds are assumed.
    pub known: bool,
    /// Number of cores of a node; `None` if unknown, so that all values derived from it are unknown, too.
    pub known_cores: Option<u32>,
    /// Checkpoints that are planned for a time after the program's end; `None` if there are none, or if that is unknown.
    pub late: Option<LateCheckpoints>,
    /// Time to write one checkpoint, seconds; `None` if cvc requests none.
    pub checkpoint_s: Option<f64>,
    /// The part of `checkpoint_s` that is the minimum for the fullest node's storage, seconds; `None` if its bandwidth is unknown.
    pub storage_s: Option<f64>,
    /// Maximum space during a run, bytes.
    pub peak_bytes: u64,
    /// Space for the images and outputs that one run keeps after its end, bytes.
    pub kept_bytes: u64,
}

impl PointEstimate {
    /// Returns whether the time limit is expected to end the runs before they complete.
    pub fn is_cut(&self) -> bool {
        self.is_timed() && self.needed_s > self.seconds
    }

    /// Returns whether the time is based on known facts, without assumptions.
    pub fn is_timed(&self) -> bool {
        self.known && self.known_cores.is_some()
    }
}

/// Space needed in one storage area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskNeed {
    /// Name of the site.
    pub site: String,
    /// Name of the area.
    pub storage: String,
    /// Space for the largest single run, and for the files that all runs together keep, bytes.
    pub bytes: u64,
}

/// The estimate of a whole plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimates {
    /// Estimates of all points, in the order of the plan.
    pub points: Vec<PointEstimate>,
    /// Time of all runs, one after another, seconds.
    pub total_s: f64,
    /// Number of points whose computing time is assumed.
    pub unknown: usize,
    /// Needs of each used storage area, in the order of first use.
    pub disk: Vec<DiskNeed>,
}

impl Estimates {
    /// Describes the runs that the time limit is expected to end before they complete, and the time limit that would suffice; `None` if there are
    /// none.
    pub fn too_long(&self, timeout_s: f64) -> Option<String> {
        let cut = || self.points.iter().filter(|p| p.is_cut());
        let longest_s = cut().map(|p| p.needed_s).max_by(f64::total_cmp)?;
        let enough_s = roomy_limit_s(longest_s, 0.0);
        Some(format!(
            "NOT ENOUGH TIME: runs of {} are expected to take up to {}, and run.timeout_s ends them after {}: they would fail; hint: \
             timeout_s = {enough_s:.0} in [run], or a smaller class",
            counted(cut().count(), "point"),
            duration(longest_s),
            duration(timeout_s)
        ))
    }

    /// For each Slurm site, describes the runs that the job's time limit is expected to end, and the time limit that would suffice. Slurm signals a
    /// job before its limit.
    pub fn beyond_jobs(&self, spec: &Spec, plan: &Plan) -> Vec<String> {
        let mut texts = Vec::new();
        for (name, site) in &spec.sites {
            let Some(slurm) = site.cluster.as_ref().and_then(|c| c.slurm.as_ref()) else {
                continue;
            };
            let job_s = 60.0 * slurm.time_limit_min() as f64;
            let of_site =
                |(planned, _): &(&PlannedPoint, &PointEstimate)| planned.point.site == *name;
            let cut: Vec<f64> = (plan.points.iter().zip(&self.points))
                .filter(of_site)
                .filter(|(_, e)| e.is_timed() && e.seconds + f64::from(WARNING_S) > job_s)
                .map(|(_, e)| e.seconds)
                .collect();
            let Some(longest_s) = cut.iter().copied().max_by(f64::total_cmp) else {
                continue;
            };
            let enough_s = roomy_limit_s(longest_s, f64::from(WARNING_S));
            texts.push(format!(
                "NOT ENOUGH TIME: runs of {} of the site {name} are expected to take up to {}, and a job of Slurm ends after {} \
                 (slurm.time_limit_s): they would fail; hint: time_limit_s = {enough_s:.0} in [sites.{name}.slurm], or a smaller class",
                counted(cut.len(), "point"),
                duration(longest_s),
                duration(job_s)
            ));
        }
        texts
    }

    /// For each site with spot instances, describes the checkpoints that are expected to take longer than the time from a notice to the loss of the
    /// instance.
    pub fn beyond_notices(&self, spec: &Spec, plan: &Plan) -> Vec<String> {
        let mut texts = Vec::new();
        let spot = spec.sites.iter().filter(|(_, site)| {
            let market = site.ec2.as_ref().map(|ec2| ec2.instances.market);
            market.is_some_and(|market| market != Market::OnDemand)
        });
        for (name, _) in spot.filter(|_| spec.checkpoint.resume) {
            let long: Vec<f64> = (plan.points.iter().zip(&self.points))
                .filter(|(planned, _)| planned.point.site == *name)
                .filter_map(|(_, estimate)| estimate.checkpoint_s)
                .filter(|seconds| *seconds > NOTICE_S - NOTICE_RESERVE_S)
                .collect();
            let Some(longest_s) = long.iter().copied().max_by(f64::total_cmp) else {
                continue;
            };
            texts.push(format!(
                "NOTICE TOO SHORT: a checkpoint of {} of the site {name} is expected to take up to {}, and the spot market takes an instance {} after \
                 its notice: such a run would continue from an earlier checkpoint; hint: checkpoints at more moments, more nodes, or faster volumes \
                 (throughput_mib_s)",
                counted(long.len(), "point"),
                duration(longest_s),
                duration(NOTICE_S)
            ));
        }
        texts
    }

    /// Describes runs that are expected to end before their checkpoints are due, and an earlier moment; one text for each moment of the plan.
    pub fn too_short(&self) -> Vec<String> {
        let mut by_moment: IndexMap<String, Vec<&LateCheckpoints>> = IndexMap::new();
        for late in self.points.iter().filter_map(|p| p.late.as_ref()) {
            let of = by_moment.entry(late.moment.to_string()).or_default();
            of.push(late);
        }
        let texts = by_moment.into_values().filter_map(|all| {
            let shortest = all
                .iter()
                .min_by(|a, b| a.ends_s.total_cmp(&b.ends_s))?;
            let taken = match (shortest.in_time, shortest.planned) {
                (0, 1) => "such a run would fail".to_owned(),
                (0, planned) => format!("none of {planned} would be taken, and such a run would fail"),
                (in_time, planned) => format!("{in_time} of {planned} would be taken"),
            };
            Some(format!(
                "NOT ENOUGH RUN TIME: a checkpoint of {} is due {} after the program began to compute, which is expected to end after {}: {taken}; \
                 hint: moment = {} in [checkpoint], or a larger class",
                counted(all.len(), "point"),
                duration(shortest.due_s),
                duration(shortest.ends_s),
                shortest.write
            ))
        });
        texts.collect()
    }
}

/// Time from the spot market's notice until it takes an instance, seconds.
const NOTICE_S: f64 = 120.0;
/// Part of [`NOTICE_S`] that is needed for other tasks than the checkpoint, seconds.
const NOTICE_RESERVE_S: f64 = 10.0;

/// Returns the share of a point's processes that run on its fullest node.
pub fn fullest_share(point: &Point) -> f64 {
    let fullest = point.mapping.node_loads().max().unwrap_or(1);
    f64::from(fullest) / f64::from(point.processes().max(1))
}

/// Returns a time limit, seconds, for runs that are expected to take `longest_s` plus the certain time `extra_s`. It allows twice `longest_s`,
/// because the estimate is rough, and is rounded up to whole minutes.
fn roomy_limit_s(longest_s: f64, extra_s: f64) -> f64 {
    ((2.0 * longest_s + extra_s) / 60.0).ceil() * 60.0
}
