//! How many checkpoints to take, and how far apart.

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
    /// Number of checkpoints taken.
    pub count: u64,
    /// Seconds between two of them; `None` if none is taken.
    pub interval_s: Option<f64>,
    /// Seconds of the run, including its checkpoints.
    pub total_s: f64,
}

/// Applies the thesis's rule for an overhead budget (section 5.3, Tables 4.5 and 4.6):
///
/// ```text
/// k = ⌊f·T/t⌋     interval = (1 + f)·T/k     count = k − 1     total = T + count·t
/// ```
///
/// T = `app_s` without checkpoints, t = `ckpt_s` of one, f = `overhead` as a fraction (0.3 for 30 %). With k ≤ 1 no checkpoint is taken. The
/// rule leaves one checkpoint of the budget unused; [`whole_budget`] uses it.
///
/// # Errors
/// Times or an overhead that are negative or not finite, `app_s` or `ckpt_s` of 0.
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

/// Takes all checkpoints that the budget pays for: count = k = ⌊f·T/t⌋, total = T + count·t. The program's own time is divided into count + 1
/// equal parts: interval = T/(count + 1), from the end of a checkpoint to the start of the next.
///
/// # Errors
/// Times or an overhead that are negative or not finite, `app_s` or `ckpt_s` of 0.
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

/// Returns ⌊f·T/t⌋. A quotient that misses a whole number only by rounding counts as that number: a budget of 0.3 pays for three checkpoints
/// of a tenth of the run each.
fn affordable(app_s: f64, ckpt_s: f64, overhead: f64) -> Result<u64, FitError> {
    let app_s = positive("the run time", app_s)?;
    let ckpt_s = positive("the time of a checkpoint", ckpt_s)?;
    let quotient = not_negative("the overhead", overhead)? * app_s / ckpt_s;
    let quotient = super::check::finite("the number of checkpoints", quotient)?;
    Ok((quotient * (1.0 + 4.0 * f64::EPSILON)).floor() as u64)
}

/// Returns the interval with the least expected loss to first order: √(2·t·M), in seconds, for a checkpoint of t = `ckpt_s` and a mean time
/// between failures M = `mtbf_s`. Source: J. W. Young, A first order approximation to the optimum checkpoint interval, 1974.
///
/// # Errors
/// Times that are not positive.
pub fn young_s(ckpt_s: f64, mtbf_s: f64) -> Result<f64, FitError> {
    let (t, m) = (
        positive("the time of a checkpoint", ckpt_s)?,
        positive("the mean time between failures", mtbf_s)?,
    );
    Ok((2.0 * t * m).sqrt())
}

/// Returns the same to higher order: √(2tM)·(1 + ⅓·√(t/2M) + t/(18M)) − t for t < 2M, else M. Source: J. T. Daly, A higher order estimate of
/// the optimum checkpoint interval for restart dumps, 2006.
///
/// # Errors
/// Times that are not positive.
pub fn daly_s(ckpt_s: f64, mtbf_s: f64) -> Result<f64, FitError> {
    let young = young_s(ckpt_s, mtbf_s)?;
    if ckpt_s >= 2.0 * mtbf_s {
        return Ok(mtbf_s);
    }
    let part = ckpt_s / (2.0 * mtbf_s);
    Ok(young * (1.0 + part.sqrt() / 3.0 + part / 9.0) - ckpt_s)
}

/// Returns the expected seconds of a run with failures: M·(e^((τ + t)/M) − 1)·T/τ for τ = `interval_s` of the program between two
/// checkpoints, T = `app_s`, t = `ckpt_s` and M = `mtbf_s`, with random failures and restarts that take no time. Infinite if the result
/// overflows. Source: J. T. Daly, as above.
///
/// # Errors
/// Times that are not positive.
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

#[cfg(test)]
mod tests {
    use super::{daly_s, expected_s, published, whole_budget, young_s};

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
        // half a second of checkpoint and interval for each second between failures: e^0.5 − 1 = 0.6487 s for 0.4 s of the program
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
