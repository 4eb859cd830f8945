//! The interval of a share that was counted.

use super::interval::{Interval, LEVEL};
use statrs::distribution::{Beta, ContinuousCDF};

/// Returns the 95 % interval of a probability, from how often something happened in a number of trials (Clopper and Pearson 1934, The use of
/// confidence or fiducial limits, Biometrika 26). `None` without trials.
pub fn share_interval(happened: usize, trials: usize) -> Option<Interval> {
    if trials == 0 || happened > trials {
        return None;
    }
    let (k, n) = (happened as f64, trials as f64);
    let tail = (1.0 - LEVEL) / 2.0;
    let quantile = |a: f64, b: f64, p: f64| Some(Beta::new(a, b).ok()?.inverse_cdf(p));
    Some(Interval {
        low: if happened == 0 { 0.0 } else { quantile(k, n - k + 1.0, tail)? },
        high: if happened == trials { 1.0 } else { quantile(k + 1.0, n - k, 1.0 - tail)? },
    })
}

#[cfg(test)]
mod tests {
    use super::share_interval;

    /// R: binom.test(2, 40), binom.test(0, 10).
    #[test]
    fn known_values() {
        let i = share_interval(2, 40).expect("an interval");
        assert!((i.low - 0.006_115).abs() < 1e-4 && (i.high - 0.169_197).abs() < 1e-4, "{i:?}");
        let none = share_interval(0, 10).expect("an interval");
        assert!(none.low == 0.0 && (none.high - 0.308_497).abs() < 1e-4, "{none:?}");
        assert!(share_interval(0, 0).is_none());
        assert_eq!(share_interval(3, 3).map(|i| i.high), Some(1.0));
    }
}
