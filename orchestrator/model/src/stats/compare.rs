//! Comparison of two samples: the ratio of their means, how sure it is, and how large the difference is beside the scatter.

use super::{
    false_discovery,
    interval::{Interval, LEVEL},
    moments::{difference, mean, sample_sd},
    permutation,
    student::{t_probability, t_quantile_at},
};
use serde::Serialize;

/// The level at which sides are called different, unless their repeats were stopped.
const USUAL: f64 = 1.0 - LEVEL;

fn is_usual(level: &f64) -> bool {
    *level == USUAL
}

/// The ratio of `a` to `b`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Number of values in the first and in the second sample.
    pub n: (usize, usize),
    /// Whether the values are pairs that ran close together.
    pub paired: bool,
    /// Probability up to which the sides are called different: 5 %, or less of repeats that ended when their interval was narrow.
    #[serde(skip_serializing_if = "is_usual")]
    pub level: f64,
    /// Mean of the first over mean of the second.
    pub ratio: f64,
    /// Fieller's 95 % interval of the ratio; `None` if a sample has fewer than two values, or `b` scatters so much that the ratio has no bounds.
    /// It ends at 0 where no value is negative: ratios of times and sizes below that do not exist.
    pub interval: Option<Interval>,
    /// Probability of a difference at least as large if there is none; `None` if a sample has fewer than two values, or fewer than six that do
    /// not bound the ratio.
    pub p_value: Option<f64>,
    /// The same, adjusted for the number of comparisons of a table, and so that what is called different is so at 5 % whatever the level.
    pub q_value: Option<f64>,
    /// Hedges' g: the difference of the means over the pooled standard deviation, corrected for few values; `None` without scatter.
    pub effect_size: Option<f64>,
}

impl Comparison {
    /// Fewest pairs for which the permutation test can tell a difference: with five, all on one side happen by chance once in 16.
    const PERMUTED_FROM: usize = 6;

    /// Returns whether the difference is larger than the scatter of the repeats would give: at most 5 % of what is called so are false.
    pub fn differs(&self) -> bool {
        match (self.q_value, self.p_value) {
            (Some(q), _) => q <= 1.0 - LEVEL,
            (None, p) => p.is_some_and(|p| p <= self.level),
        }
    }

    /// Withdraws the probability if the values are few and do not bound the ratio: nothing is called different of whose size nothing is known.
    fn without_judgement_of_few(mut self) -> Self {
        if self.interval.is_none() && self.n.0.min(self.n.1) < Self::PERMUTED_FROM {
            self.p_value = None;
        }
        self
    }
}

/// Adjusts the probabilities of all comparisons of a table for their number.
pub fn adjust<'c>(comparisons: impl IntoIterator<Item = &'c mut Comparison>) {
    let mut tested: Vec<&mut Comparison> = comparisons
        .into_iter()
        .filter(|c| c.p_value.is_some())
        .collect();
    let p: Vec<f64> = tested
        .iter()
        .filter_map(|c| Some((c.p_value? * (1.0 - LEVEL) / c.level).min(1.0)))
        .collect();
    for (comparison, q) in tested.iter_mut().zip(false_discovery::adjusted(&p)) {
        comparison.q_value = Some(q);
    }
}

/// Compares independent samples: Welch's test, and Fieller's interval with its degrees of freedom. `None` without values, with values that are
/// not finite, or if the mean of `b` is not positive.
pub fn compare(a: &[f64], b: &[f64]) -> Option<Comparison> {
    compare_independent(a, b, USUAL)
}

/// Compares independent samples of which one or both ended when their interval was narrow, after so many repeats at least: at 3 % from five
/// repeats on, at 2 % of fewer.
///
/// Repeats that end when they happen to lie close together scatter by more than they show: at 5 %, equal sites of them are called different in
/// up to 12 of 100 comparisons, at these levels in 3 to 7 (a test simulates it). The interval is that of the same level.
pub fn compare_stopped(a: &[f64], b: &[f64], least: usize) -> Option<Comparison> {
    compare_independent(a, b, if least >= 5 { 0.03 } else { 0.02 })
}

