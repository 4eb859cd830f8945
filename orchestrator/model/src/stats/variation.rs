//! The coefficient of variation, with its interval.

use super::{
    interval::{LEVEL, WIDEST},
    moments::{mean, sample_sd},
    student::is_skewed,
};
use serde::Serialize;
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Scatter of values relative to their mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Variation {
    /// Coefficient of variation: standard deviation (n - 1) divided by the mean.
    pub cv: f64,
    /// Lower end of the 95 % interval of the coefficient.
    pub low: f64,
    /// Upper end of the interval; `None` if the values give no useful upper bound.
    pub high: Option<f64>,
}

impl Variation {
    /// Returns the variation of positive values. Returns `None` for fewer than two values, or if a value is not positive.
    ///
    /// The interval is that of Vangel (1996, Confidence intervals for a normal coefficient of variation, Am. Stat. 50), a modification of McKay's.
    /// For values that are treated as log-normal, as in intervals of the mean, it is widened to the interval of √(exp(v) - 1), with the variance v
    /// of the logarithms.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (centre, sd) = (mean(values)?, sample_sd(values)?);
        if values.iter().any(|v| *v <= 0.0) {
            return None;
        }
        let cv = sd / centre;
        let (n, freedom) = (values.len() as f64, values.len() as f64 - 1.0);
        let chi = ChiSquared::new(freedom).ok()?;
        let tail = (1.0 - LEVEL) / 2.0;
        let end = |p: f64| {
            let u = chi.inverse_cdf(p);
            let square = ((u + 2.0) / n - 1.0) * cv * cv + u / freedom;
            (square > 0.0).then(|| cv / square.sqrt())
        };
        let (mut low, mut high) = (end(1.0 - tail).unwrap_or(0.0), end(tail));
        if is_skewed(values) {
            let variance = sample_sd(&values.iter().map(|v| v.ln()).collect::<Vec<_>>())?.powi(2);
            let end = |p: f64| (freedom * variance / chi.inverse_cdf(p)).exp_m1().sqrt();
            low = low.min(end(1.0 - tail));
            // a bound for the logarithms need not be a finite bound for the values
            high = high
                .map(|high| high.max(end(tail)))
                .filter(|high| high.is_finite());
        }
        Some(Self {
            cv,
            low: low.min(cv),
            high: high.map(|high| high.max(cv)).filter(|high| *high <= WIDEST),
        })
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

    #[test]
    fn values_without_scatter_vary_by_nothing_and_negative_ones_have_no_variation() {
        let none = Variation::of(&[2.0; 4]).expect("a variation");
        assert_eq!((none.cv, none.low, none.high), (0.0, 0.0, Some(0.0)));
        assert!(Variation::of(&[1.0]).is_none() && Variation::of(&[-1.0, 2.0]).is_none());
    }

    fn coverage(n: usize, truth: f64, value: impl Fn(f64) -> f64) -> f64 {
        let mut random = seeded([&[n as f64, truth][..]]);
        share(3000, || {
            let values: Vec<f64> = (0..n).map(|_| value(normal(&mut random))).collect();
            Variation::of(&values)
                .is_some_and(|v| v.low <= truth && v.high.is_none_or(|high| truth <= high))
        })
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_variation() {
        for n in [3, 5, 8, 10, 20] {
            for truth in [0.02, 0.1, 0.2] {
                let held = coverage(n, truth, |z| 1.0 + truth * z);
                assert!(
                    (0.93..=0.98).contains(&held),
                    "normal, {truth}, {n} repeats: {held}"
                );
            }
            for sigma in [0.1f64, 0.5] {
                let held = coverage(n, (sigma * sigma).exp_m1().sqrt(), |z| (sigma * z).exp());
                assert!(
                    (0.90..=0.98).contains(&held),
                    "log-normal, {sigma}, {n} repeats: {held}"
                );
            }
        }
    }
}
