//! How many checkpoints to take, and at which interval.

use super::{
    check::{not_negative, positive},
    fit::FitError,
};
use serde::Serialize;

/// The checkpoints of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Schedule {
    /// Number of checkpoints that the budget pays for.
    pub k: u64,
    /// Number of checkpoints that are taken.
    pub count: u64,
    /// Seconds between two checkpoints; `None` if none is taken.
    pub interval_s: Option<f64>,
    /// Seconds of the run, including its checkpoints.
    pub total_s: f64,
}

/// Returns the schedule by the thesis's rule for an overhead budget (section 5.3, Tables 4.5 and 4.6):
///
/// ```text
/// k = ⌊f·T/t⌋     interval = (1 + f)·T/k     count = k − 1     total = T + count·t
/// ```
///
/// T = `app_s` is the time without checkpoints, t = `ckpt_s` the time of one checkpoint, f = `overhead` a fraction (0.3 for 30 %). With k ≤ 1 no
/// checkpoint is taken. The rule leaves one checkpoint of the budget unused; [`whole_budget`] uses it.
///
/// # Errors
/// A time or the overhead is negative or not finite, or `app_s` or `ckpt_s` is 0.
pub fn published(app_s: f64, ckpt_s: f64, overhead: f64) -> Result<Schedule, FitError> {
    let k = affordable(app_s, ckpt_s, overhead)?;
    let count = k.saturating_sub(1);
    let interval_s = (count > 0).then(|| (1.0 + overhead) * app_s / k as f64);
    Ok(Schedule {
        k,
        count,
        interval_s,
        total_s: app_s + count as f64 * ckpt_s,
    })
}

/// Returns the schedule with all checkpoints that the budget pays for: count = k = ⌊f·T/t⌋, total = T + count·t. The program's own time is divided
/// into count + 1 equal parts: interval = T/(count + 1), from the end of a checkpoint to the start of the next.
///
/// # Errors
/// A time or the overhead is negative or not finite, or `app_s` or `ckpt_s` is 0.
pub fn whole_budget(app_s: f64, ckpt_s: f64, overhead: f64) -> Result<Schedule, FitError> {
    let k = affordable(app_s, ckpt_s, overhead)?;
    let interval_s = (k > 0).then(|| app_s / (k as f64 + 1.0));
    Ok(Schedule {
        k,
        count: k,
        interval_s,
        total_s: app_s + k as f64 * ckpt_s,
    })
}

/// Returns ⌊f·T/t⌋. A quotient that differs from a whole number only by rounding counts as that number: a budget of 0.3 pays for three checkpoints
/// that each take a tenth of the run.
fn affordable(app_s: f64, ckpt_s: f64, overhead: f64) -> Result<u64, FitError> {
    let app_s = positive("the run time", app_s)?;
    let ckpt_s = positive("the time of a checkpoint", ckpt_s)?;
    let quotient = not_negative("the overhead", overhead)? * app_s / ckpt_s;
    let quotient = super::check::finite("the number of checkpoints", quotient)?;
    Ok((quotient * (1.0 + 4.0 * f64::EPSILON)).floor() as u64)
}

/// Returns Young's interval, seconds: the interval with the minimum expected loss to first order, √(2·t·M), for a checkpoint of t = `ckpt_s` and a
/// mean time between failures M = `mtbf_s`. Source: J. W. Young, A first order approximation to the optimum checkpoint interval, 1974.
///
/// # Errors
/// A time is not positive.
pub fn young_s(ckpt_s: f64, mtbf_s: f64) -> Result<f64, FitError> {
    let (t, m) = (
        positive("the time of a checkpoint", ckpt_s)?,
        positive("the mean time between failures", mtbf_s)?,
    );
    Ok((2.0 * t * m).sqrt())
}

