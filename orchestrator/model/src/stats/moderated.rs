//! Pooled scatter: the scatter of all points of a campaign makes the intervals of points with few repeats narrower.

use super::{
    interval::Interval,
    moments::{log_variance, mean, quantile, sample_sd},
    student::{log_normal_interval, t_quantile},
};
use statrs::{
    distribution::{ChiSquared, ContinuousCDF},
    function::gamma::digamma,
};

/// Minimum number of points for a pooled scatter.
const ENOUGH_POINTS: usize = 4;

/// Minimum number of repeats from which a point uses its own scatter only.
pub const OWN_FROM: usize = 5;

/// A point is excluded from the pooled scatter if its variance exceeds the usual one by more than this factor: five times the usual standard
/// deviation.
const APART: f64 = 25.0;

/// The pooled scatter of the logarithms of repeats over points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CommonScatter {
    /// The pooled variance.
    variance: f64,
    /// Degrees of freedom of the pooled variance; fewer if the points' variances differ more.
    freedom: f64,
    /// Degrees of freedom of all points together.
    most: f64,
    /// The largest variance of a point that is not excluded.
    limit: f64,
}

impl CommonScatter {
    /// Returns the pooled scatter of points, each a list of values. Returns `None` for fewer than four points with scatter.
    ///
    /// The variances of the logarithms are modelled as s₀² d₀/χ²(d₀) times χ²(d)/d; s₀² and d₀ follow from the mean and the variance of the
    /// logarithms of these variances (Smyth 2004, Linear models and empirical Bayes methods, Stat. Appl. Genet. Mol. Biol. 3). Points are excluded
    /// if their values are all equal or not positive, or if they scatter more than five times as much as the median point, so that one bad repeat
    /// does not widen the other intervals.
    pub fn of(points: &[&[f64]]) -> Option<Self> {
        let mut variances: Vec<(f64, f64)> = points
            .iter()
            .filter_map(|values| Some((log_variance(values)?, values.len() as f64 - 1.0)))
            .collect();
        let mut usual: Vec<f64> = variances
            .iter()
            .map(|(variance, freedom)| Some(variance / middle_of_chi(*freedom)?))
            .collect::<Option<_>>()?;
        usual.sort_by(f64::total_cmp);
        let limit = APART * quantile(&usual, 0.5)?;
        variances.retain(|(variance, _)| *variance <= limit);
        if variances.len() < ENOUGH_POINTS {
            return None;
        }
        let logs: Vec<f64> = variances
            .iter()
            .map(|(v, d)| v.ln() - digamma(d / 2.0) + (d / 2.0).ln())
            .collect();
        let centre = mean(&logs)?;
        let chance = variances
            .iter()
            .map(|(_, d)| trigamma(d / 2.0))
            .sum::<f64>()
            / variances.len() as f64;
        let beyond = sample_sd(&logs)?.powi(2) - chance;
        let most = variances.iter().map(|(_, d)| d).sum();
        // if variances differ by no more than chance explains, there is one common variance, with the degrees of freedom of all points
        let half = if beyond > trigamma(MAX_FREEDOM / 2.0) {
            inverse_trigamma(beyond)
        } else {
            MAX_FREEDOM / 2.0
        };
        Some(Self {
            variance: (centre + digamma(half) - half.ln()).exp(),
            freedom: 2.0 * half,
            most,
            limit,
        })
    }

    /// Returns the 95 % interval of a point's mean, and the variance that it is based on. The interval is that of a log-normal mean with the
    /// variance s̃² = (d₀ s₀² + d s²)/(d₀ + d), or s² if the point scatters more, and with d₀ + d degrees of freedom, at most those of all points.
    /// Returns `None` without two positive values that scatter, or if the point is excluded from the pooled scatter.
    pub fn interval(&self, values: &[f64]) -> Option<(Interval, f64)> {
        let own = log_variance(values).filter(|own| *own <= self.limit)?;
        let degrees = self.freedom + values.len() as f64 - 1.0;
        let pooled = (self.freedom * self.variance + (values.len() as f64 - 1.0) * own) / degrees;
        let (variance, freedom) = (pooled.max(own), degrees.min(self.most));
        let interval = log_normal_interval(values, variance, freedom, t_quantile(freedom))?;
        Some((interval, variance))
    }
}

