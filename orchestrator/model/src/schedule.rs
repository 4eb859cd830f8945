//! How many checkpoints, and how far apart.

use super::{
    check::{not_negative, positive},
    fit::FitError,
};
use serde::Serialize;

/// Checkpoints of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Schedule {
    /// Checkpoints that the budget would pay for.
    pub k: u64,
    /// Checkpoints that are taken.
    pub count: u64,
    /// Seconds between two of them; `None` if none is taken.
    pub interval_s: Option<f64>,
    /// Seconds of the run with its checkpoints.
    pub total_s: f64,
}

/// The thesis's rule for an overhead budget (section 5.3, Tables 4.5 and 4.6):
///
/// ```text
/// k = ⌊f·T/t⌋     interval = (1 + f)·T/k     count = k − 1     total = T + count·t
/// ```
///
/// T = `app_s` without checkpoints, t = `ckpt_s` of one, f = `overhead` as a fraction (0.3 for 30 %). With k ≤ 1 no checkpoint is taken. Of the budget, up to
/// half stays unused: [`whole_budget`] uses it.
///
/// # Errors
/// Times or an overhead that are negative or no numbers, `app_s` or `ckpt_s` of 0.
pub fn published(app_s: f64, ckpt_s: f64, overhead: f64) -> Result<Schedule, FitError> {
    let k = affordable(app_s, ckpt_s, overhead)?;
    let count = k.saturating_sub(1);
    let interval_s = (count > 0).then(|| (1.0 + overhead) * app_s / k as f64);
    Ok(Schedule { k, count, interval_s, total_s: app_s + count as f64 * ckpt_s })
}

/// All checkpoints that the budget pays for: count = k = ⌊f·T/t⌋, total = T + count·t, with the program's own time cut into count + 1 equal
/// parts: interval = T/(count + 1), from the end of a checkpoint to the start of the next.
///
/// # Errors
/// Times or an overhead that are negative or no numbers, `app_s` or `ckpt_s` of 0.
pub fn whole_budget(app_s: f64, ckpt_s: f64, overhead: f64) -> Result<Schedule, FitError> {
    let k = affordable(app_s, ckpt_s, overhead)?;
    let interval_s = (k > 0).then(|| app_s / (k as f64 + 1.0));
    Ok(Schedule { k, count: k, interval_s, total_s: app_s + k as f64 * ckpt_s })
}

/// ⌊f·T/t⌋. A quotient that misses a whole number by rounding alone counts as that number: a budget of 0.3 for three checkpoints of a tenth of the run
/// pays for three.
fn affordable(app_s: f64, ckpt_s: f64, overhead: f64) -> Result<u64, FitError> {
    let app_s = positive("the run time", app_s)?;
    let ckpt_s = positive("the time of a checkpoint", ckpt_s)?;
    let quotient = not_negative("the overhead", overhead)? * app_s / ckpt_s;
    let quotient = super::check::finite("the number of checkpoints", quotient)?;
    Ok((quotient * (1.0 + 4.0 * f64::EPSILON)).floor() as u64)
}

/// Interval with the least expected loss to first order: √(2·t·M), in seconds, for a checkpoint of t = `ckpt_s` and a mean time between failures
/// M = `mtbf_s`. Source: J. W. Young, A first order approximation to the optimum checkpoint interval, 1974.
///
/// # Errors
/// Times that are not positive.
pub fn young_s(ckpt_s: f64, mtbf_s: f64) -> Result<f64, FitError> {
    let (t, m) = (positive("the time of a checkpoint", ckpt_s)?, positive("the mean time between failures", mtbf_s)?);
    Ok((2.0 * t * m).sqrt())
}

/// The same to higher order: √(2tM)·(1 + ⅓·√(t/2M) + t/(18M)) − t while t < 2M, and M from there on. Source: J. T. Daly, A higher order estimate of
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

