//! Builds the plan of a checked campaign.

use super::{Plan, PlannedRun, SCHEMA, digest::Digester};
use crate::point::{Excluded, ExcludedBy, Moment, Point, TracerKind};
use crate::{
    app::{SMALLEST, SMALLEST_WORKLOAD},
    campaign::{Block, Combination, Order, PredictSettings, Role, RunSettings, Spec},
    plan::Split,
    point::{PlannedPoint, Repeat},
};
use indexmap::IndexMap;
use std::collections::HashSet;

/// Builds a plan: expands the matrix and the extra points, and orders the runs. The result does not depend on the machine.
pub fn build(spec: &Spec) -> Plan {
    let mut digester = Digester::new(spec);
    let mut points = Vec::new();
    let mut excluded = Vec::new();
    // the points of one matrix are distinct by construction, but an extra point may repeat one of them
    let mut seen = HashSet::new();
    let may_repeat = spec.grids.len() > 1;
    for combination in spec.expand() {
        match combination {
            Combination::Excluded(one) => excluded.push(one),
            Combination::Runs {
                point,
                expected_failure,
            } => {
                let id = digester.point(&point);
                if may_repeat && !seen.insert(id.clone()) {
                    let reason = "an earlier point is the same".to_owned();
                    excluded.push(Excluded {
                        point,
                        by: ExcludedBy::Combination,
                        reason: reason.into(),
                    });
                } else {
                    points.push(PlannedPoint {
                        id,
                        point,
                        baseline: false,
                        expected_failure,
                    });
                }
            }
        }
    }
    let baselines = baselines(spec, &points, &mut digester);
    points.extend(baselines);
    let runs = runs(&points, &spec.run, &mut digester);
    let predict = spec
        .predict
        .as_ref()
        .map(|settings| split(&points, settings));
    Plan {
        schema: SCHEMA,
        campaign: spec.name.clone(),
        seed: spec.run.seed,
        points,
        runs,
        excluded,
        predict,
    }
}

/// Returns the baseline points, if the campaign requests them: the smallest MPI program, checkpointed once for each site, library and mapping with
/// points under the same driven checkpointer.
fn baselines(
    spec: &Spec,
    points: &[PlannedPoint],
    digester: &mut Digester<'_>,
) -> Vec<PlannedPoint> {
    let mut found: IndexMap<(String, String, String), PlannedPoint> = IndexMap::new();
    if !spec.checkpoint.baseline {
        return Vec::new();
    }
    for Point {
        site,
        mpi,
        mapping,
        storage,
        checkpointer,
        ..
    } in points
        .iter()
        .map(|p| &p.point)
        .filter(|p| p.checkpointer.is_driven())
    {
        found
            .entry((site.clone(), mpi.clone(), mapping.to_string()))
            .or_insert_with(|| {
                let point = Point {
                    site: site.clone(),
                    app: SMALLEST.to_owned(),
                    class: SMALLEST_WORKLOAD.to_owned(),
                    mapping: mapping.clone(),
                    mpi: mpi.clone(),
                    checkpointer: *checkpointer,
                    storage: storage.clone(),
                    restart_check: Some(false),
                    moment: Some(Moment::SizeOnly),
                    tracer: Some(TracerKind::None),
                    ..Point::default()
                };
                PlannedPoint {
                    id: digester.point(&point),
                    point,
                    baseline: true,
                    expected_failure: None,
                }
            });
    }
    // a baseline that is also a point of the matrix is not added
    found
        .into_values()
        .filter(|baseline| points.iter().all(|p| p.id != baseline.id))
        .collect()
}

/// Returns the training points and the held-out points, which are disjoint.
fn split(points: &[PlannedPoint], settings: &PredictSettings) -> Split {
    let of = |role: Role| {
        points
            .iter()
            .filter(|p| !p.baseline && settings.role(&p.point) == Some(role))
            .map(|p| p.id.clone())
            .collect()
    };
    Split {
        train: of(Role::Train),
        held_out: of(Role::HeldOut),
        max_error_pct: settings.max_error_pct.clone(),
        min_coverage_pct: settings.min_coverage_pct,
    }
}

