//! Intervals of a mean by Student's t, computed from the values, from their logarithms, or with a correction for skewness.

use super::{
    interval::{Interval, LEVEL},
    moments::{log_variance, mean, sample_sd},
};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Ratio of the largest to the smallest of positive values above which they are treated as skewed.
const SKEWED: f64 = 2.0;

/// Minimum number of values for which the interval is corrected for skewness.
pub(super) const CORRECTED_FROM: usize = 10;

/// How an interval of a mean was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Student's t of the values.
    Values,
    /// Student's t of their logarithms, for the mean of a log-normal distribution.
    Logarithms,
    /// Student's t of the values, corrected for their skewness.
    Skewness,
    /// Student's t of the logarithms, with the pooled scatter of all points.
    Pooled,
}

impl Scale {
    /// All methods.
    pub const ALL: [Self; 4] = [Self::Values, Self::Logarithms, Self::Skewness, Self::Pooled];

    /// Returns the name in data files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Logarithms => "logarithms",
            Self::Skewness => "skewness",
            Self::Pooled => "pooled",
        }
    }
}

/// Returns the two-sided 95 % quantile of Student's t; infinite if there are no degrees of freedom.
pub fn t_quantile(freedom: f64) -> f64 {
    t_quantile_at(LEVEL, freedom)
}

/// Returns the two-sided quantile of Student's t at this level.
pub(super) fn t_quantile_at(level: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.5 + level / 2.0))
}

/// Returns the two-sided probability that Student's t is at least this far from 0.
pub fn t_probability(t: f64, freedom: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, freedom) {
        Ok(student) if t.is_finite() => 2.0 * student.sf(t.abs()),
        Ok(_) => 0.0,
        Err(_) => 1.0,
    }
}

/// Returns whether positive values differ enough to be treated as log-normal.
pub fn is_skewed(values: &[f64]) -> bool {
    let (smallest, largest) = values
        .iter()
        .fold((f64::INFINITY, 0.0f64), |(s, l), v| (s.min(*v), l.max(*v)));
    smallest > 0.0 && largest > SKEWED * smallest
}

/// Returns the 95 % interval of the mean of the distribution of the values, and its method. Returns `None` for fewer than two values.
///
/// For ten values or more, it is Student's t corrected for skewness: x̄ - s g⁻¹(±t/√n) with g⁻¹(y) = (∛(1 + γ (y - γ/(6n))) - 1)/(γ/3) and the
/// sample's skewness γ (Hall 1992, On the removal of skewness by transformation, J. R. Stat. Soc. B 54). It assumes no distribution, and its
/// coverage approaches 95 % as the number of values grows.
///
/// For fewer values, it is Student's t, x̄ ± t s/√n. Positive values that differ by more than a factor of two, or whose interval would reach 0, are
/// treated as log-normal: exp(m + v/2 ± t √(v/n + v²/(2(n - 1)))) with mean m and variance v of the logarithms (Cox's method with Student's t:
/// Olsson 2005, Confidence intervals for the mean of a log-normal distribution, J. Stat. Educ. 13). This interval is widened to contain the mean of
/// the values. Many values are not treated as log-normal, because they differ by more than a factor of two for any distribution.
///
/// If no value is negative, the quantity is assumed not to be negative, such as bytes and seconds, and the interval is cut off at 0.
pub fn mean_interval(values: &[f64]) -> Option<(Interval, Scale)> {
    mean_interval_at(LEVEL, values)
}

/// Returns the interval of [`mean_interval`] at another level.
pub(super) fn mean_interval_at(level: f64, values: &[f64]) -> Option<(Interval, Scale)> {
    let (centre, sd, n) = (mean(values)?, sample_sd(values)?, values.len() as f64);
    let t = t_quantile_at(level, n - 1.0);
    let least = if values.iter().all(|v| *v >= 0.0) {
        0.0
    } else {
        f64::NEG_INFINITY
    };
    if values.len() >= CORRECTED_FROM {
        let [high, low] = [-t, t].map(|t| {
            if sd > 0.0 {
                centre - sd * uncorrected(t / n.sqrt(), skewness(values, centre), n)
            } else {
                centre
            }
        });
        return Some((
            Interval {
                low: low.min(centre).max(least),
                high: high.max(centre),
            },
            Scale::Skewness,
        ));
    }
    // without scatter the width is 0 for any t
    let half = if sd > 0.0 { t * sd / n.sqrt() } else { 0.0 };
    let plain = Interval {
        low: centre - half,
        high: centre + half,
    };
    if is_skewed(values) || plain.low <= 0.0 && values.iter().all(|v| *v > 0.0) {
        let variance = log_variance(values)?;
        if let Some(interval) = log_normal_interval(values, variance, n - 1.0, t) {
            return Some((interval, Scale::Logarithms));
        }
    }
    // the logarithms of two values may give no interval; the mean is then known not to be negative
    Some((
        Interval {
            low: plain.low.max(least),
            ..plain
        },
        Scale::Values,
    ))
}

