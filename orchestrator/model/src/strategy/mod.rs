//! Costs of checkpoint strategies under failures: the time that the program stops or is slowed (overhead), the time until a checkpoint is safe
//! (latency), and checkpoints at several levels. `ways.rs` has the costs of each strategy on given machines.

mod ways;

pub use ways::{Machines, Reach, UnknownCost, Way, WayCost, WayWaste, way_cost};

use super::{
    check::{not_negative, positive},
    fit::FitError,
    minimum::least_between,
};

/// Cost of one checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckpointCost {
    /// Delay of the program, seconds.
    pub overhead_s: f64,
    /// Seconds from the start of the checkpoint until a restart can use it; at least the overhead.
    pub latency_s: f64,
}

impl CheckpointCost {
    /// Returns the cost of a checkpoint that the program waits for.
    pub fn synchronous(seconds: f64) -> Self {
        Self {
            overhead_s: seconds,
            latency_s: seconds,
        }
    }

    /// Checks that the overhead is positive, and that the latency is at least as long.
    fn checked(self) -> Result<Self, FitError> {
        positive("the overhead of a checkpoint", self.overhead_s)?;
        let drain = not_negative(
            "the latency of a checkpoint without its overhead",
            self.latency_s - self.overhead_s,
        )?;
        Ok(Self {
            latency_s: self.overhead_s + drain,
            ..self
        })
    }

    /// Returns the shortest computing time between two checkpoints, seconds, for which one checkpoint is complete before the next begins: latency −
    /// overhead.
    pub fn shortest_interval_s(self) -> f64 {
        (self.latency_s - self.overhead_s).max(0.0)
    }
}

/// The rate of failures, and the duration of a restart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failures {
    /// Mean time between two failures, seconds; failures are random.
    pub mtbf_s: f64,
    /// Seconds from a failure until the program continues from its checkpoint.
    pub restart_s: f64,
}

/// Returns the waste: the relative increase of a program's time by checkpoints and failures, with τ = `interval_s` of computing between two
/// checkpoints. It is e^((L − C + R)/M)·(e^((τ + C)/M) − 1)·M/τ − 1, for overhead C, latency L, mean time between failures M and restart R.
///
/// A program that fails before a checkpoint is complete continues from the previous one, so L − C counts with every failure. With L = C and R = 0
/// the result follows from [`schedule::expected_s`](super::schedule::expected_s); with restarts it is Daly's complete time.
///
/// Source: N. H. Vaidya, Impact of checkpoint latency on overhead ratio of a checkpointing scheme, 1997.
///
/// # Errors
/// A time is not positive, the latency is shorter than the overhead, or the restart time is negative.
pub fn waste(cost: CheckpointCost, failures: Failures, interval_s: f64) -> Result<f64, FitError> {
    let CheckpointCost {
        overhead_s,
        latency_s,
    } = cost.checked()?;
    let tau = positive("the interval", interval_s)?;
    let m = positive("the mean time between failures", failures.mtbf_s)?;
    let r = not_negative("the time of a restart", failures.restart_s)?;
    let repeated = ((latency_s - overhead_s + r) / m).exp();
    Ok(repeated * ((tau + overhead_s) / m).exp_m1() * m / tau - 1.0)
}

/// The interval with the minimum waste.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestInterval {
    /// Computing time between two checkpoints, seconds.
    pub interval_s: f64,
    /// The value of [`waste`] at this interval.
    pub waste: f64,
    /// Whether a shorter interval would have less waste, but would begin a checkpoint before the previous one is complete.
    pub is_bound_by_latency: bool,
}

/// Precision with which the logarithm of the best interval is searched.
const FINE: f64 = 1e-9;

/// Returns the interval with the minimum [`waste`], which is not shorter than [`CheckpointCost::shortest_interval_s`]. Apart from this limit, the
/// interval does not depend on latency and restart.
///
/// # Errors
/// See [`waste`].
pub fn best_interval(cost: CheckpointCost, failures: Failures) -> Result<BestInterval, FitError> {
    let cost = cost.checked()?;
    let at = |log: f64| waste(cost, failures, log.exp());
    // there is one minimum: shorter intervals have too many checkpoints, and longer ones lose too much work
    let first_order = (2.0 * cost.overhead_s * failures.mtbf_s).sqrt();
    let (low, high) = ((first_order * 1e-3).ln(), (first_order * 1e3).ln());
    let free = least_between(low, high, FINE, at)?.exp();
    let shortest = cost.shortest_interval_s();
    let interval_s = free.max(shortest);
    Ok(BestInterval {
        interval_s,
        waste: waste(cost, failures, interval_s)?,
        is_bound_by_latency: free < shortest,
    })
}

