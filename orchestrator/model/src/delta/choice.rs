//! The interval and the method with the minimum expected time or cost.

use super::run::{DeltaJob, DeltaRun, delta_run};
use crate::{
    fit::FitError,
    schedule::{daly_s, young_s},
};
use cvc_delta_rules::Method;
use serde::Serialize;

/// The objective to minimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeltaObjective {
    /// Expected time of the run.
    Time,
    /// Expected dollars: the machines for the run, and the storage of all its checkpoints for one month.
    Cost,
}

impl DeltaObjective {
    /// Returns the objective's value for a run: seconds or dollars.
    #[must_use]
    pub fn of(self, run: &DeltaRun) -> f64 {
        match self {
            Self::Time => run.total_s,
            Self::Cost => run.run_dollars + run.dollars_per_month,
        }
    }
}

/// Maximum number of segments of a run that is tried. A segment is the computing time between two checkpoints.
const MAX_SEGMENTS: usize = 50_000;
/// Factor between consecutive numbers of segments in the first pass.
const GROWTH: f64 = 1.08;

/// Maximum number of candidates around the best one in each further pass.
const MAX_AROUND: usize = 24;

/// Input of a choice.
#[derive(Clone, Copy)]
pub struct Choosing<'a> {
    /// Returns the MiB that change within a number of seconds.
    pub changed_mib: &'a dyn Fn(f64) -> f64,
    /// The program, the machine and the costs.
    pub job: &'a DeltaJob,
    /// The objective to minimise.
    pub aim: DeltaObjective,
}

impl Choosing<'_> {
    fn run(&self, method: Method, stretches: usize) -> Result<DeltaRun, FitError> {
        delta_run(method, self.changed_mib, self.job, stretches)
    }
}

/// The best interval of a method, and for comparison Young's and Daly's intervals, which assume checkpoints of equal size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BestDeltaInterval {
    /// The run with the best interval.
    pub run: DeltaRun,
    /// Young's interval for full checkpoints, seconds.
    pub young_full_s: f64,
    /// Daly's interval for full checkpoints, seconds.
    pub daly_full_s: f64,
}

/// Returns the interval with the minimum expected time or cost. The first pass tries numbers of equal segments in steps of a factor of 1.08;
/// further passes search around the best number.
///
/// # Errors
/// Times, rates or sizes are impossible, or failures are so frequent that the run practically never ends.
pub fn optimal_interval(
    method: Method,
    choosing: Choosing<'_>,
) -> Result<BestDeltaInterval, FitError> {
    let mut best: Option<DeltaRun> = None;
    let take = |run: DeltaRun, best: &mut Option<DeltaRun>| {
        let value = choosing.aim.of(&run);
        let is_less = value.is_finite()
            && best
                .as_ref()
                .is_none_or(|best| value < choosing.aim.of(best));
        if is_less {
            *best = Some(run);
        }
        value
    };
    let (mut stretches, mut before) = (1_usize, 1_usize);
    let (mut around, mut was_best) = ((1, 1), false);
    while stretches <= MAX_SEGMENTS {
        let least = best.as_ref().map(|b| choosing.aim.of(b));
        let value = take(choosing.run(method, stretches)?, &mut best);
        if was_best {
            around.1 = stretches;
        }
        was_best = least.is_none_or(|least| value < least) && value.is_finite();
        if was_best {
            around = (before, stretches);
        }
        // beyond twice the minimum, the value only grows
        if least.is_some_and(|least| value > 2.0 * least) {
            break;
        }
        before = stretches;
        stretches = ((stretches as f64 * GROWTH) as usize).max(stretches + 1);
    }
    // in long runs, hundreds of numbers are between two tried ones: reduce the step until it is 1
    loop {
        let step = (around.1 - around.0).div_ceil(MAX_AROUND).max(1);
        for stretches in (around.0..=around.1).step_by(step) {
            take(choosing.run(method, stretches)?, &mut best);
        }
        let Some(found) = best.as_ref().filter(|_| step > 1) else {
            break;
        };
        let middle = found.checkpoints + 1;
        around = (middle.saturating_sub(step).max(1), middle + step);
    }
    let run = best.ok_or_else(|| {
        FitError::OutOfDomain("failures are so frequent that the run practically never ends".into())
    })?;
    let job = choosing.job;
    let full_s = job.costs.start_s + job.full_mib / job.costs.write_mib_s;
    Ok(BestDeltaInterval {
        run,
        young_full_s: young_s(full_s, job.mtbf_s)?,
        daly_full_s: daly_s(full_s, job.mtbf_s)?,
    })
}