/// Returns the interval of the mean of a log-normal distribution from a variance of the logarithms and its degrees of freedom, widened to contain
/// the mean of the values. Returns `None` if an end is infinite.
pub(super) fn log_normal_interval(
    values: &[f64],
    variance: f64,
    freedom: f64,
    t: f64,
) -> Option<Interval> {
    let (centre, n) = (mean(values)?, values.len() as f64);
    let logs = mean(&values.iter().map(|v| v.ln()).collect::<Vec<_>>())?;
    let half = t * (variance / n + variance * variance / (2.0 * freedom)).sqrt();
    let [low, high] = [-half, half].map(|h| (logs + variance / 2.0 + h).exp());
    high.is_finite().then(|| Interval {
        low: low.min(centre),
        high: high.max(centre),
    })
}

/// Returns the sample's skewness; 0 without scatter.
fn skewness(values: &[f64], centre: f64) -> f64 {
    let moment = |power: i32| {
        values.iter().map(|v| (v - centre).powi(power)).sum::<f64>() / values.len() as f64
    };
    let skewness = moment(3) / moment(2).powf(1.5);
    if skewness.is_finite() { skewness } else { 0.0 }
}

/// Inverts Hall's cubic transformation of a studentized mean.
fn uncorrected(y: f64, skewness: f64, n: f64) -> f64 {
    let u = skewness * (y - skewness / (6.0 * n));
    // at small skewness, subtracting 1 from the root would lose all digits
    let root = if u > -0.5 {
        (u.ln_1p() / 3.0).exp_m1()
    } else {
        (1.0 + u).cbrt() - 1.0
    };
    if skewness.abs() > 1e-12 {
        root / (skewness / 3.0)
    } else {
        y
    }
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
        assert!(
            (i.low - 2.717_210).abs() < 1e-5
                && (i.high - 3.739_933).abs() < 1e-5
                && scale == Scale::Values,
            "{i:?}"
        );
        assert!(mean_interval(&[1.0]).is_none());
        let (same, _) = mean_interval(&[0.1; 3]).expect("an interval");
        assert_eq!((same.low, same.high), (0.1, 0.1));
        assert!(
            (t_probability(4.302_653, 2.0) - 0.05).abs() < 1e-6
                && t_probability(f64::INFINITY, 2.0) == 0.0
        );
    }

    /// Expected values computed in Python from the formula: m = ln 2, v = (ln 2)², t for two degrees of freedom.
    #[test]
    fn values_that_differ_much_have_the_interval_of_a_log_normal_mean() {
        let (i, scale) = mean_interval(&[1.0, 2.0, 4.0]).expect("an interval");
        assert!(
            (i.low - 0.341_328_8).abs() < 1e-6
                && (i.high - 18.947_202).abs() < 1e-5
                && scale == Scale::Logarithms,
            "{i:?}"
        );
    }

    #[test]
    fn times_are_never_expected_below_zero() {
        for values in [
            &[1.0, 1.5][..],
            &[1.0, 1.0, 2.0],
            &[0.1, 5.0, 0.2, 0.1],
            &[1.0, 1e6],
        ] {
            let (i, _) = mean_interval(values).expect("an interval");
            assert!(
                i.low >= 0.0 && i.high.is_finite() && i.low < i.high,
                "{values:?}: {i:?}"
            );
        }
        // values that may be negative are not treated as log-normal
        let (i, scale) = mean_interval(&[-1.0, 0.5, 3.0]).expect("an interval");
        assert!(i.low < -1.0 && scale == Scale::Values);
    }

    #[test]
    fn a_zero_among_the_values_does_not_let_the_interval_reach_below() {
        for values in [
            &[0.0, 1.0][..],
            &[0.0, 0.0, 1.0, 2.0, 0.0, 1.0],
            &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0],
        ] {
            let (i, _) = mean_interval(values).expect("an interval");
            assert!(i.low >= 0.0 && i.low < i.high, "{values:?}: {i:?}");
        }
    }

    /// Symmetric values give Student's interval; the other expected values are computed in Python from the formula.
    #[test]
    fn ten_values_are_corrected_for_skewness() {
        let symmetric = [-5.0, -4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        let (i, scale) = mean_interval(&symmetric).expect("an interval");
        let half = t_quantile(9.0) * sample_sd(&symmetric).expect("sd") / 10f64.sqrt();
        assert!(
            (i.high - half).abs() < 1e-9 && (i.low + half).abs() < 1e-9 && scale == Scale::Skewness,
            "{i:?}"
        );
        let tail = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 5.0];
        let (i, _) = mean_interval(&tail).expect("an interval");
        assert!(
            (i.low - 1.209092).abs() < 1e-5 && (i.high - 4.562292).abs() < 1e-5,
            "{i:?}"
        );
        let (same, _) = mean_interval(&[0.1; 12]).expect("an interval");
        assert_eq!((same.low, same.high), (0.1, 0.1));
        let (almost, _) = mean_interval(&[
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0 + f64::EPSILON,
        ])
        .expect("an interval");
        assert!(
            almost.low <= almost.high && almost.high < 1.0 + 1e-12,
            "{almost:?}"
        );
    }

    /// A larger outlier does not make the interval narrower, as it did when the range of the values selected the distribution.
    #[test]
    fn a_larger_outlier_makes_the_interval_wider() {
        let of = |outlier: f64| {
            let mut values = [1.0, 1.01, 1.02, 0.99, 0.98, 1.0, 1.03, 0.97, 1.0, 1.0];
            values[9] = outlier;
            mean_interval(&values)
                .map(|(i, _)| i.high - i.low)
                .expect("an interval")
        };
        let widths: Vec<f64> = [1.5, 1.94, 1.99, 2.05, 3.0].map(of).to_vec();
        assert!(widths.windows(2).all(|w| w[0] < w[1]), "{widths:?}");
    }

    /// Distributions that are neither normal nor log-normal: with more repeats, intervals contain the mean more often, not less often.
    #[test]
    fn many_values_with_a_tail_are_not_taken_for_log_normal() {
        let uniform = |z: f64| 0.5 * statrs::function::erf::erfc(-z / std::f64::consts::SQRT_2);
        for n in [20, 50, 200] {
            let exponential = coverage(n, 1.0, |z| -uniform(-z).ln());
            assert!(
                (0.925..=0.97).contains(&exponential),
                "exponential, {n} repeats: {exponential}"
            );
            let added = coverage(n, 1.3, |z| 1.0 - 0.3 * uniform(-z).ln());
            assert!(
                (0.925..=0.97).contains(&added),
                "a constant and an exponential, {n} repeats: {added}"
            );
            let slow = coverage(n, 1.2, |z| if uniform(z) < 0.9 { 1.0 } else { 3.0 });
            assert!(
                slow > if n == 20 { 0.86 } else { 0.94 },
                "one in ten thrice as slow, {n} repeats: {slow}"
            );
        }
    }

    /// Returns how often the interval of n random values contains the true mean `truth` of their distribution.
    fn coverage(n: usize, truth: f64, value: impl Fn(f64) -> f64) -> f64 {
        let mut random = seeded([&[n as f64, truth][..]]);
        share(4000, || {
            let values: Vec<f64> = (0..n).map(|_| value(normal(&mut random))).collect();
            mean_interval(&values).is_some_and(|(i, _)| i.low <= truth && truth <= i.high)
        })
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_mean() {
        for n in [2, 3, 5, 8, 9, 10, 20, 50] {
            for sd in [0.03, 0.3] {
                let normal = coverage(n, 1.0, |z| 1.0 + sd * z);
                assert!(
                    (0.93..=0.98).contains(&normal),
                    "normal, sd {sd}, {n} repeats: {normal}"
                );
            }
            for sigma in [0.2f64, 0.5] {
                let skewed = coverage(n, (sigma * sigma / 2.0).exp(), |z| (sigma * z).exp());
                assert!(
                    (0.90..=0.98).contains(&skewed),
                    "log-normal, {sigma}, {n} repeats: {skewed}"
                );
            }
        }
    }
}