/// Expected seconds of a run with failures: M·(e^((τ + t)/M) − 1)·T/τ for τ = `interval_s` of the program between two checkpoints, T = `app_s`, t = `ckpt_s`
/// and M = `mtbf_s`, with failures at random and restarts that take no time. Infinite where no number can hold it. Source: J. T. Daly, as above.
///
/// # Errors
/// Times that are not positive.
pub fn expected_s(app_s: f64, ckpt_s: f64, interval_s: f64, mtbf_s: f64) -> Result<f64, FitError> {
    let (app, t) = (positive("the run time", app_s)?, positive("the time of a checkpoint", ckpt_s)?);
    let (tau, m) = (positive("the interval", interval_s)?, positive("the mean time between failures", mtbf_s)?);
    Ok(m * ((tau + t) / m).exp_m1() * app / tau)
}

#[cfg(test)]
mod tests {
    use super::{daly_s, expected_s, published, whole_budget, young_s};

    #[test]
    fn the_published_rule_leaves_a_checkpoint_of_the_budget_unused() {
        let (ours, theirs) =
            (whole_budget(1137.53, 102.743, 0.3).expect("a schedule"), published(1137.53, 102.743, 0.3).expect("a schedule"));
        assert_eq!((ours.count, theirs.count), (3, 2));
        assert!(ours.total_s <= 1.3 * 1137.53, "within the budget");
        assert!((ours.interval_s.expect("an interval") - 1137.53 / 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_budget_for_one_checkpoint_or_none_gives_none_by_the_published_rule() {
        for overhead in [0.0, 0.05, 0.15] {
            let schedule = published(1000.0, 100.0, overhead).expect("a schedule");
            assert_eq!((schedule.count, schedule.interval_s, schedule.total_s), (0, None, 1000.0), "{overhead}");
        }
        assert_eq!(whole_budget(1000.0, 100.0, 0.15).expect("a schedule").count, 1);
        assert_eq!(whole_budget(1000.0, 100.0, 0.3).expect("a schedule").count, 3, "three tenths are three");
    }

    #[test]
    fn daly_is_close_to_young_for_rare_failures_and_the_mean_time_for_constant_ones() {
        let (young, daly) = (young_s(10.0, 86_400.0).expect("s"), daly_s(10.0, 86_400.0).expect("s"));
        assert!((young - 1314.534).abs() < 1e-3, "{young}");
        assert!((daly - (young - 2.0 / 3.0 * 10.0 + young * 10.0 / (18.0 * 86_400.0))).abs() < 1e-9, "{daly}");
        assert_eq!(daly_s(300.0, 100.0).expect("s"), 100.0);
    }

    #[test]
    fn failures_cost_little_if_they_are_rare_and_everything_if_they_are_not() {
        let rare = expected_s(600.0, 2.0, 100.0, 1e9).expect("s");
        assert!((rare - 612.0).abs() < 1e-3, "{rare}");
        // half a second of checkpoint and interval for each second between failures: e^0.5 − 1 = 0.6487 s for 0.4 s of the program
        assert!((expected_s(10.0, 0.1, 0.4, 1.0).expect("s") - 10.0 * 0.648_721_27 / 0.4).abs() < 1e-6);
        assert!(expected_s(600.0, 2000.0, 100.0, 1.0).expect("s").is_infinite());
        assert!(expected_s(600.0, 2.0, 0.0, 1.0).is_err());
    }

    #[test]
    fn wrong_times_are_refused() {
        for (app, ckpt, overhead) in [(0.0, 1.0, 0.3), (1.0, 0.0, 0.3), (1.0, 1.0, -0.1), (f64::NAN, 1.0, 0.3), (1.0, f64::INFINITY, 0.3)] {
            assert!(published(app, ckpt, overhead).is_err() && whole_budget(app, ckpt, overhead).is_err(), "{app} {ckpt} {overhead}");
        }
        assert!(young_s(-1.0, 1.0).is_err() && daly_s(1.0, 0.0).is_err());
    }
}
