//! The interval of a share that was estimated by counting.

use super::interval::{Interval, LEVEL};
use statrs::function::gamma::ln_gamma;

/// Maximum number of terms of the continued fraction.
const MAX_TERMS: u32 = 100_000;

/// Returns the 95 % interval of a probability from the number of times that something happened in a number of trials (Clopper and Pearson 1934, The
/// use of confidence or fiducial limits, Biometrika 26). Returns `None` without trials.
pub fn share_interval(happened: usize, trials: usize) -> Option<Interval> {
    if trials == 0 || happened > trials {
        return None;
    }
    let (k, n) = (happened as f64, trials as f64);
    let tail = (1.0 - LEVEL) / 2.0;
    Some(Interval {
        low: if happened == 0 {
            0.0
        } else {
            beta_quantile(k, n - k + 1.0, tail)
        },
        high: if happened == trials {
            1.0
        } else {
            beta_quantile(k + 1.0, n - k, 1.0 - tail)
        },
    })
}

/// Returns a quantile of the beta distribution by bisection. The function in `statrs` does not terminate for a few events in millions of trials.
fn beta_quantile(a: f64, b: f64, p: f64) -> f64 {
    let (mut low, mut high) = (0.0f64, 1.0f64);
    // numbers near 0 need more steps than those near 1, because floating-point numbers are denser near 0
    for _ in 0..1100 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high || high - low <= 4.0 * f64::EPSILON * middle {
            break;
        }
        if beta_share(a, b, middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Returns the regularised incomplete beta function by Lentz's continued fraction (Press et al., Numerical Recipes, 6.4). The number of terms
/// needed grows with the root of the larger parameter; the maximum suffices for millions of trials.
fn beta_share(a: f64, b: f64, x: f64) -> f64 {
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_share(b, a, 1.0 - x);
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp() / a;
    let kept = |v: f64| {
        if v.abs() < f64::MIN_POSITIVE {
            f64::MIN_POSITIVE
        } else {
            v
        }
    };
    let (mut c, mut d) = (1.0, 1.0 / kept(1.0 - (a + b) * x / (a + 1.0)));
    let mut sum = d;
    for step in 1..=MAX_TERMS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = sum;
        for term in [even, odd] {
            d = 1.0 / kept(1.0 + term * d);
            c = kept(1.0 + term / c);
            sum *= c * d;
        }
        if (sum - before).abs() <= f64::EPSILON * sum.abs() {
            break;
        }
    }
    front * sum
}

#[cfg(test)]
mod tests {
    use super::share_interval;

    /// Expected values: R's binom.test(2, 40), binom.test(0, 10).
    #[test]
    fn known_values() {
        let i = share_interval(2, 40).expect("an interval");
        assert!(
            (i.low - 0.006_115).abs() < 1e-4 && (i.high - 0.169_197).abs() < 1e-4,
            "{i:?}"
        );
        let none = share_interval(0, 10).expect("an interval");
        assert!(
            none.low == 0.0 && (none.high - 0.308_497).abs() < 1e-4,
            "{none:?}"
        );
        assert!(share_interval(0, 0).is_none());
        assert_eq!(share_interval(3, 3).map(|i| i.high), Some(1.0));
    }

    #[test]
    fn millions_of_trials_have_an_interval_too() {
        // limit by the Poisson distribution: 0.6187 and 8.7673 for 3 events (Garwood 1936)
        let few = share_interval(3, 10_000_000).expect("an interval");
        assert!(
            (few.low * 1e7 - 0.618_672).abs() < 1e-4 && (few.high * 1e7 - 8.767_273).abs() < 1e-4,
            "{few:?}"
        );
        // limit by the normal distribution: 0.5 -+ 1.96 / (2 sqrt n)
        let half = share_interval(5_000_000, 10_000_000).expect("an interval");
        assert!(
            (half.high - 0.5 - 3.0990e-4).abs() < 2e-7 && (0.5 - half.low - 3.0990e-4).abs() < 2e-7,
            "{half:?}"
        );
        let most = share_interval(9_999_997, 10_000_000).expect("an interval");
        assert!((1.0 - most.high - few.low).abs() < 1e-12, "{most:?}");
    }
}