/// Policy for a checkpoint that is due before the previous one is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatePolicy {
    /// The program waits until the previous checkpoint is safe.
    Wait,
    /// The checkpoint is skipped.
    Skip,
}

/// Effective interval and cost for a requested interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeptInterval {
    /// Computing time between two checkpoints that are taken, seconds.
    pub interval_s: f64,
    /// Cost of a checkpoint, including the program's wait for the previous one.
    pub cost: CheckpointCost,
}

/// Returns the effective interval and cost for a requested interval τ, with overhead C and latency L. If τ < L − C, a checkpoint is due before the
/// previous one is safe. With [`LatePolicy::Wait`] each checkpoint also costs a wait of L − C − τ. With [`LatePolicy::Skip`] only every k-th
/// checkpoint is taken, k = ⌈(L − C)/τ⌉.
///
/// # Errors
/// See [`waste`].
pub fn kept_interval(
    cost: CheckpointCost,
    interval_s: f64,
    policy: LatePolicy,
) -> Result<KeptInterval, FitError> {
    let cost = cost.checked()?;
    let tau = positive("the interval", interval_s)?;
    let missing_s = cost.shortest_interval_s() - tau;
    if missing_s <= 0.0 {
        return Ok(KeptInterval {
            interval_s: tau,
            cost,
        });
    }
    Ok(match policy {
        LatePolicy::Wait => KeptInterval {
            interval_s: tau,
            cost: CheckpointCost {
                overhead_s: cost.overhead_s + missing_s,
                latency_s: cost.latency_s,
            },
        },
        LatePolicy::Skip => KeptInterval {
            interval_s: tau * (cost.shortest_interval_s() / tau).ceil(),
            cost,
        },
    })
}

/// A level of checkpoints, such as checkpoints on nodes or on shared storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Cost of one checkpoint of this level.
    pub cost: CheckpointCost,
    /// Rate of the failures that require a checkpoint of this level, per second. Checkpoints of lower levels do not survive these failures.
    pub rate_per_s: f64,
}

