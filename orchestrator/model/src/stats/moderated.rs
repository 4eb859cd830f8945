//! Scatter that points have in common: what all points of a campaign scatter by makes intervals of few repeats narrower.

use super::{
    interval::Interval,
    moments::{mean, sample_sd},
    student::t_quantile,
};
use serde::Serialize;
use statrs::function::gamma::digamma;

/// Fewest points from which a common scatter is taken.
const ENOUGH_POINTS: usize = 4;

/// The scatter of the logarithms of repeats, over points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CommonScatter {
    /// The variance that points have in common.
    variance: f64,
    /// For how many degrees of freedom it stands: the fewer, the more points differ.
    freedom: f64,
    /// Degrees of freedom of all points together.
    most: f64,
}

/// The interval of a mean with a common scatter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ModeratedInterval {
    /// Where the mean is expected.
    pub interval: Interval,
    /// Degrees of freedom behind it: the point's own, and those that the others lend.
    pub freedom: f64,
}

impl CommonScatter {
    /// Returns what points scatter by, each a list of positive values. `None` for fewer than four points with two values or more, or if one of
    /// these does not scatter or has a value that is not positive.
    ///
    /// The variances of the logarithms are taken for s₀² d₀/χ²(d₀) times χ²(d)/d; s₀² and d₀ are from the mean and the variance of their
    /// logarithms (Smyth 2004, Linear models and empirical Bayes methods, Stat. Appl. Genet. Mol. Biol. 3).
    pub fn of(points: &[&[f64]]) -> Option<Self> {
        let used: Vec<&[f64]> = points
            .iter()
            .copied()
            .filter(|values| values.len() > 1)
            .collect();
        if used.len() < ENOUGH_POINTS {
            return None;
        }
        let variances: Vec<(f64, f64)> = used
            .iter()
            .map(|values| Some((log_variance(values)?, values.len() as f64 - 1.0)))
            .collect::<Option<_>>()?;
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
        // points that differ by no more than chance have one scatter: as many degrees as all of them have
        let half = if beyond > trigamma(MOST_FREEDOM / 2.0) {
            inverse_trigamma(beyond)
        } else {
            MOST_FREEDOM / 2.0
        };
        Some(Self {
            variance: (centre + digamma(half) - half.ln()).exp(),
            freedom: 2.0 * half,
            most,
        })
    }

    /// Returns the 95 % interval of the mean of a point, mean · exp(± t s̃/√n) with s̃² = (d₀ s₀² + d s²)/(d₀ + d) and d₀ + d degrees of freedom,
    /// at most those of all points. `None` without two positive values that scatter.
    pub fn interval(&self, values: &[f64]) -> Option<ModeratedInterval> {
        let (own, centre, n) = (log_variance(values)?, mean(values)?, values.len() as f64);
        let degrees = self.freedom + n - 1.0;
        let variance = (self.freedom * self.variance + (n - 1.0) * own) / degrees;
        let freedom = degrees.min(self.most);
        let factor = (t_quantile(freedom) * (variance / n).sqrt()).exp();
        factor.is_finite().then(|| ModeratedInterval {
            interval: Interval {
                low: centre / factor,
                high: centre * factor,
            },
            freedom,
        })
    }
}

/// The most degrees of freedom that are told apart from any number of them.
const MOST_FREEDOM: f64 = 1e6;

/// The sample variance of logarithms; `None` for fewer than two values, if one is not positive, or without scatter.
fn log_variance(values: &[f64]) -> Option<f64> {
    if values.iter().any(|v| *v <= 0.0 || !v.is_finite()) {
        return None;
    }
    let variance = sample_sd(&values.iter().map(|v| v.ln()).collect::<Vec<_>>())?.powi(2);
    // rounding is none
    (variance > 1e-28).then_some(variance)
}

/// The second derivative of the logarithm of the gamma function (Abramowitz and Stegun 6.4.12, after steps up to where it holds).
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

/// Where [`trigamma`], which falls, has a value: by halving the logarithm.
fn inverse_trigamma(value: f64) -> f64 {
    let (mut low, mut high) = ((1e-6f64).ln(), (MOST_FREEDOM / 2.0).ln());
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
    fn points_without_scatter_and_few_points_have_nothing_in_common() {
        let (a, b): (&[f64], &[f64]) = (&[1.0, 1.1], &[2.0, 2.0]);
        assert!(
            CommonScatter::of(&[a, a, a]).is_none() && CommonScatter::of(&[a, a, a, b]).is_none()
        );
        let common = CommonScatter::of(&[a, a, a, a]).expect("a scatter");
        let of_equal = common.interval(a).expect("an interval");
        // four points that scatter alike: their degrees of freedom, and no more
        assert!(
            (of_equal.freedom - 4.0).abs() < 1e-9
                && common.interval(b).is_none()
                && common.interval(&[1.0]).is_none(),
            "{of_equal:?}"
        );
    }

    /// Eight points whose scatter differs by a factor of 1.35 up or down: held nearly as often as said, and far narrower than alone.
    #[test]
    fn intervals_of_few_repeats_hold_and_are_narrower() {
        for (n, most) in [(2, 0.4), (3, 0.7), (5, 0.95)] {
            let mut random = seeded([&[n as f64][..]]);
            let (mut pooled, mut alone) = (Vec::new(), Vec::new());
            let held = share(2000, || {
                let points: Vec<Vec<f64>> = (0..8)
                    .map(|_| {
                        let sd = 0.05 * (0.3 * normal(&mut random)).exp();
                        (0..n).map(|_| 1.0 + sd * normal(&mut random)).collect()
                    })
                    .collect();
                let all: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
                let i = CommonScatter::of(&all)
                    .and_then(|c| c.interval(all[0]))
                    .expect("an interval")
                    .interval;
                pooled.push(i.high - i.low);
                alone.extend(mean_interval(all[0]).map(|(i, _)| i.high - i.low));
                i.low <= 1.0 && 1.0 <= i.high
            });
            assert!((0.92..=0.97).contains(&held), "{n} repeats: {held}");
            for widths in [&mut pooled, &mut alone] {
                widths.sort_by(f64::total_cmp);
            }
            let part = pooled[1000] / alone[1000];
            assert!(part < most, "{n} repeats: {part}");
        }
    }
}
