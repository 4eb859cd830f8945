//! Combines models at several numbers of processes into a model for any number.

use super::{log::PhaseError, model::IoModel};
use serde::Serialize;

/// How the bytes of a phase depend on the number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth {
    /// All processes together move a constant volume: rs = volume/np.
    SharedVolume,
    /// Each process moves a constant volume.
    SameOfEach,
    /// The volume is linear in the number of processes.
    Linear,
}

/// A phase, scaled to a number of processes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScaledPhase {
    /// Number of the first phase.
    pub first: u32,
    /// Number of equal phases.
    pub count: u32,
    /// The law that its bytes follow.
    pub growth: Growth,
    /// Bytes moved by all processes in each phase.
    pub weight_bytes: f64,
    /// Mean bytes moved per process.
    pub process_bytes: f64,
}

/// Returns the size of each phase at a number of processes. The models must be of the same program at different numbers of processes.
///
/// # Errors
/// There are fewer than two models, two have the same number of processes, their phases differ, or sizes follow none of the laws.
pub fn scaled_phases(models: &[IoModel], processes: u32) -> Result<Vec<ScaledPhase>, PhaseError> {
    let mut models: Vec<&IoModel> = models.iter().collect();
    models.sort_by_key(|m| m.processes);
    let wrong = |text: String| Err(PhaseError::Unusable(text));
    let Some((first, rest)) = models.split_first() else {
        return wrong("a model is needed".to_owned());
    };
    if rest.is_empty() {
        return wrong(format!(
            "one model at {} processes does not determine sizes at {processes}; give models at two or more numbers of processes",
            first.processes
        ));
    }
    let mut before = *first;
    for model in rest {
        if model.processes == before.processes {
            return wrong(format!("two models are of {} processes", model.processes));
        }
        before = model;
        let counts = |m: &IoModel| -> Vec<u32> { m.phases.iter().map(|f| f.count).collect() };
        if counts(model) != counts(first) {
            return wrong(format!(
                "the models have other phases: {:?} at {} processes, {:?} at {}",
                counts(first),
                first.processes,
                counts(model),
                model.processes
            ));
        }
    }
    let of_family = |i: usize| -> Result<ScaledPhase, PhaseError> {
        let family = first.phases.get(i);
        let (number, count) = family.map_or((0, 0), |f| (f.first, f.count));
        let points: Vec<(f64, f64)> = models
            .iter()
            .filter_map(|m| Some((f64::from(m.processes), m.phases.get(i)?.weight_bytes as f64)))
            .collect();
        let Some((growth, weight_bytes)) = law(&points, f64::from(processes)) else {
            return Err(PhaseError::Unusable(format!(
                "phase {number}: its bytes follow no law of the number of processes: {points:?}"
            )));
        };
        Ok(ScaledPhase {
            first: number,
            count,
            growth,
            weight_bytes,
            process_bytes: weight_bytes / f64::from(processes),
        })
    };
    (0..first.phases.len()).map(of_family).collect()
}

/// Returns the law that all points (number of processes, bytes) follow within a relative error of 0.001, and the bytes at `at` processes. `None` if
/// they follow no law.
fn law(points: &[(f64, f64)], at: f64) -> Option<(Growth, f64)> {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-3 * a.abs().max(b.abs());
    let (np, weight) = *points.first()?;
    let (last_np, last) = *points.last()?;
    if points.iter().all(|(_, w)| close(*w, weight)) {
        return Some((Growth::SharedVolume, weight));
    }
    if points.iter().all(|(n, w)| close(w / n, weight / np)) {
        return Some((Growth::SameOfEach, weight / np * at));
    }
    let slope = (last - weight) / (last_np - np);
    let line = |n: f64| weight + slope * (n - np);
    let holds = points.len() > 2 && points.iter().all(|(n, w)| close(*w, line(*n)));
    (holds && line(at) > 0.0).then(|| (Growth::Linear, line(at)))
}