/// Returns the methods to try, with thresholds and lengths of chains.
#[must_use]
pub fn candidates() -> Vec<Method> {
    let mut all = vec![Method::Full, Method::Incremental, Method::Differential];
    all.extend([1.25, 1.5, 2.0, 3.0, 4.0, 8.0].map(Method::adca));
    for files in [2, 3, 4, 6, 8, 12, 16, 24, 32, 64] {
        // with a ratio of 0, every checkpoint becomes the next one's base
        all.extend([0.0, 1.5, 2.0, 4.0].map(|ratio| Method::bounded(ratio, files)));
    }
    all
}

/// Returns the best interval of each method (full, incremental, differential, ADCA, bounded), best first. If two methods differ by less than a
/// thousandth of a percent, the method that reads fewer files for a restart comes first.
///
/// # Errors
/// See [`optimal_interval`].
pub fn choose_method(choosing: Choosing<'_>) -> Result<Vec<BestDeltaInterval>, FitError> {
    let mut best: Vec<BestDeltaInterval> = Vec::new();
    let value = |b: &BestDeltaInterval| choosing.aim.of(&b.run);
    let is_before = |a: &BestDeltaInterval, b: &BestDeltaInterval| {
        let (x, y) = (value(a), value(b));
        if (x - y).abs() <= 1e-5 * y {
            a.run.files < b.run.files
        } else {
            x < y
        }
    };
    for method in candidates() {
        let found = optimal_interval(method, choosing)?;
        match best
            .iter_mut()
            .find(|b| b.run.method.name() == method.name())
        {
            Some(known) if is_before(&found, known) => *known = found,
            Some(_) => {}
            None => best.push(found),
        }
    }
    // there are few methods; among equal ones the order of `candidates` decides
    for i in 1..best.len() {
        let mut place = i;
        while place > 0 && is_before(&best[place], &best[place - 1]) {
            best.swap(place, place - 1);
            place -= 1;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::{
        BestDeltaInterval, Choosing, DeltaObjective, Method, candidates, choose_method,
        optimal_interval,
    };
    use crate::delta::{
        ChangedPair, ChangedVolume, DeltaCosts, DeltaJob, Packing, Prices, VolumeCurve, delta_run,
        stored_states,
    };
    use rand_chacha::{
        ChaCha8Rng,
        rand_core::{Rng, SeedableRng},
    };

    const JOB: DeltaJob = DeltaJob {
        app_s: 36_000.0,
        mtbf_s: 7200.0,
        full_mib: 8000.0,
        costs: DeltaCosts {
            start_s: 1.0,
            write_mib_s: 200.0,
            search_mib_s: None,
            restart_s: 10.0,
            read_mib_s: 400.0,
            file_s: 0.05,
            packing: Packing::NONE,
        },
        prices: Prices {
            dollars_per_hour: 5.0,
            dollars_per_gib_month: 0.1,
        },
    };
    const CURVE: VolumeCurve = VolumeCurve {
        repeated_mib: 300.0,
        time_s: 60.0,
        rate_mib_s: 0.3,
        full_mib: 8000.0,
    };

    fn best_of(curve: &VolumeCurve, job: &DeltaJob, aim: DeltaObjective) -> Vec<BestDeltaInterval> {
        let changed_mib = |distance: f64| curve.at(distance);
        choose_method(Choosing {
            changed_mib: &changed_mib,
            job,
            aim,
        })
        .expect("methods")
    }

    #[test]
    fn the_interval_for_full_checkpoints_is_near_dalys() {
        let changed_mib = |distance: f64| CURVE.at(distance);
        let full = optimal_interval(
            Method::Full,
            Choosing {
                changed_mib: &changed_mib,
                job: &JOB,
                aim: DeltaObjective::Time,
            },
        )
        .expect("an interval");
        assert!(
            (full.run.interval_s / full.daly_full_s - 1.0).abs() < 0.05,
            "{full:?}"
        );
    }

    #[test]
    fn no_interval_of_all_is_better_than_the_one_that_is_found() {
        let changed_mib = |distance: f64| CURVE.at(distance);
        let choosing = Choosing {
            changed_mib: &changed_mib,
            job: &JOB,
            aim: DeltaObjective::Time,
        };
        for method in [
            Method::Full,
            Method::Incremental,
            Method::adca(1.5),
            Method::bounded(0.0, 8),
        ] {
            let found = optimal_interval(method, choosing).expect("an interval");
            let least = (1..600)
                .map(|n| {
                    delta_run(method, &changed_mib, &JOB, n)
                        .expect("a run")
                        .total_s
                })
                .fold(f64::INFINITY, f64::min);
            assert!(found.run.total_s <= least * (1.0 + 1e-4), "{method:?}");
        }
    }

    #[test]
    fn what_hardly_changes_is_stored_as_deltas_and_what_changes_at_once_in_full() {
        let best = best_of(&CURVE, &JOB, DeltaObjective::Time);
        assert_ne!(best[0].run.method, Method::Full);
        assert!(best.last().expect("methods").run.method == Method::Full);
        let everything = VolumeCurve {
            repeated_mib: 8000.0,
            time_s: 0.0,
            rate_mib_s: 0.0,
            full_mib: 8000.0,
        };
        assert_eq!(
            best_of(&everything, &JOB, DeltaObjective::Time)[0]
                .run
                .method,
            Method::Full
        );
    }

    #[test]
    fn dear_storage_makes_the_cheapest_interval_longer() {
        let mut job = JOB;
        job.prices.dollars_per_gib_month = 5.0;
        let (fast, cheap) = (
            best_of(&CURVE, &job, DeltaObjective::Time)[0],
            best_of(&CURVE, &job, DeltaObjective::Cost)[0],
        );
        assert!(cheap.run.interval_s > fast.run.interval_s);
        assert!(DeltaObjective::Cost.of(&cheap.run) < DeltaObjective::Cost.of(&fast.run));
        assert!(cheap.run.total_s > fast.run.total_s);
    }

    #[test]
    fn failures_without_end_are_an_error() {
        let mut job = JOB;
        job.mtbf_s = 1e-3;
        let changed_mib = |distance: f64| CURVE.at(distance);
        let found = choose_method(Choosing {
            changed_mib: &changed_mib,
            job: &job,
            aim: DeltaObjective::Time,
        });
        assert!(found.is_err(), "{found:?}");
    }

    fn uniform(random: &mut ChaCha8Rng) -> f64 {
        ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Simulates one run event by event: failures, checkpoints and restarts, with the files of the method.
    fn simulate(random: &mut ChaCha8Rng, job: &DeltaJob, stretches: &[(f64, f64, f64)]) -> f64 {
        let mut next_failure = || -job.mtbf_s * uniform(random).ln();
        let (mut total, mut until_failure) = (0.0, next_failure());
        for (work, ckpt, restart) in stretches {
            let stretch = work + ckpt;
            loop {
                if until_failure > stretch {
                    until_failure -= stretch;
                    total += stretch;
                    break;
                }
                total += until_failure;
                until_failure = next_failure();
                // a restart may fail as well
                while until_failure <= *restart {
                    total += until_failure;
                    until_failure = next_failure();
                }
                until_failure -= restart;
                total += restart;
            }
        }
        total
    }

    /// Returns the segments of a run with the true volumes. Only the method's rule is shared with the code under test.
    fn stretches(
        method: Method,
        truth: &VolumeCurve,
        job: &DeltaJob,
        count: usize,
    ) -> Vec<(f64, f64, f64)> {
        let tau = job.app_s / count as f64;
        let states = stored_states(
            method,
            |n| truth.at(n as f64 * tau),
            job.full_mib,
            count - 1,
        );
        (0..count)
            .map(|i| {
                let packing = job.costs.packing;
                let time = |mib: f64, rate: Option<f64>| rate.map_or(0.0, |rate| mib / rate);
                let ckpt = states.get(i).map_or(0.0, |s| {
                    let ratio = if s.reach == 0 {
                        packing.full_ratio
                    } else {
                        packing.delta_ratio
                    };
                    job.costs.start_s
                        + time(s.stored_mib, packing.pack_mib_s)
                        + ratio * s.stored_mib / job.costs.write_mib_s
                });
                let restart = if i == 0 {
                    job.costs.restart_s
                } else {
                    let from = states[i - 1];
                    let read_mib = packing.full_ratio * job.full_mib
                        + packing.delta_ratio * (from.restore_mib - job.full_mib);
                    job.costs.restart_s
                        + read_mib / job.costs.read_mib_s
                        + time(from.restore_mib, packing.unpack_mib_s)
                        + f64::from(from.files) * job.costs.file_s
                };
                (tau, ckpt, restart)
            })
            .collect()
    }

    #[test]
    fn the_recommendation_is_within_2_percent_of_the_best_of_10000_simulated_runs() {
        const RUNS: u64 = 10_000;
        let mut random = ChaCha8Rng::seed_from_u64(20_120_701);
        for (truth, mtbf_s) in [
            (CURVE, 7200.0),
            (
                VolumeCurve {
                    repeated_mib: 100.0,
                    time_s: 400.0,
                    rate_mib_s: 2.0,
                    full_mib: 8000.0,
                },
                3600.0,
            ),
        ] {
            let job = DeltaJob {
                app_s: 10_000.0,
                mtbf_s,
                ..JOB
            };
            // input as a user has it: nine checkpoints whose changed volumes scatter by 5 %
            let mut pairs = Vec::new();
            for to in 1..9_u32 {
                for from in 0..to {
                    let distance_s = 45.0 * f64::from(to - from);
                    let scatter = 1.0 + 0.17 * (uniform(&mut random) - 0.5);
                    pairs.push(ChangedPair {
                        from,
                        to,
                        distance_s,
                        changed_mib: truth.at(distance_s) * scatter,
                        full_mib: truth.full_mib,
                    });
                }
            }
            let fitted = ChangedVolume::fit(&pairs).expect("a fit");
            let recommended = best_of(&fitted.curve, &job, DeltaObjective::Time)[0].run;
            // all methods get the same failures
            let mean = |method: Method, count: usize, runs: u64| {
                let stretches = stretches(method, &truth, &job, count);
                (0..runs)
                    .map(|seed| simulate(&mut ChaCha8Rng::seed_from_u64(seed), &job, &stretches))
                    .sum::<f64>()
                    / runs as f64
            };
            let counts = [3, 6, 9, 13, 18, 25, 35, 50, 70, 100, 140];
            // first a few runs of all candidates, then all runs of the best ones
            let mut grid: Vec<(f64, Method, usize)> = candidates()
                .into_iter()
                .flat_map(|method| counts.map(|count| (method, count)))
                .map(|(method, count)| (mean(method, count, 200), method, count))
                .collect();
            grid.sort_by(|a, b| a.0.total_cmp(&b.0));
            let best = grid[..40]
                .iter()
                .map(|(_, method, count)| mean(*method, *count, RUNS))
                .fold(f64::INFINITY, f64::min);
            let ours = mean(recommended.method, recommended.checkpoints + 1, RUNS);
            assert!(
                ours <= 1.02 * best,
                "{recommended:?}: {ours} s, best {best} s"
            );
            // the predicted time is close to the simulated one
            assert!(
                (recommended.total_s / ours - 1.0).abs() < 0.02,
                "{recommended:?}: {ours} s"
            );
        }
    }

    #[test]
    fn the_recommended_codec_is_within_2_percent_of_the_best_of_10000_simulated_runs() {
        const RUNS: u64 = 10_000;
        let codec = |full_ratio, delta_ratio, pack_mib_s, unpack_mib_s| Packing {
            full_ratio,
            delta_ratio,
            pack_mib_s: Some(pack_mib_s),
            unpack_mib_s: Some(unpack_mib_s),
        };
        let packings = [
            Packing::NONE,
            codec(0.3, 0.45, 600.0, 1500.0),
            codec(0.25, 0.4, 40.0, 300.0),
        ];
        for (write_mib_s, fastest) in [(40.0, 1), (4000.0, 0)] {
            let of = |packing| {
                let mut job = DeltaJob {
                    app_s: 10_000.0,
                    mtbf_s: 3600.0,
                    ..JOB
                };
                job.costs.packing = packing;
                job.costs.write_mib_s = write_mib_s;
                job.costs.read_mib_s = write_mib_s;
                job
            };
            // measurements of a codec scatter by 3 % here
            let seen = |packing: Packing| Packing {
                delta_ratio: packing.delta_ratio * 1.03,
                ..packing
            };
            let (chosen, recommended) = packings
                .iter()
                .enumerate()
                .map(|(i, p)| {
                    let p = if i == 0 { *p } else { seen(*p) };
                    (i, best_of(&CURVE, &of(p), DeltaObjective::Time)[0].run)
                })
                .min_by(|a, b| a.1.total_s.total_cmp(&b.1.total_s))
                .expect("codecs");
            assert_eq!(chosen, fastest, "{recommended:?}");
            let mean = |packing: usize, method: Method, count: usize, runs: u64| {
                let job = of(packings[packing]);
                let stretches = stretches(method, &CURVE, &job, count);
                (0..runs)
                    .map(|seed| simulate(&mut ChaCha8Rng::seed_from_u64(seed), &job, &stretches))
                    .sum::<f64>()
                    / runs as f64
            };
            let counts = [6, 9, 13, 18, 25, 35, 50, 70, 100];
            let mut grid: Vec<(f64, usize, Method, usize)> = Vec::new();
            for packing in 0..packings.len() {
                for method in candidates() {
                    for count in counts {
                        grid.push((mean(packing, method, count, 60), packing, method, count));
                    }
                }
            }
            grid.sort_by(|a, b| a.0.total_cmp(&b.0));
            let best = grid[..30]
                .iter()
                .map(|(_, packing, method, count)| mean(*packing, *method, *count, RUNS))
                .fold(f64::INFINITY, f64::min);
            let ours = mean(
                chosen,
                recommended.method,
                recommended.checkpoints + 1,
                RUNS,
            );
            assert!(
                ours <= 1.02 * best,
                "{recommended:?}: {ours} s, best {best} s"
            );
        }
    }
}