/// Returns Daly's interval, seconds, a higher-order version of [`young_s`]: √(2tM)·(1 + ⅓·√(t/2M) + t/(18M)) − t for t < 2M, else M. Source: J. T.
/// Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, 2006.
///
/// # Errors
/// A time is not positive.
pub fn daly_s(ckpt_s: f64, mtbf_s: f64) -> Result<f64, FitError> {
    let young = young_s(ckpt_s, mtbf_s)?;
    if ckpt_s >= 2.0 * mtbf_s {
        return Ok(mtbf_s);
    }
    let part = ckpt_s / (2.0 * mtbf_s);
    Ok(young * (1.0 + part.sqrt() / 3.0 + part / 9.0) - ckpt_s)
}

/// Returns the fraction by which checkpoints lengthen a program: t/τ, for t = `ckpt_s` of one checkpoint and τ = `interval_s` of computing between
/// two checkpoints. It equals the overhead in [`expected_s`] without failures. Callers must compute the overhead, the time and the cost of a job with
/// the same interval.
pub fn overhead(ckpt_s: f64, interval_s: f64) -> f64 {
    ckpt_s / interval_s
}

/// Returns the expected seconds of a run with failures: M·(e^((τ + t)/M) − 1)·T/τ. τ = `interval_s` is the computing time between two checkpoints,
/// T = `app_s`, t = `ckpt_s` and M = `mtbf_s`. Failures are random, and restarts take no time. The result is infinite if it overflows. Source: J.
/// T. Daly, as for [`daly_s`].
///
/// # Errors
/// A time is not positive.
pub fn expected_s(app_s: f64, ckpt_s: f64, interval_s: f64, mtbf_s: f64) -> Result<f64, FitError> {
    let (app, t) = (
        positive("the run time", app_s)?,
        positive("the time of a checkpoint", ckpt_s)?,
    );
    let (tau, m) = (
        positive("the interval", interval_s)?,
        positive("the mean time between failures", mtbf_s)?,
    );
    Ok(m * ((tau + t) / m).exp_m1() * app / tau)
}

/// Returns the number of checkpoints in a program of `app_s` seconds: one after each `interval_s` of computing, and none at its end.
pub fn checkpoints_in(app_s: f64, interval_s: f64) -> f64 {
    ((app_s / interval_s).ceil() - 1.0).max(0.0)
}

/// Expected duration of a run with failures, by parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WithFailures {
    /// Total time, seconds: the program's own time and the three parts below.
    pub total_s: f64,
    /// Number of failures during the run.
    pub failures: f64,
    /// Time of completed checkpoints, seconds.
    pub checkpoints_s: f64,
    /// Time of work that is done again, seconds: computing and incomplete checkpoints since the last complete checkpoint.
    pub rework_s: f64,
    /// Time of restarts, including those ended by a failure, seconds.
    pub restarts_s: f64,
}

/// Returns the expected seconds of a run with failures, with its parts.
///
/// A segment of w seconds without failures, with restarts of R = `restart_s`, takes M·e^(R/M)·(e^(w/M) − 1) with M = `mtbf_s`. Each segment is τ =
/// `interval_s` of computing and a checkpoint of t = `ckpt_s`. The last segment is the rest of T = `app_s`, without a checkpoint. Failures are
/// random, and also occur during checkpoints and restarts. Without the last segment, the total is M·e^(R/M)·(e^((τ + t)/M) − 1)·T/τ.
///
/// There are total/M failures. Each is followed by restarts, which take M·(1 − e^(−R/M)) on average before they are complete or fail. The rest,
/// after the program and completed checkpoints, is lost work. The result is infinite if it overflows.
///
/// Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, 2006: the complete expected time.
///
/// # Errors
/// A time is not positive, or the restart time is negative.
pub fn with_failures(
    app_s: f64,
    ckpt_s: f64,
    interval_s: f64,
    mtbf_s: f64,
    restart_s: f64,
) -> Result<WithFailures, FitError> {
    let (app, t) = (
        positive("the run time", app_s)?,
        positive("the time of a checkpoint", ckpt_s)?,
    );
    let (tau, m) = (
        positive("the interval", interval_s)?,
        positive("the mean time between failures", mtbf_s)?,
    );
    let r = not_negative("the time of a restart", restart_s)?;
    let count = checkpoints_in(app, tau);
    let last = app - count * tau;
    let stretches = count * ((tau + t) / m).exp_m1() + (last / m).exp_m1();
    let total_s = m * (r / m).exp() * stretches;
    let restarts_s = total_s * -(-r / m).exp_m1();
    let checkpoints_s = count * t;
    Ok(WithFailures {
        total_s,
        failures: total_s / m,
        checkpoints_s,
        // rounding may make the difference negative
        rework_s: (total_s - app - checkpoints_s - restarts_s).max(0.0),
        restarts_s,
    })
}