/// Returns a model for another number of processes, to be replayed. Each kind of call keeps its order and number. In a file, the parts of the
/// processes follow each other or, if a view has holes, alternate piece by piece.
///
/// # Errors
/// The same as for [`scaled_phases`]; also if the processes do not all make the same calls.
pub fn scaled(models: &[IoModel], processes: u32) -> Result<IoModel, PhaseError> {
    use super::model::{AllRanks, PerRank, Ranks, ViewPattern, ViewPiece};
    use super::progression::{Level, Progression};
    let phases = scaled_phases(models, processes)?;
    let mut largest: IoModel = models
        .iter()
        .max_by_key(|m| m.processes)
        .cloned()
        .ok_or_else(|| PhaseError::Unusable("a model is needed".to_owned()))?;
    let old = f64::from(largest.processes);
    let np = i64::from(processes);
    let mut views = Vec::new();
    for (family, to) in largest.phases.iter_mut().zip(&phases) {
        let factor = to.process_bytes / (family.weight_bytes as f64 / old);
        family.weight_bytes = 0;
        for part in &mut family.loops {
            for op in &mut part.ops {
                if op.ranks != Ranks::All(AllRanks::All) {
                    return Err(PhaseError::Unusable(format!(
                        "phase {}: not all processes do the same, so it cannot be repeated with another number of them",
                        to.first
                    )));
                }
                let list = op.ranks.list(old as u32).len();
                let mean: f64 = (0..list)
                    .map(|i| op.request_bytes.get(i) as f64)
                    .sum::<f64>()
                    / list as f64;
                let etype = largest
                    .views
                    .get((op.view.get(0) - 1).max(0) as usize)
                    .map_or(1, |v| v.etype_bytes);
                let bytes = ((mean * factor / etype as f64).round() as i64).max(1) * etype;
                let holes = largest
                    .views
                    .get((op.view.get(0) - 1) as usize)
                    .filter(|_| op.view.get(0) > 0);
                let (first, view, per_phase) = match holes {
                    // pieces of different processes alternate
                    Some(pattern) => {
                        let count: u64 = pattern.pieces.iter().map(|p| p.at.len()).sum();
                        let piece = (bytes / (count.max(1) as i64) / etype).max(1) * etype;
                        let pieces = bytes.div_euclid(piece).max(1);
                        views.push(ViewPattern {
                            etype_bytes: etype,
                            filetype_bytes: piece * pieces,
                            extent: piece * pieces * np,
                            pieces: vec![ViewPiece {
                                at: Progression {
                                    first: 0,
                                    levels: vec![Level {
                                        count: pieces as u64,
                                        step: piece * np,
                                    }],
                                },
                                bytes: piece as u64,
                            }],
                        });
                        let shift = if op.per_phase == PerRank::Same(0) {
                            0
                        } else {
                            piece * pieces * np
                        };
                        (
                            PerRank::Linear {
                                first: op.first.get(0),
                                per_process: piece,
                            },
                            views.len() as i64,
                            shift,
                        )
                    }
                    None => {
                        let volume = bytes * (op.calls() * part.rounds) as i64;
                        let shift = if op.per_phase == PerRank::Same(0) {
                            0
                        } else {
                            volume * np
                        };
                        (
                            PerRank::Linear {
                                first: 0,
                                per_process: volume,
                            },
                            0,
                            shift,
                        )
                    }
                };
                op.first = first;
                op.view = PerRank::Same(view);
                op.within = PerRank::Same(0);
                op.per_phase = PerRank::Same(per_phase);
                if view == 0 {
                    let calls = op.calls();
                    op.at = vec![Progression {
                        first: 0,
                        levels: vec![Level {
                            count: calls,
                            step: bytes,
                        }],
                    }];
                    op.per_round = PerRank::Same(bytes * calls as i64);
                }
                op.request_bytes = PerRank::Same(bytes);
                op.formula = "scaled".to_owned();
                family.weight_bytes +=
                    bytes as u64 * op.calls() * part.rounds * u64::from(processes);
            }
        }
    }
    largest.views = views;
    largest.processes = processes;
    largest.remarks.push(format!(
        "scaled to {processes} processes from models at other numbers: volumes follow their law, the pieces of processes take turns"
    ));
    Ok(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_volume_is_divided_and_a_volume_of_each_is_multiplied() {
        assert_eq!(
            law(&[(4.0, 80.0), (9.0, 80.0)], 16.0),
            Some((Growth::SharedVolume, 80.0))
        );
        assert_eq!(
            law(&[(4.0, 80.0), (8.0, 160.0)], 16.0),
            Some((Growth::SameOfEach, 320.0))
        );
        assert_eq!(
            law(&[(1.0, 11.0), (2.0, 12.0), (4.0, 14.0)], 8.0),
            Some((Growth::Linear, 18.0))
        );
        assert_eq!(law(&[(1.0, 11.0), (2.0, 12.0)], 8.0), None);
        assert_eq!(law(&[(1.0, 11.0), (2.0, 19.0), (4.0, 14.0)], 8.0), None);
    }

    #[test]
    fn class_d_of_bt_io_has_the_sizes_that_its_grid_says() {
        let volume = 40.0 * 408_f64.powi(3);
        let mib = |np: f64| {
            let (_, weight) = law(&[(4.0, volume), (16.0, volume)], np).expect("a law");
            (weight / np / f64::from(1 << 20) * 100.0).round() / 100.0
        };
        assert_eq!([36.0, 64.0, 121.0].map(mib), [71.97, 40.48, 21.41]);
    }
}