/// Returns the median of χ²(d)/d.
fn middle_of_chi(freedom: f64) -> Option<f64> {
    Some(ChiSquared::new(freedom).ok()?.inverse_cdf(0.5) / freedom)
}

/// The maximum number of degrees of freedom that is distinguished from infinity.
const MAX_FREEDOM: f64 = 1e6;

/// Returns the second derivative of the logarithm of the gamma function (Abramowitz and Stegun 6.4.12, after steps into its domain).
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    sum + 1.0 / x
        + square / 2.0
        + square / x * (1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square / 30.0)))
}

/// Returns the inverse of the decreasing function [`trigamma`] by bisection of the logarithm.
fn inverse_trigamma(value: f64) -> f64 {
    let (mut low, mut high) = ((1e-6f64).ln(), (MAX_FREEDOM / 2.0).ln());
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if trigamma(middle.exp()) > value {
            low = middle
        } else {
            high = middle
        }
    }
    low.exp()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            random::{
                samples::{normal, share},
                seeded,
            },
            student::mean_interval,
        },
        *,
    };

    #[test]
    fn known_values_of_trigamma() {
        // pi^2/6, pi^2/2, and R: trigamma(12.5)
        for (x, y) in [
            (1.0, 1.644_934_066_848_226_4),
            (0.5, 4.934_802_200_544_679),
            (12.5, 0.083_285_2),
        ] {
            assert!((trigamma(x) - y).abs() < 1e-7, "{x}: {}", trigamma(x));
            assert!((inverse_trigamma(y) / x - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn points_without_scatter_lend_none_and_few_points_have_nothing_in_common() {
        let (a, b): (&[f64], &[f64]) = (&[1.0, 1.1], &[2.0, 2.0]);
        assert!(
            CommonScatter::of(&[a, a, a]).is_none() && CommonScatter::of(&[a, a, a, b]).is_none()
        );
        let common = CommonScatter::of(&[a, a, a, a]).expect("a scatter");
        assert_eq!(
            Some(common),
            CommonScatter::of(&[a, b, a, &[1.0], a, a, &[0.0, 1.0]])
        );
        // four points with equal scatter: the degrees of freedom are theirs, and not more
        assert!((common.most - 4.0).abs() < 1e-9);
        assert!(
            common.interval(a).is_some()
                && common.interval(b).is_none()
                && common.interval(&[1.0]).is_none()
                && common.interval(&[0.0, 1.0]).is_none()
        );
    }

    #[test]
    fn one_bad_repeat_leaves_the_other_points_alone() {
        let a: &[f64] = &[1.0, 1.02, 0.98];
        let bad: &[f64] = &[1.0, 1000.0, 0.98];
        let without = CommonScatter::of(&[a; 4]).expect("a scatter");
        let with = CommonScatter::of(&[a, a, bad, a, a]).expect("a scatter");
        assert_eq!(without.interval(a), with.interval(a));
        assert!(with.interval(bad).is_none());
    }

    /// Eight points with equal scatter: their intervals have the stated coverage, and are far narrower than those of a single point.
    #[test]
    fn intervals_of_few_repeats_hold_and_are_narrower() {
        for (n, most) in [(2, 0.4), (3, 0.75), (4, 0.9)] {
            let mut random = seeded([&[n as f64][..]]);
            let (mut pooled, mut alone) = (Vec::new(), Vec::new());
            let held = share(2000, || {
                let points: Vec<Vec<f64>> = (0..8)
                    .map(|_| (0..n).map(|_| 1.0 + 0.05 * normal(&mut random)).collect())
                    .collect();
                let all: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
                let (i, _) = CommonScatter::of(&all)
                    .and_then(|c| c.interval(all[0]))
                    .or_else(|| mean_interval(all[0]).map(|(i, _)| (i, 0.0)))
                    .expect("an interval");
                pooled.push(i.high - i.low);
                alone.extend(mean_interval(all[0]).map(|(i, _)| i.high - i.low));
                i.holds(1.0)
            });
            assert!((0.93..=0.975).contains(&held), "{n} repeats: {held}");
            for widths in [&mut pooled, &mut alone] {
                widths.sort_by(f64::total_cmp);
            }
            let part = pooled[1000] / alone[1000];
            assert!(part < most, "{n} repeats: {part}");
        }
    }
}