#[cfg(test)]
mod tests {
    use super::{daly_s, expected_s, overhead, published, whole_budget, with_failures, young_s};
    use rand_chacha::{
        ChaCha8Rng,
        rand_core::{Rng, SeedableRng},
    };

    #[test]
    fn the_published_rule_leaves_a_checkpoint_of_the_budget_unused() {
        let (ours, theirs) = (
            whole_budget(1137.53, 102.743, 0.3).expect("a schedule"),
            published(1137.53, 102.743, 0.3).expect("a schedule"),
        );
        assert_eq!((ours.count, theirs.count), (3, 2));
        assert!(ours.total_s <= 1.3 * 1137.53, "within the budget");
        assert!((ours.interval_s.expect("an interval") - 1137.53 / 4.0).abs() < 1e-9);
    }

    #[test]
    fn the_published_rule_takes_no_checkpoint_if_the_budget_pays_for_at_most_one() {
        for overhead in [0.0, 0.05, 0.15] {
            let schedule = published(1000.0, 100.0, overhead).expect("a schedule");
            assert_eq!(
                (schedule.count, schedule.interval_s, schedule.total_s),
                (0, None, 1000.0),
                "{overhead}"
            );
        }
        assert_eq!(
            whole_budget(1000.0, 100.0, 0.15).expect("a schedule").count,
            1
        );
        assert_eq!(
            whole_budget(1000.0, 100.0, 0.3).expect("a schedule").count,
            3,
            "three tenths are three"
        );
    }

    #[test]
    fn daly_is_close_to_young_for_rare_failures_and_equals_the_mean_time_for_frequent_ones() {
        let (young, daly) = (
            young_s(10.0, 86_400.0).expect("s"),
            daly_s(10.0, 86_400.0).expect("s"),
        );
        assert!((young - 1314.534).abs() < 1e-3, "{young}");
        assert!(
            (daly - (young - 2.0 / 3.0 * 10.0 + young * 10.0 / (18.0 * 86_400.0))).abs() < 1e-9,
            "{daly}"
        );
        assert_eq!(daly_s(300.0, 100.0).expect("s"), 100.0);
    }

    #[test]
    fn rare_failures_cost_little_and_frequent_ones_everything() {
        let rare = expected_s(600.0, 2.0, 100.0, 1e9).expect("s");
        assert!((rare - 612.0).abs() < 1e-3, "{rare}");
        assert!((rare / 600.0 - 1.0 - overhead(2.0, 100.0)).abs() < 1e-5);
        // checkpoint and interval take half of the mean time between failures: e^0.5 − 1 = 0.6487 s for 0.4 s of the program
        assert!(
            (expected_s(10.0, 0.1, 0.4, 1.0).expect("s") - 10.0 * 0.648_721_27 / 0.4).abs() < 1e-6
        );
        assert!(
            expected_s(600.0, 2000.0, 100.0, 1.0)
                .expect("s")
                .is_infinite()
        );
        assert!(expected_s(600.0, 2.0, 0.0, 1.0).is_err());
    }

