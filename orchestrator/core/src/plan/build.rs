//! Turns a checked campaign into a plan.

use super::{Plan, PlannedRun, SCHEMA, digest::Digester};
use crate::point::{Excluded, ExcludedBy};
use crate::{
    campaign::{Block, Combination, Order, PredictSettings, Role, RunSettings, Spec},
    plan::Split,
    point::{PlannedPoint, Repeat},
};
use std::collections::HashSet;

/// Expands the matrix and the extra points, and puts the runs in order. Nothing of the machine enters.
pub fn build(spec: &Spec) -> Plan {
    let mut digester = Digester::new(spec);
    let mut points = Vec::new();
    let mut excluded = Vec::new();
    // Points of one matrix differ by construction; an extra point may repeat one.
    let mut seen = HashSet::new();
    let may_repeat = spec.grids.len() > 1;
    for combination in spec.expand() {
        match combination {
            Combination::Excluded(one) => excluded.push(one),
            Combination::Runs(point) => {
                let id = digester.point(&point);
                if may_repeat && !seen.insert(id.clone()) {
                    let reason = "an earlier point is the same".to_owned();
                    excluded.push(Excluded { point, by: ExcludedBy::Combination, reason });
                } else {
                    points.push(PlannedPoint { id, point });
                }
            }
        }
    }
    let runs = runs(&points, &spec.run, &mut digester);
    let predict = spec.predict.as_ref().map(|settings| split(&points, settings));
    Plan { schema: SCHEMA, campaign: spec.name.clone(), seed: spec.run.seed, points, runs, excluded, predict }
}

/// The points on both sides; a point is on one of them at most.
fn split(points: &[PlannedPoint], settings: &PredictSettings) -> Split {
    let of = |role: Role| points.iter().filter(|p| settings.role(&p.point) == Some(role)).map(|p| p.id.clone()).collect();
    Split {
        train: of(Role::Train),
        held_out: of(Role::HeldOut),
        max_error_pct: settings.max_error_pct.clone(),
        min_coverage_pct: settings.min_coverage_pct,
    }
}

/// The runs in the order of execution: block by block.
fn runs(points: &[PlannedPoint], settings: &RunSettings, digester: &mut Digester<'_>) -> Vec<PlannedRun> {
    let of_block = |number| {
        let repeats: Vec<Repeat> = settings.of_block(number).collect();
        let block = settings.blocks.map(|blocks| Block { of: blocks.of, number });
        runs_of_block(points, &repeats, block, settings, digester)
    };
    (1..=settings.block_count()).flat_map(of_block).collect()
}

fn runs_of_block(
    points: &[PlannedPoint],
    repeats: &[Repeat],
    block: Option<Block>,
    settings: &RunSettings,
    digester: &mut Digester<'_>,
) -> Vec<PlannedRun> {
    let mut run = |point: &PlannedPoint, repeat| PlannedRun { id: digester.run(&point.id, repeat), point: point.id.clone(), repeat, block };
    match settings.order {
        Order::AsWritten => {
            points.iter().flat_map(|point| repeats.iter().map(move |repeat| (point, *repeat))).map(|(p, r)| run(p, r)).collect()
        }
        Order::Interleaved => {
            let mut all = Vec::with_capacity(points.len() * repeats.len());
            for &repeat in repeats {
                let kind = match repeat {
                    Repeat::Warmup(n) => format!("warmup {n}"),
                    Repeat::Measured(n) => format!("measured {n}"),
                };
                let mut shuffled: Vec<([u8; 32], usize)> =
                    points.iter().enumerate().map(|(i, p)| (key(settings.seed, &[&kind, p.id.as_str()]), i)).collect();
                shuffled.sort_unstable();
                all.extend(shuffled.into_iter().map(|(_, i)| run(&points[i], repeat)));
            }
            all
        }
        Order::Random => {
            // Slots are shuffled; then each point fills its own slots, warm-ups first.
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
                    // Stable: warm-ups in the order of their numbers, the counted ones as shuffled.
                    own.sort_by_key(|r| match r.repeat {
                        Repeat::Warmup(n) => n,
                        Repeat::Measured(_) => u32::MAX,
                    });
                    own.into_iter()
                })
                .collect();
            owners.into_iter().filter_map(|i| queues[i].next()).collect()
        }
    }
}

/// The sort key that the seed gives an item.
fn key(seed: u64, parts: &[&str]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    *hasher.finalize().as_bytes()
}