fn compare_independent(a: &[f64], b: &[f64], level: f64) -> Option<Comparison> {
    let (of_a, of_b) = means(a, b)?;
    let ratio = ratio_of(of_a, of_b);
    let mut comparison = Comparison {
        n: (a.len(), b.len()),
        paired: false,
        level,
        ratio,
        interval: None,
        p_value: None,
        q_value: None,
        effect_size: None,
    };
    let (Some(sd_a), Some(sd_b)) = (sample_sd(a), sample_sd(b)) else {
        return Some(comparison);
    };
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    let (square_a, square_b) = (sd_a * sd_a / n_a, sd_b * sd_b / n_b);
    // Welch and Satterthwaite, of the difference a - ratio b
    let freedom = |ratio: f64| {
        let scaled = ratio * ratio * square_b;
        let sum = square_a + scaled;
        if sum > 0.0 {
            sum * sum / (square_a * square_a / (n_a - 1.0) + scaled * scaled / (n_b - 1.0))
        } else {
            1.0
        }
    };
    let error = (square_a + square_b).sqrt();
    let apart = difference(of_a, of_b);
    comparison.p_value = Some(probability(apart, error, freedom(1.0)));
    comparison.interval = fieller(
        1.0 - level,
        (of_a, of_b),
        (square_a, square_b, 0.0),
        freedom(ratio),
    )
    .map(|interval| possible(interval, a));
    comparison.effect_size = effect_size(apart, (a.len(), sd_a), (b.len(), sd_b));
    Some(comparison.without_judgement_of_few())
}

/// Compares interleaved repeats: each pair ran close together, so that drift cancels out. The paired permutation test, below six pairs
/// Student's, and Fieller's interval. `None` without pairs, with values that are not finite, or if the mean of the second is not positive.
pub fn compare_paired(pairs: &[(f64, f64)]) -> Option<Comparison> {
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (of_a, of_b) = means(&a, &b)?;
    let n = (a.len(), b.len());
    let mut comparison = Comparison {
        n,
        paired: true,
        level: USUAL,
        ratio: ratio_of(of_a, of_b),
        interval: None,
        p_value: None,
        q_value: None,
        effect_size: None,
    };
    let (Some(sd_a), Some(sd_b)) = (sample_sd(&a), sample_sd(&b)) else {
        return Some(comparison);
    };
    let (count, freedom) = (pairs.len() as f64, pairs.len() as f64 - 1.0);
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| difference(*a, *b)).collect();
    let apart = difference(of_a, of_b);
    comparison.p_value = if pairs.len() < Comparison::PERMUTED_FROM {
        sample_sd(&differences).map(|sd| probability(apart, sd / count.sqrt(), freedom))
    } else {
        permutation::probability(&differences)
    };
    let together = pairs
        .iter()
        .map(|(a, b)| (a - of_a) * (b - of_b))
        .sum::<f64>()
        / freedom
        / count;
    comparison.interval = fieller(
        LEVEL,
        (of_a, of_b),
        (sd_a * sd_a / count, sd_b * sd_b / count, together),
        freedom,
    )
    .map(|interval| possible(interval, &a));
    comparison.effect_size = effect_size(apart, (a.len(), sd_a), (b.len(), sd_b));
    Some(comparison.without_judgement_of_few())
}

fn means(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    if a.iter().chain(b).any(|v| !v.is_finite()) {
        return None;
    }
    let (of_a, of_b) = (mean(a)?, mean(b)?);
    (of_b > 0.0).then_some((of_a, of_b))
}

/// The ratio of two means; 1 where only rounding tells them apart.
fn ratio_of(a: f64, b: f64) -> f64 {
    if difference(a, b) == 0.0 { 1.0 } else { a / b }
}

/// The two-sided probability of Student's test; a difference without scatter is no chance, and no difference is.
pub(super) fn probability(difference: f64, error: f64, freedom: f64) -> f64 {
    match (difference == 0.0, error > 0.0) {
        (true, _) => 1.0,
        (false, false) => 0.0,
        (false, true) => t_probability(difference / error, freedom),
    }
}

/// Returns the interval of a ratio of two means: all ratios r for which a - r b is within t standard errors of 0 (Fieller 1954, Some problems
/// in interval estimation, J. R. Stat. Soc. B 16). `None` if the second mean is not told apart from 0.
fn fieller(
    level: f64,
    (a, b): (f64, f64),
    (square_a, square_b, together): (f64, f64, f64),
    freedom: f64,
) -> Option<Interval> {
    let t = t_quantile_at(level, freedom).powi(2);
    let within = |square: f64| if square == 0.0 { 0.0 } else { t * square };
    let denominator = b * b - within(square_b);
    if denominator.is_nan() || denominator <= 0.0 {
        return None;
    }
    let centre = a * b - within(together);
    let root = (centre * centre - denominator * (a * a - within(square_a)))
        .max(0.0)
        .sqrt();
    let (low, high) = ((centre - root) / denominator, (centre + root) / denominator);
    // without scatter rounding must not move the ratio out of its interval
    let ratio = ratio_of(a, b);
    (low.is_finite() && high.is_finite()).then(|| Interval {
        low: low.min(ratio),
        high: high.max(ratio),
    })
}

/// Cuts an interval at 0 if no value of the first sample is negative (the mean of the second is positive): the true ratio cannot lie below, so
/// that the interval holds it as often as before.
fn possible(interval: Interval, a: &[f64]) -> Interval {
    if a.iter().all(|v| *v >= 0.0) {
        Interval {
            low: interval.low.max(0.0),
            high: interval.high.max(0.0),
        }
    } else {
        interval
    }
}

