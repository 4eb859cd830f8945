//! Intervals of a mean by Student's t, of the values or of their logarithms.

use super::{
    interval::{Interval, LEVEL},
    moments::{mean, sample_sd},
};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Positive values whose largest is more than this many times the smallest are taken to be skewed.
const SKEWED: f64 = 2.0;

/// How an interval of a mean was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Student's t of the values.
    Values,
    /// Student's t of their logarithms, for the mean of a log-normal distribution.
    Logarithms,
}

impl Scale {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Values, Self::Logarithms];

    /// The name in data files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Logarithms => "logarithms",
        }
    }
}

/// Returns the two-sided 95 % quantile of Student's t; infinite without degrees of freedom.
pub fn t_quantile(freedom: f64) -> f64 {
    t_quantile_at(LEVEL, freedom)
}

/// Returns the two-sided quantile at another level.
fn t_quantile_at(level: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.5 + level / 2.0))
}

/// Returns the probability that Student's t is at least as far from 0 as this, on either side.
pub fn t_probability(t: f64, freedom: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, freedom) {
        Ok(student) if t.is_finite() => 2.0 * student.sf(t.abs()),
        Ok(_) => 0.0,
        Err(_) => 1.0,
    }
}

/// Returns whether positive values differ so much that they are taken for log-normal.
pub fn is_skewed(values: &[f64]) -> bool {
    let (smallest, largest) = values.iter().fold((f64::INFINITY, 0.0f64), |(s, l), v| (s.min(*v), l.max(*v)));
    smallest > 0.0 && largest > SKEWED * smallest
}

/// Returns the 95 % interval of the mean of the distribution that the values are from, and how it was made. `None` for fewer than two values.
///
/// Student's t, x̄ ± t s/√n. Positive values that differ by more than a factor of two, or whose interval would reach down to 0, are taken for
/// log-normal: exp(m + v/2 ± t √(v/n + v²/(2(n - 1)))) with mean m and variance v of the logarithms (Cox's method with Student's t: Olsson
/// 2005, Confidence intervals for the mean of a log-normal distribution, J. Stat. Educ. 13). It is widened to the mean of the values where
/// that lies outside.
pub fn mean_interval(values: &[f64]) -> Option<(Interval, Scale)> {
    mean_interval_at(LEVEL, values)
}

/// Returns the same at another level.
pub(super) fn mean_interval_at(level: f64, values: &[f64]) -> Option<(Interval, Scale)> {
    let (centre, n) = (mean(values)?, values.len() as f64);
    let t = t_quantile_at(level, n - 1.0);
    let half = t * sample_sd(values)? / n.sqrt();
    // without scatter the width is 0, whatever t is
    let half = if half > 0.0 { half } else { 0.0 };
    let plain = Interval { low: centre - half, high: centre + half };
    if is_skewed(values) || plain.low <= 0.0 && values.iter().all(|v| *v > 0.0) {
        let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
        let (m, v) = (mean(&logs)?, sample_sd(&logs)?.powi(2));
        let half = t * (v / n + v * v / (2.0 * (n - 1.0))).sqrt();
        let [low, high] = [-half, half].map(|h| (m + v / 2.0 + h).exp());
        if high.is_finite() {
            return Some((Interval { low: low.min(centre), high: high.max(centre) }, Scale::Logarithms));
        }
        // the logarithms of two values may tell nothing: the mean is positive at least
        return Some((Interval { low: plain.low.max(0.0), ..plain }, Scale::Values));
    }
    Some((plain, Scale::Values))
}

#[cfg(test)]
mod tests {
    use super::{
        super::random::{
            samples::{normal, share},
            seeded,
        },
        *,
    };

    /// Reference values of R's t.test.
    #[test]
    fn known_values() {
        let (i, scale) = mean_interval(&[3.1, 2.7, 4.4, 3.0, 2.9, 3.3, 3.2]).expect("an interval");
        // 3.2285714 -+ 2.4469119 * 0.5529144 / sqrt(7)
        assert!((i.low - 2.717_210).abs() < 1e-5 && (i.high - 3.739_933).abs() < 1e-5 && scale == Scale::Values, "{i:?}");
        assert!(mean_interval(&[1.0]).is_none());
        let (same, _) = mean_interval(&[0.1; 3]).expect("an interval");
        assert_eq!((same.low, same.high), (0.1, 0.1));
        assert!((t_probability(4.302_653, 2.0) - 0.05).abs() < 1e-6 && t_probability(f64::INFINITY, 2.0) == 0.0);
    }

    #[test]
    fn times_are_never_expected_below_zero() {
        for values in [&[1.0, 1.5][..], &[1.0, 1.0, 2.0], &[0.1, 5.0, 0.2, 0.1], &[1.0, 1e6]] {
            let (i, _) = mean_interval(values).expect("an interval");
            assert!(i.low >= 0.0 && i.high.is_finite() && i.low < i.high, "{values:?}: {i:?}");
        }
        // numbers that may be negative are not taken for logarithms
        let (i, scale) = mean_interval(&[-1.0, 0.5, 3.0]).expect("an interval");
        assert!(i.low < -1.0 && scale == Scale::Values);
    }

    /// Coverage of samples of n values by their nature; the truth is the mean of the distribution.
    fn coverage(n: usize, truth: f64, value: impl Fn(f64) -> f64) -> f64 {
        let mut random = seeded([&[n as f64, truth][..]]);
        share(4000, || {
            let values: Vec<f64> = (0..n).map(|_| value(normal(&mut random))).collect();
            mean_interval(&values).is_some_and(|(i, _)| i.low <= truth && truth <= i.high)
        })
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_mean() {
        for n in [2, 3, 5, 8, 10, 20] {
            for sd in [0.03, 0.3] {
                let normal = coverage(n, 1.0, |z| 1.0 + sd * z);
                assert!((0.93..=0.98).contains(&normal), "normal, sd {sd}, {n} repeats: {normal}");
            }
            for sigma in [0.2f64, 0.5] {
                let skewed = coverage(n, (sigma * sigma / 2.0).exp(), |z| (sigma * z).exp());
                assert!((0.90..=0.98).contains(&skewed), "log-normal, {sigma}, {n} repeats: {skewed}");
            }
        }
    }
}