/// Returns the runs in the order of execution: block by block.
fn runs(
    points: &[PlannedPoint],
    settings: &RunSettings,
    digester: &mut Digester<'_>,
) -> Vec<PlannedRun> {
    let (baselines, points): (Vec<&PlannedPoint>, Vec<&PlannedPoint>) =
        points.iter().partition(|p| p.baseline);
    let block = |number| {
        settings.blocks.map(|blocks| Block {
            of: blocks.of,
            number,
        })
    };
    let first = |p: &&PlannedPoint| {
        let repeat = Repeat::Measured(1);
        PlannedRun {
            id: digester.run(&p.id, repeat),
            point: p.id.clone(),
            repeat,
            block: block(1),
        }
    };
    let mut runs: Vec<PlannedRun> = baselines.iter().map(first).collect();
    let of_block = |number| {
        let repeats: Vec<Repeat> = settings.of_block(number).collect();
        runs_of_block(&points, &repeats, block(number), settings, digester)
    };
    runs.extend((1..=settings.block_count()).flat_map(of_block));
    runs
}

fn runs_of_block(
    points: &[&PlannedPoint],
    repeats: &[Repeat],
    block: Option<Block>,
    settings: &RunSettings,
    digester: &mut Digester<'_>,
) -> Vec<PlannedRun> {
    let mut run = |point: &PlannedPoint, repeat| PlannedRun {
        id: digester.run(&point.id, repeat),
        point: point.id.clone(),
        repeat,
        block,
    };
    match settings.order {
        Order::AsWritten => points
            .iter()
            .flat_map(|point| repeats.iter().map(move |repeat| (point, *repeat)))
            .map(|(p, r)| run(p, r))
            .collect(),
        Order::Interleaved => {
            let mut all = Vec::with_capacity(points.len() * repeats.len());
            for &repeat in repeats {
                let kind = match repeat {
                    Repeat::Warmup(n) => format!("warmup {n}"),
                    Repeat::Measured(n) => format!("measured {n}"),
                };
                let mut shuffled: Vec<([u8; 32], usize)> = points
                    .iter()
                    .enumerate()
                    .map(|(i, p)| (key(settings.seed, &[&kind, p.id.as_str()]), i))
                    .collect();
                shuffled.sort_unstable();
                all.extend(shuffled.into_iter().map(|(_, i)| run(points[i], repeat)));
            }
            all
        }
        Order::Random => {
            // the slots are shuffled; then each point fills its slots, warm-ups first
            let mut slots = Vec::new();
            for (i, point) in points.iter().enumerate() {
                for &repeat in repeats {
                    let planned = run(point, repeat);
                    slots.push((key(settings.seed, &[planned.id.as_str()]), i, planned));
                }
            }
            slots.sort_unstable_by_key(|(key, _, _)| *key);
            let owners: Vec<usize> = slots.iter().map(|(_, i, _)| *i).collect();
            let mut of_point: Vec<Vec<PlannedRun>> = points.iter().map(|_| Vec::new()).collect();
            for (_, i, planned) in slots {
                of_point[i].push(planned);
            }
            let mut queues: Vec<_> = of_point
                .into_iter()
                .map(|mut own| {
                    // the sort is stable: warm-ups by their numbers, then counted runs as shuffled
                    own.sort_by_key(|r| match r.repeat {
                        Repeat::Warmup(n) => n,
                        Repeat::Measured(_) => u32::MAX,
                    });
                    own.into_iter()
                })
                .collect();
            owners
                .into_iter()
                .filter_map(|i| queues[i].next())
                .collect()
        }
    }
}

/// Returns the sort key of an item, which depends on the seed.
fn key(seed: u64, parts: &[&str]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    *hasher.finalize().as_bytes()
}