/// Returns the waste of several levels, and the interval of each in seconds, to first order: the interval is √(2·C/λ) for each level, and the waste
/// Σ√(2·λ·C). It is valid if intervals are short compared with the time between failures. Latencies and restarts do not count to first order.
///
/// Source: A. Benoit and others, Towards optimal multi-level checkpointing, 2017, the first-order terms.
///
/// # Errors
/// There is no level, or a cost or rate is not positive.
pub fn first_order(levels: &[Level]) -> Result<(f64, Vec<f64>), FitError> {
    positive("the number of levels", levels.len() as f64)?;
    let mut waste = 0.0;
    let mut intervals_s = Vec::with_capacity(levels.len());
    for level in levels {
        let overhead_s = level.cost.checked()?.overhead_s;
        let rate = positive("the rate of failures of a level", level.rate_per_s)?;
        waste += (2.0 * rate * overhead_s).sqrt();
        intervals_s.push((2.0 * overhead_s / rate).sqrt());
    }
    Ok((waste, intervals_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{
        ChaCha8Rng,
        rand_core::{Rng, SeedableRng},
    };

    const TWELVE_HOURS: Failures = Failures {
        mtbf_s: 43_200.0,
        restart_s: 0.0,
    };

    fn cost(overhead_s: f64, latency_s: f64) -> CheckpointCost {
        CheckpointCost {
            overhead_s,
            latency_s,
        }
    }

    /// Returns a waste in percent, rounded to two decimal places.
    fn percent(waste: f64) -> f64 {
        (waste * 1e4).round() / 100.0
    }

    #[test]
    fn the_least_waste_on_128_nodes_is_that_of_the_vectors() {
        for (cost, expected) in [
            (CheckpointCost::synchronous(170.0), 9.42),
            (cost(17.0, 170.0), 3.22),
            (CheckpointCost::synchronous(13.1), 2.50),
        ] {
            let best = best_interval(cost, TWELVE_HOURS).expect("a minimum");
            assert_eq!(percent(best.waste), expected, "{cost:?}");
        }
        let level = |overhead_s, share| Level {
            cost: CheckpointCost::synchronous(overhead_s),
            rate_per_s: share / TWELVE_HOURS.mtbf_s,
        };
        let (waste, _) = first_order(&[level(13.1, 0.85), level(170.0, 0.15)]).expect("two levels");
        assert_eq!(percent(waste), 5.71);
        let (waste, intervals_s) =
            first_order(&[level(13.1, 0.85), level(17.0, 0.15)]).expect("two levels");
        assert_eq!(percent(waste), 3.36);
        assert!(intervals_s[0] < intervals_s[1]);
    }

    #[test]
    fn an_interval_waits_for_the_checkpoint_before() {
        let day = Failures {
            mtbf_s: 86_400.0,
            restart_s: 0.0,
        };
        // on 500 nodes, writing to shared storage takes longer than Young's interval
        let best = best_interval(cost(1.094, 1041.7 + 1.094), day).expect("a minimum");
        assert!(best.is_bound_by_latency);
        assert!((best.interval_s - 1041.7).abs() < 1e-6);
        let free = best_interval(CheckpointCost::synchronous(1.094), day).expect("a minimum");
        assert!(!free.is_bound_by_latency && (free.interval_s / 434.7 - 1.0).abs() < 0.01);
        for wrong in [cost(0.0, 1.0), cost(2.0, 1.0), cost(f64::NAN, 1.0)] {
            assert!(best_interval(wrong, day).is_err(), "{wrong:?}");
        }
    }

    /// Simulates a long program and returns its waste. Failures are random, and each loses the work since the last complete checkpoint.
    fn simulated(
        cost: CheckpointCost,
        failures: Failures,
        interval_s: f64,
        policy: LatePolicy,
        seed: u64,
    ) -> f64 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut next_failure = || {
            let unit = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            -failures.mtbf_s * (1.0 - unit).ln()
        };
        let drain_s = cost.latency_s - cost.overhead_s;
        let stretches = 200_000;
        // numbers of segments that are computed, that are in a complete checkpoint, and that are in the current checkpoint
        let (mut time_s, mut done, mut safe, mut held) = (0.0, 0u32, 0u32, 0u32);
        let mut complete_s = f64::INFINITY;
        let mut failure_s = next_failure();
        while safe < stretches {
            let due_s = time_s + interval_s;
            let is_late = complete_s.is_finite() && complete_s > due_s;
            let end_s = match policy {
                LatePolicy::Skip if is_late => due_s,
                LatePolicy::Wait if is_late => complete_s + cost.overhead_s,
                _ => due_s + cost.overhead_s,
            };
            if complete_s <= end_s.min(failure_s) {
                (safe, complete_s) = (held, f64::INFINITY);
            }
            if failure_s < end_s {
                (done, complete_s) = (safe, f64::INFINITY);
                time_s = failure_s;
                loop {
                    failure_s = time_s + next_failure();
                    let back_s = time_s + failures.restart_s;
                    if failure_s >= back_s {
                        time_s = back_s;
                        break;
                    }
                    time_s = failure_s;
                }
                continue;
            }
            (time_s, done) = (end_s, done + 1);
            if complete_s.is_infinite() {
                (held, complete_s) = (done, time_s + drain_s);
            }
        }
        time_s / (f64::from(safe) * interval_s) - 1.0
    }

    fn assert_simulated(cost: CheckpointCost, restart_s: f64, interval_s: f64, policy: LatePolicy) {
        let failures = Failures {
            restart_s,
            ..TWELVE_HOURS
        };
        let kept = kept_interval(cost, interval_s, policy).expect("an interval");
        let expected = 1.0 + waste(kept.cost, failures, kept.interval_s).expect("a waste");
        let found = 1.0 + simulated(cost, failures, interval_s, policy, 42);
        assert!(
            (found / expected - 1.0).abs() < 0.003,
            "{cost:?} {policy:?}: {expected} expected, {found} simulated"
        );
    }

    #[test]
    fn the_closed_form_is_that_of_a_simulation() {
        for (cost, restart_s, interval_s) in [
            (CheckpointCost::synchronous(170.0), 0.0, 3700.0),
            (cost(17.0, 170.0), 60.0, 1200.0),
            (cost(17.0, 1200.0), 300.0, 1500.0),
            (CheckpointCost::synchronous(13.1), 600.0, 1000.0),
        ] {
            assert_simulated(cost, restart_s, interval_s, LatePolicy::Wait);
        }
    }

    #[test]
    fn checkpoints_that_are_due_too_early_wait_or_are_left_out() {
        for (cost, interval_s) in [(cost(10.0, 1000.0), 400.0), (cost(17.0, 1200.0), 300.0)] {
            for policy in [LatePolicy::Wait, LatePolicy::Skip] {
                assert_simulated(cost, 60.0, interval_s, policy);
            }
        }
        let of = |policy| kept_interval(cost(10.0, 1000.0), 400.0, policy).expect("an interval");
        assert_eq!(of(LatePolicy::Skip).interval_s, 1200.0);
        assert_eq!(of(LatePolicy::Wait).cost.overhead_s, 10.0 + 990.0 - 400.0);
        let enough = kept_interval(cost(10.0, 1000.0), 990.0, LatePolicy::Skip).expect("enough");
        assert_eq!(
            (enough.interval_s, enough.cost),
            (990.0, cost(10.0, 1000.0))
        );
    }
}
