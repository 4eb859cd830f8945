//! The estimate of a whole plan.

use super::{
    figures::{CheckpointBytes, DiskNeed, Estimates, Machines, PointEstimate},
    of_point::of_point,
};
use crate::{
    campaign::Spec,
    ids::PointId,
    plan::Plan,
    point::{PlannedPoint, Repeat},
};
use indexmap::IndexMap;
use std::collections::HashMap;

/// Estimates a plan. `stored` is the size of one checkpoint, by point; points without an entry are assumed to store nothing.
pub fn estimate(
    spec: &Spec,
    plan: &Plan,
    machines: &Machines,
    stored: &HashMap<PointId, CheckpointBytes>,
) -> Estimates {
    let of = |p: &PlannedPoint| {
        let stored = stored.get(&p.id).copied().unwrap_or_default();
        of_point(spec, p, machines, stored)
    };
    let points: Vec<PointEstimate> = plan.points.iter().map(of).collect();
    let mut runs: HashMap<&PointId, u64> = HashMap::new();
    for run in &plan.runs {
        match run.repeat {
            Repeat::Warmup(_) | Repeat::Measured(_) => *runs.entry(&run.point).or_default() += 1,
        }
    }
    let mut total_s = 0.0;
    let mut areas: IndexMap<(&str, &str), (u64, u64)> = IndexMap::new();
    for (planned, own) in plan.points.iter().zip(&points) {
        let count = runs.get(&planned.id).copied().unwrap_or(0);
        total_s += own.seconds * count as f64;
        let (peak, kept) = areas
            .entry((&planned.point.site, &planned.point.storage))
            .or_default();
        *peak = (*peak).max(own.peak_bytes);
        *kept = kept.saturating_add(own.kept_bytes.saturating_mul(count));
    }
    let disk = areas
        .into_iter()
        .map(|((site, storage), (peak, kept))| DiskNeed {
            site: site.to_owned(),
            storage: storage.to_owned(),
            bytes: peak.saturating_add(kept),
        })
        .collect();
    Estimates {
        total_s,
        unknown: points.iter().filter(|p| !p.known).count(),
        points,
        disk,
    }
}
