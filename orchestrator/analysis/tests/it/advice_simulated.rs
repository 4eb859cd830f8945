//! Compares advice with ten thousand simulated jobs of each candidate.

use crate::advice::sides;
use cvc_analysis::advice::{Advice, AdviceCandidate, Constraints, advise};
use cvc_model::pareto::ParetoRank;
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// Number of simulated jobs of each candidate.
const JOBS: u32 = 10_000;
/// Maximum relative difference between the simulated mean and the advice.
const PART: f64 = 0.02;

/// A simulated job: it computes, takes a checkpoint after each interval, fails at random times, and restarts.
struct Job {
    work_s: f64,
    /// Interval and time of a checkpoint, seconds; `None`: the job starts again from its beginning after each failure.
    checkpoints: Option<(f64, f64)>,
    restart_s: f64,
    mtbf_s: f64,
}

impl Job {
    fn simulate(&self, random: &mut ChaCha8Rng) -> f64 {
        let mut until_failure = || {
            let uniform = ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            -self.mtbf_s * uniform.ln()
        };
        let (mut clock, mut saved, mut failure) = (0.0, 0.0, until_failure());
        loop {
            let rest = self.work_s - saved;
            let (part, write) = match self.checkpoints {
                Some((interval, ckpt)) if interval < rest => (interval, ckpt),
                Some(_) | None => (rest, 0.0),
            };
            if clock + part + write < failure {
                clock += part + write;
                saved += part;
                if write == 0.0 {
                    return clock;
                }
                continue;
            }
            // repeat until a restart completes without a failure
            loop {
                clock = failure;
                failure += until_failure();
                if clock + self.restart_s < failure {
                    clock += self.restart_s;
                    break;
                }
            }
        }
    }
}

/// Returns the mean time of simulated jobs of a candidate of [`sides`], seconds.
fn simulated(
    candidate: &AdviceCandidate,
    constraints: &Constraints,
    random: &mut ChaCha8Rng,
) -> f64 {
    let base = match candidate.label.split(',').next() {
        Some("fast") => 100.0,
        Some("cheap") => 300.0,
        Some("poor") => 310.0,
        _ => 302.0,
    };
    let ckpt_s = base / 50.0;
    let job = Job {
        work_s: base * constraints.times,
        checkpoints: candidate.interval_s.map(|interval| (interval, ckpt_s)),
        restart_s: constraints.restart_s.unwrap_or(if candidate.checkpoints {
            ckpt_s
        } else {
            0.0
        }),
        mtbf_s: constraints.mtbf_s.expect("failures"),
    };
    let sum: f64 = (0..JOBS).map(|_| job.simulate(random)).sum();
    sum / f64::from(JOBS)
}

#[test]
fn advised_times_and_costs_are_those_of_simulated_jobs_and_nothing_shown_beats_what_to_take() {
    let sides = sides();
    let mut random = ChaCha8Rng::seed_from_u64(41);
    for (times, mtbf_s, every_s, restart_s) in [
        (20.0, 5000.0, None, None),
        (50.0, 20_000.0, Some(900.0), None),
        (20.0, 8000.0, Some(3600.0), Some(60.0)),
        (5.0, 100_000.0, None, Some(300.0)),
    ] {
        let constraints = Constraints {
            times,
            mtbf_s: Some(mtbf_s),
            every_s,
            restart_s,
            ..Constraints::default()
        };
        let Advice { candidates, .. } = advise(&sides, &constraints).remove(0);
        assert_eq!(candidates.len(), 8);
        let really: Vec<(&AdviceCandidate, f64, f64)> = candidates
            .iter()
            .map(|c| {
                let time_s = simulated(c, &constraints, &mut random);
                assert!(
                    (time_s / c.time_s.value - 1.0).abs() < PART,
                    "{}: {time_s} s simulated, {} s advised of {constraints:?}",
                    c.label,
                    c.time_s.value
                );
                let usd_per_s = c.cost_usd.expect("a cost").value / c.time_s.value;
                (c, time_s, time_s * usd_per_s)
            })
            .collect();
        for (taken, time_s, usd) in &really {
            if taken.standing != Some(ParetoRank::Front) {
                continue;
            }
            let better = really.iter().find(|(c, t, u)| {
                c.standing.is_some() && *t < time_s * (1.0 - PART) && *u < usd * (1.0 - PART)
            });
            assert!(
                better.is_none(),
                "{} is advised, {better:?} is better",
                taken.label
            );
        }
    }
}
