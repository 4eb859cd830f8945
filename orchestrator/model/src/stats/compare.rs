//! Comparison of two samples: the ratio of their means with a bootstrap interval.

use super::{
    bootstrap::{RESAMPLES, below, percentile, seeded},
    interval::Interval,
    moments::mean,
};
use serde::Serialize;

/// The ratio of `a` to `b`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Number of values in the first and in the second sample.
    pub n: (usize, usize),
    /// Whether the values are pairs that ran close together.
    pub paired: bool,
    /// Mean of the first over mean of the second.
    pub ratio: f64,
    /// Percentile bootstrap 95 % interval of the ratio; `None` if a sample has fewer than two values.
    pub interval: Option<Interval>,
}

impl Comparison {
    /// Minimum number of pairs for which a difference is stated.
    pub const ENOUGH_PAIRS: usize = 6;

    /// Returns whether the difference is larger than the scatter of the repeats: the interval excludes 1, and there are enough values.
    ///
    /// With few values the interval excludes 1 too easily: three pairs lie on the same side by chance one time in four, six pairs one time in
    /// 32; two groups of four independent values do not overlap by chance one time in 35.
    pub fn differs(&self) -> bool {
        let enough = if self.paired { Self::ENOUGH_PAIRS } else { 4 };
        self.n.0.min(self.n.1) >= enough && self.interval.is_some_and(|i| i.high < 1.0 || i.low > 1.0)
    }
}

/// Compares independent samples: each is resampled separately. `None` without values, or if the mean of `b` is not positive.
pub fn compare(a: &[f64], b: &[f64]) -> Option<Comparison> {
    let mut random = seeded([a, b]);
    comparison((a, b), false, a.len().min(b.len()) > 1, |ratios| {
        for _ in 0..RESAMPLES {
            let of_a: f64 = (0..a.len()).map(|_| a[below(&mut random, a.len())]).sum::<f64>() / a.len() as f64;
            let of_b: f64 = (0..b.len()).map(|_| b[below(&mut random, b.len())]).sum::<f64>() / b.len() as f64;
            ratios.push(of_a / of_b);
        }
    })
}

/// Compares interleaved repeats: each pair ran close together, so pairs are resampled together and drift cancels out.
pub fn compare_paired(pairs: &[(f64, f64)]) -> Option<Comparison> {
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let mut random = seeded([a.as_slice(), b.as_slice()]);
    comparison((&a, &b), true, pairs.len() > 1, |ratios| {
        for _ in 0..RESAMPLES {
            let (mut of_a, mut of_b) = (0.0, 0.0);
            for _ in 0..pairs.len() {
                let (x, y) = pairs[below(&mut random, pairs.len())];
                of_a += x;
                of_b += y;
            }
            ratios.push(of_a / of_b);
        }
    })
}

fn comparison((a, b): (&[f64], &[f64]), paired: bool, enough: bool, resample: impl FnOnce(&mut Vec<f64>)) -> Option<Comparison> {
    if a.iter().chain(b).any(|v| !v.is_finite()) {
        return None;
    }
    let (of_a, of_b) = (mean(a)?, mean(b)?);
    if of_b <= 0.0 {
        return None;
    }
    let mut interval = None;
    if enough {
        let mut ratios = Vec::with_capacity(RESAMPLES);
        resample(&mut ratios);
        ratios.retain(|r| r.is_finite());
        ratios.sort_by(f64::total_cmp);
        interval = percentile(&ratios);
    }
    Some(Comparison { n: (a.len(), b.len()), paired, ratio: of_a / of_b, interval })
}

#[cfg(test)]
mod tests {
    use super::{compare, compare_paired};

    #[test]
    fn pairs_cancel_a_drift_that_hides_the_difference_otherwise() {
        // each pair differs by exactly 10 %, while the machine slows down to half its speed
        let pairs: Vec<(f64, f64)> = (0..6).map(|i| 1.0 + f64::from(i) * 0.2).map(|base| (base * 1.1, base)).collect();
        let paired = compare_paired(&pairs).expect("a comparison");
        let i = paired.interval.expect("an interval");
        assert!((paired.ratio - 1.1).abs() < 1e-12 && (i.high - i.low) < 1e-9 && paired.differs());
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        assert!(!compare(&a, &b).expect("a comparison").differs());
    }

    #[test]
    fn three_pairs_are_too_few_for_a_difference() {
        let three = compare_paired(&[(1.1, 1.0), (1.2, 1.0), (1.1, 1.0)]).expect("a comparison");
        assert!(three.interval.is_some_and(|i| i.low > 1.0) && !three.differs());
    }

    #[test]
    fn unusable_values_give_no_comparison() {
        assert!(compare(&[], &[1.0]).is_none());
        assert!(compare(&[1.0], &[0.0]).is_none());
        assert!(compare(&[f64::NAN], &[1.0]).is_none());
        assert!(compare(&[2.0], &[1.0]).expect("a ratio").interval.is_none());
    }
}
