//! Bootstrap intervals of a mean, seeded by the data.

use super::{
    interval::{Interval, LEVEL},
    moments::{mean, quantile},
};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use statrs::distribution::{ContinuousCDF, Normal};

/// Number of resamples for an interval.
pub const RESAMPLES: usize = 10_000;

/// Returns the bias-corrected and accelerated (BCa) bootstrap interval of the mean (Efron 1987, Better bootstrap confidence intervals,
/// section 3).
///
/// `None` for fewer than two values. With few values (fewer than about eight) such intervals are too narrow, because no resample can reach
/// beyond the smallest and the largest value; therefore the number of repeats is always shown beside them. The order of the values does not
/// matter.
pub fn mean_interval(values: &[f64]) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (sorted[0], sorted[sorted.len() - 1]);
    if first == last {
        return Some(Interval { low: first, high: last });
    }
    let n = sorted.len();
    let mut random = seeded([sorted.as_slice()]);
    let mut means: Vec<f64> = (0..RESAMPLES)
        // Summing deviations from the smallest value keeps precision when values are large and close to each other.
        .map(|_| first + (0..n).map(|_| sorted[below(&mut random, n)] - first).sum::<f64>() / n as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    let interval = bca(&means, mean(&sorted)?, acceleration(&sorted));
    Some(Interval { low: interval.low.clamp(first, last), high: interval.high.clamp(first, last) })
}

/// Returns the interval between the corrected percentiles of ascending resampled statistics.
fn bca(resampled: &[f64], observed: f64, acceleration: f64) -> Interval {
    let normal = Normal::standard();
    let count = resampled.len() as f64;
    // Ties count half: with few repeats many resamples give the observed mean, except for the last bits.
    let close = (resampled[resampled.len() - 1] - resampled[0]) * 1e-9;
    let less = resampled.partition_point(|v| *v < observed - close) as f64;
    let not_more = resampled.partition_point(|v| *v <= observed + close) as f64;
    let share = ((less + not_more) / (2.0 * count)).clamp(1.0 / count, 1.0 - 1.0 / count);
    let bias = normal.inverse_cdf(share);
    let corrected = |p: f64| {
        let z = bias + normal.inverse_cdf(p);
        let p = normal.cdf(bias + z / (1.0 - acceleration * z));
        quantile(resampled, if p.is_finite() { p } else { 0.5 }).unwrap_or(observed)
    };
    let tail = (1.0 - LEVEL) / 2.0;
    let (low, high) = (corrected(tail), corrected(1.0 - tail));
    Interval { low: low.min(high), high: high.max(low) }
}

/// Returns the acceleration of a mean: a sixth of the skewness of the jackknife values.
fn acceleration(values: &[f64]) -> f64 {
    let Some(centre) = mean(values) else { return 0.0 };
    let moment = |power: i32| values.iter().map(|v| (v - centre).powi(power)).sum::<f64>();
    let squares = moment(2);
    if squares == 0.0 { 0.0 } else { moment(3) / (6.0 * squares.powf(1.5)) }
}

/// Returns the percentile interval of ascending resampled statistics.
pub(super) fn percentile(resampled: &[f64]) -> Option<Interval> {
    let tail = (1.0 - LEVEL) / 2.0;
    Some(Interval { low: quantile(resampled, tail)?, high: quantile(resampled, 1.0 - tail)? })
}

/// Returns a generator whose seed is the digest of the data.
pub(super) fn seeded<'a>(samples: impl IntoIterator<Item = &'a [f64]>) -> ChaCha8Rng {
    let mut digest = blake3::Hasher::new();
    for sample in samples {
        digest.update(&(sample.len() as u64).to_le_bytes());
        for value in sample {
            digest.update(&value.to_bits().to_le_bytes());
        }
    }
    ChaCha8Rng::from_seed(*digest.finalize().as_bytes())
}

/// Returns a random number below `n`, the high half of a product: its bias, n / 2^64, is negligible.
pub(super) fn below(random: &mut ChaCha8Rng, n: usize) -> usize {
    ((u128::from(random.next_u64()) * n as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::mean_interval;

    #[test]
    fn the_same_values_give_the_same_interval_in_any_order() {
        let a = mean_interval(&[3.0, 1.0, 2.0, 5.0]).expect("an interval");
        let b = mean_interval(&[5.0, 2.0, 1.0, 3.0]).expect("an interval");
        assert_eq!(a, b);
    }

    #[test]
    fn equal_values_have_an_interval_without_width() {
        let i = mean_interval(&[0.1; 3]).expect("an interval");
        assert_eq!((i.low, i.high), (0.1, 0.1));
    }

    /// Uniform numbers 1 to 100: the standard error of the mean is 28.87 / 10, so the interval is near 50.5 -+ 1.96 * 2.887.
    #[test]
    fn many_values_agree_with_the_normal_theory() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let i = mean_interval(&values).expect("an interval");
        assert!((i.low - 44.84).abs() < 0.35, "{i:?}");
        assert!((i.high - 56.16).abs() < 0.35, "{i:?}");
    }

    /// One large value among small ones: the interval reaches further up than down.
    #[test]
    fn a_skewed_sample_has_a_skewed_interval() {
        let i = mean_interval(&[1.0, 1.1, 0.9, 1.0, 1.2, 1.0, 0.8, 5.0]).expect("an interval");
        assert!(i.high - 1.5 > 1.5 - i.low, "{i:?}");
    }
}