/// Hedges' g (1981, Distribution theory for Glass's estimator of effect size, J. Educ. Stat. 6).
fn effect_size(
    difference: f64,
    (n_a, sd_a): (usize, f64),
    (n_b, sd_b): (usize, f64),
) -> Option<f64> {
    let (a, b) = (n_a as f64 - 1.0, n_b as f64 - 1.0);
    let pooled = ((a * sd_a * sd_a + b * sd_b * sd_b) / (a + b)).sqrt();
    (pooled > 0.0).then(|| difference / pooled * (1.0 - 3.0 / (4.0 * (a + b) - 1.0)))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            random::{
                samples::{Nature, normal, share},
                seeded,
            },
            stopping::stopped_sample,
        },
        *,
    };

    #[test]
    fn a_ratio_of_times_has_no_interval_below_0() {
        // two repeats that scatter by more than their mean
        let [a, b] = [[0.1, 3.8], [1.0, 1.05]];
        let pairs = [(a[0], b[0]), (a[1], b[1])];
        for compared in [compare(&a, &b), compare_paired(&pairs)] {
            let i = compared.and_then(|c| c.interval).expect("an interval");
            assert!(i.low == 0.0 && i.high > 1.9, "{i:?}");
        }
        // what can be negative keeps both ends
        let i = compare(&[-0.1, 3.8], &b).and_then(|c| c.interval);
        assert!(i.expect("an interval").low < 0.0);
    }

    #[test]
    fn pairs_cancel_a_drift_that_hides_the_difference_otherwise() {
        // each pair differs by exactly 10 %, while the machine slows down to half its speed
        let pairs: Vec<(f64, f64)> = (0..6)
            .map(|i| 1.0 + f64::from(i) * 0.2)
            .map(|base| (base * 1.1, base))
            .collect();
        let paired = compare_paired(&pairs).expect("a comparison");
        let i = paired.interval.expect("an interval");
        assert!(
            (paired.ratio - 1.1).abs() < 1e-12 && (i.high - i.low) < 1e-6 && paired.differs(),
            "{paired:?}"
        );
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        assert!(!compare(&a, &b).expect("a comparison").differs());
    }

    #[test]
    fn unusable_values_give_no_comparison_and_single_ones_no_interval() {
        assert!(compare(&[], &[1.0]).is_none());
        assert!(compare(&[1.0], &[0.0]).is_none());
        assert!(compare(&[f64::NAN], &[1.0]).is_none());
        let single = compare(&[2.0], &[1.0]).expect("a ratio");
        assert_eq!(
            (
                single.ratio,
                single.interval,
                single.p_value,
                single.differs()
            ),
            (2.0, None, None, false)
        );
        // a baseline that may as well be 0
        assert!(
            compare_paired(&[(1.0, 0.1), (1.0, 9.0)])
                .expect("a ratio")
                .interval
                .is_none()
        );
    }

    #[test]
    fn what_does_not_scatter_differs_surely_or_not_at_all() {
        let smaller = compare_paired(&[(1.0, 2.0), (1.0, 2.0), (1.0, 2.0)]).expect("a ratio");
        let i = smaller.interval.expect("an interval");
        assert!(
            smaller.differs()
                && smaller.effect_size.is_none()
                && (i.low - 0.5).abs() < 1e-9
                && (i.high - 0.5).abs() < 1e-9,
            "{smaller:?}"
        );
        assert!(!compare_paired(&[(2.0, 2.0); 3]).expect("a ratio").differs());
    }

    #[test]
    fn a_last_bit_is_no_difference() {
        for n in [2, 4, 6, 20] {
            let (a, b) = (vec![0.1 + 0.2; n], vec![0.3; n]);
            let pairs: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
            for c in [compare(&a, &b), compare_paired(&pairs)].map(|c| c.expect("a comparison")) {
                assert_eq!(
                    (c.ratio, c.p_value, c.differs(), c.effect_size),
                    (1.0, Some(1.0), false, None),
                    "{n}: {c:?}"
                );
            }
        }
        // a byte of a gibibyte is one
        assert!(compare(&[1_073_741_825.0; 3], &[1_073_741_824.0; 3]).is_some_and(|c| c.differs()));
    }

    #[test]
    fn few_repeats_that_do_not_bound_the_ratio_have_no_star() {
        let constant = compare_paired(&[(2.0, 1.0), (3.0, 2.0), (4.0, 3.0)]).expect("a ratio");
        assert_eq!(
            (constant.interval, constant.p_value, constant.differs()),
            (None, None, false)
        );
    }

    /// R: t.test(a, b) and the effect size by hand.
    #[test]
    fn known_values() {
        let (a, b) = ([5.1, 4.9, 5.6, 5.3], [4.2, 4.4, 4.0, 4.6, 4.3]);
        let c = compare(&a, &b).expect("a comparison");
        // means 5.225 and 4.3, variances 0.0891667 and 0.05: t = 5.1533, 5.573 degrees of freedom
        assert!(
            c.p_value.is_some_and(|p| (p - 0.002_70).abs() < 2e-4),
            "{c:?}"
        );
        assert!(
            c.effect_size
                .is_some_and(
                    |g| (g - 0.925 / 0.066_785_7f64.sqrt() * (1.0 - 3.0 / 27.0)).abs() < 1e-4
                ),
            "{c:?}"
        );
    }

    #[test]
    fn ratios_of_a_table_are_judged_together() {
        let of = |p: f64| Comparison {
            n: (8, 8),
            paired: true,
            level: USUAL,
            ratio: 1.1,
            interval: None,
            p_value: Some(p),
            q_value: None,
            effect_size: None,
        };
        let mut table = [of(0.04), of(0.5), of(0.9), of(0.001)];
        assert!(table[0].differs());
        adjust(&mut table);
        assert_eq!(table.map(|c| c.differs()), [false, false, false, true]);
    }

    /// Equal things are called different in at most 6 of 100 comparisons, and in not too few: then the test would see nothing.
    #[test]
    fn equal_samples_are_seldom_called_different() {
        let natures: [Nature; 2] = [
            ("normal", |z| 1.0 + 0.1 * z),
            ("log-normal", |z| (0.5 * z).exp()),
        ];
        for n in [4, 5, 6, 7, 8, 10, 14, 20] {
            for (name, value) in natures {
                let mut random = seeded([&[n as f64][..]]);
                let trials = 4000;
                let mut both = (0u32, 0u32);
                for _ in 0..trials {
                    let mut sample =
                        || -> Vec<f64> { (0..n).map(|_| value(normal(&mut random))).collect() };
                    let (a, b) = (sample(), sample());
                    let pairs: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
                    both.0 += u32::from(compare_paired(&pairs).is_some_and(|c| c.differs()));
                    both.1 += u32::from(compare(&a, &b).is_some_and(|c| c.differs()));
                }
                let [paired, independent] =
                    [both.0, both.1].map(|count| f64::from(count) / f64::from(trials));
                assert!(
                    (0.015..=0.06).contains(&paired),
                    "paired, {name}, {n}: {paired}"
                );
                assert!(
                    (0.015..=0.06).contains(&independent),
                    "independent, {name}, {n}: {independent}"
                );
            }
        }
    }

    /// Equal sites whose repeats end as soon as their interval is narrow, from three and from five repeats on.
    #[test]
    fn equal_sites_of_stopped_repeats_are_seldom_called_different() {
        for (least, most) in [(3, 0.08), (5, 0.08)] {
            for scatter in [0.03, 0.05, 0.08] {
                let mut random = seeded([&[least as f64, scatter][..]]);
                let mut as_if_not_stopped = 0;
                let called = share(2000, || {
                    let [a, b] = [(), ()].map(|()| {
                        stopped_sample(least, |random| 1.0 + scatter * normal(random), &mut random)
                    });
                    as_if_not_stopped += u32::from(compare(&a, &b).is_some_and(|c| c.differs()));
                    compare_stopped(&a, &b, least).is_some_and(|c| c.differs())
                });
                assert!(
                    (0.01..=most).contains(&called),
                    "from {least}, scatter {scatter}: {called}"
                );
                assert!(f64::from(as_if_not_stopped) / 2000.0 > called);
            }
        }
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_ratio() {
        for n in [3, 5, 8, 10, 20] {
            let mut random = seeded([&[n as f64][..]]);
            let truth = 1.3;
            let mut held = [0.0; 2];
            for (at, held) in held.iter_mut().enumerate() {
                *held = share(3000, || {
                    // both sides share part of their scatter, as repeats that ran close together do
                    let pairs: Vec<(f64, f64)> = (0..n)
                        .map(|_| {
                            let common = normal(&mut random) * 0.05;
                            (
                                truth * (1.0 + common + 0.05 * normal(&mut random)),
                                1.0 + common + 0.1 * normal(&mut random),
                            )
                        })
                        .collect();
                    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
                    let c = if at == 0 {
                        compare_paired(&pairs)
                    } else {
                        compare(&a, &b)
                    };
                    c.and_then(|c| c.interval)
                        .is_some_and(|i| i.low <= truth && truth <= i.high)
                });
            }
            assert!(
                (0.93..=0.97).contains(&held[0]),
                "paired, {n} repeats: {}",
                held[0]
            );
            // these are pairs: taking them for independent wastes what they have in common
            assert!(
                (0.93..=0.995).contains(&held[1]),
                "independent, {n} repeats: {}",
                held[1]
            );
        }
    }
}