    /// Simulates one run event by event. Returns total, failures, checkpoints, rework, restarts.
    fn simulate(
        random: &mut ChaCha8Rng,
        [app, ckpt, interval, mtbf, restart]: [f64; 5],
    ) -> [f64; 5] {
        let mut next_failure = || {
            let uniform = ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            -mtbf * uniform.ln()
        };
        let [
            mut total,
            mut failures,
            mut checkpoints,
            mut rework,
            mut restarts,
        ] = [0.0; 5];
        let (mut done, mut until_failure) = (0.0, next_failure());
        while done < app {
            let part = interval.min(app - done);
            let is_last = part >= app - done;
            let stretch = if is_last { part } else { part + ckpt };
            if until_failure > stretch {
                until_failure -= stretch;
                total += stretch;
                checkpoints += stretch - part;
                done += part;
                continue;
            }
            total += until_failure;
            rework += until_failure;
            failures += 1.0;
            until_failure = next_failure();
            // a restart may fail as well
            while until_failure <= restart {
                total += until_failure;
                restarts += until_failure;
                failures += 1.0;
                until_failure = next_failure();
            }
            until_failure -= restart;
            total += restart;
            restarts += restart;
        }
        [total, failures, checkpoints, rework, restarts]
    }

    #[test]
    fn a_simulation_takes_as_long_as_expected_and_for_the_same_reasons() {
        let mut random = ChaCha8Rng::seed_from_u64(20_061_101);
        for times in [
            [36_000.0, 60.0, 2000.0, 43_200.0, 120.0],
            [1000.0, 5.0, 90.0, 300.0, 20.0],
            [500.0, 40.0, 100.0, 150.0, 100.0],
            [100.0, 5.0, 400.0, 200.0, 0.0],
        ] {
            let [app, ckpt, interval, mtbf, restart] = times;
            let expected = with_failures(app, ckpt, interval, mtbf, restart).expect("times");
            let expected = [
                expected.total_s,
                expected.failures,
                expected.checkpoints_s,
                expected.rework_s,
                expected.restarts_s,
            ];
            const RUNS: usize = 20_000;
            let runs: Vec<[f64; 5]> = (0..RUNS).map(|_| simulate(&mut random, times)).collect();
            for (part, expected) in expected.into_iter().enumerate() {
                let mean = runs.iter().map(|run| run[part]).sum::<f64>() / RUNS as f64;
                let variance = runs
                    .iter()
                    .map(|run| (run[part] - mean).powi(2))
                    .sum::<f64>();
                let error = (variance / (RUNS * (RUNS - 1)) as f64).sqrt();
                assert!(
                    (mean - expected).abs() <= 4.0 * error + 1e-9 * expected,
                    "{times:?}, part {part}: {mean} ± {error}, expected {expected}"
                );
            }
        }
    }

    #[test]
    fn many_equal_stretches_are_dalys_formula() {
        // 10 h in segments of half an hour: the last segment has no checkpoint, but Daly's formula counts one
        let (app, t, tau, m, r) = (36e6, 60.0, 1800.0, 43_200.0, 90.0_f64);
        let ours = with_failures(app, t, tau, m, r).expect("times").total_s;
        let daly = (r / m).exp() * expected_s(app, t, tau, m).expect("times");
        assert!((ours / daly - 1.0).abs() < 1e-5, "{ours} {daly}");
        assert!(with_failures(1.0, 1.0, 1.0, 1.0, -1.0).is_err());
        assert!(
            with_failures(1e9, 1.0, 1e6, 1.0, 0.0)
                .expect("times")
                .total_s
                .is_infinite()
        );
    }

    #[test]
    fn wrong_times_are_refused() {
        for (app, ckpt, overhead) in [
            (0.0, 1.0, 0.3),
            (1.0, 0.0, 0.3),
            (1.0, 1.0, -0.1),
            (f64::NAN, 1.0, 0.3),
            (1.0, f64::INFINITY, 0.3),
        ] {
            assert!(
                published(app, ckpt, overhead).is_err()
                    && whole_budget(app, ckpt, overhead).is_err(),
                "{app} {ckpt} {overhead}"
            );
        }
        assert!(young_s(-1.0, 1.0).is_err() && daly_s(1.0, 0.0).is_err());
    }
}
