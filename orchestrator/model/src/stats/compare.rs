//! Comparison of two samples: the ratio of their means with its interval, and the size of the difference relative to the scatter.

use super::{
    false_discovery,
    interval::{Interval, LEVEL},
    moments::{difference, mean, sample_sd},
    student::{t_probability, t_quantile_at},
};
use serde::Serialize;

/// The significance level for samples whose repeats were not stopped early.
const USUAL: f64 = 1.0 - LEVEL;

fn is_usual(level: &f64) -> bool {
    *level == USUAL
}

/// The comparison of samples `a` and `b` by the ratio of their means.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Number of values in the first and in the second sample.
    pub n: (usize, usize),
    /// Whether the values are pairs of runs that ran close together.
    pub paired: bool,
    /// Significance level; the interval covers 1 − this level. It is 5 %, or less if repeats ended as soon as their interval was narrow, or if the
    /// comparison was adjusted for the number of comparisons.
    #[serde(skip_serializing_if = "is_usual")]
    pub level: f64,
    /// Mean of the first sample divided by the mean of the second.
    pub ratio: f64,
    /// Fieller's interval of the ratio; `None` if a sample has fewer than two values, or if the values scatter too much. If no value is negative,
    /// as for times and sizes, the interval is cut off at 0.
    pub interval: Option<Interval>,
    /// Probability of a difference at least as large if the true means are equal; `None` without an interval.
    pub p_value: Option<f64>,
    /// The smaller of two probabilities, adjusted for the number of comparisons in a table: [`Self::p_value`], and that of means at least as similar
    /// if the true difference is beyond the margin. It is scaled by 5 %/[`Self::level`], so that it is always compared with 5 %.
    pub q_value: Option<f64>,
    /// Hedges' g: the difference of the means divided by the pooled standard deviation, corrected for small samples; `None` without scatter.
    pub effect_size: Option<f64>,
    #[serde(skip)]
    basis: Option<Basis>,
}

/// Numbers from which both the test and the interval are computed, so that the two never disagree.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Basis {
    means: (f64, f64),
    /// Variance of the first mean, variance of the second mean, and their covariance.
    squares: (f64, f64, f64),
    freedom: f64,
    /// Whether the ratio cannot be negative.
    is_positive: bool,
}

impl Basis {
    /// Returns the two-sided probability of the observed means if the true ratio is `ratio`.
    fn probability(&self, ratio: f64) -> f64 {
        let (a, b, together) = self.squares;
        let square = a + ratio * ratio * b - 2.0 * ratio * together;
        let apart = difference(self.means.0, ratio * self.means.1);
        probability(apart, square.max(0.0).sqrt(), self.freedom)
    }

    fn interval(&self, level: f64) -> Option<Interval> {
        let interval = fieller(level, self.means, self.squares, self.freedom)?;
        Some(if self.is_positive {
            // the true ratio cannot be below 0, so cutting the interval off at 0 does not change its coverage
            Interval {
                low: interval.low.max(0.0),
                high: interval.high.max(0.0),
            }
        } else {
            interval
        })
    }
}

impl Comparison {
    /// Compares means by Student's test and Fieller's interval.
    fn new(
        (n, paired, level): ((usize, usize), bool, f64),
        means: (f64, f64),
        of: Option<(Basis, f64, Option<f64>)>,
    ) -> Self {
        let mut comparison = Self {
            n,
            paired,
            level,
            ratio: ratio_of(means.0, means.1),
            interval: None,
            p_value: of.map(|(_, p, _)| p),
            q_value: None,
            effect_size: of.and_then(|(.., effect_size)| effect_size),
            basis: of.map(|(basis, ..)| basis),
        };
        comparison.set_level(level);
        // a difference without an interval is not reported as significant
        comparison.p_value = comparison.p_value.filter(|_| comparison.interval.is_some());
        comparison
    }

    fn set_level(&mut self, level: f64) {
        self.level = level;
        self.interval = self
            .basis
            .and_then(|basis| basis.interval(1.0 - level))
            .filter(|interval| interval.is_useful(self.ratio));
    }

    /// Returns whether the difference is larger than the scatter of the repeats explains: the interval does not contain 1.
    pub fn differs(&self) -> bool {
        self.interval.is_some_and(|i| !i.holds(1.0))
    }

    /// Returns the probability that the observed ratio is this close to 1 although the true ratio is beyond the margin.
    fn probability_of_sameness(&self, margin: f64) -> f64 {
        let ends = [1.0 / (1.0 + margin), 1.0 + margin];
        match self.basis {
            Some(basis) if ends[0] < self.ratio && self.ratio < ends[1] => ends
                .map(|end| basis.probability(end))
                .into_iter()
                .fold(0.0, f64::max),
            _ => 1.0,
        }
    }

    /// Returns the standard error of the logarithm of the ratio, by a first-order approximation; `None` if the mean of the first sample is not
    /// positive.
    pub(super) fn log_error(&self) -> Option<f64> {
        let Basis {
            means: (a, b),
            squares: (square_a, square_b, together),
            ..
        } = self.basis.filter(|basis| basis.means.0 > 0.0)?;
        let square = square_a / (a * a) + square_b / (b * b) - 2.0 * together / (a * b);
        Some(square.max(0.0).sqrt())
    }
}

/// Adjusts all comparisons of a table for their number. `margin` is the largest relative difference that does not matter.
///
/// Each comparison is tested for a difference and for equality within the margin; the smaller of the two probabilities enters Benjamini and
/// Hochberg's procedure. On average, 5 % of the decided comparisons are false. All intervals get the corresponding level, at which 95 % of the
/// intervals of decided comparisons contain the true ratio (Benjamini and Yekutieli 2005, False discovery rate-adjusted multiple confidence
/// intervals, J. Am. Stat. Assoc. 100). Comparisons without scatter are not subject to chance, and do not count.
pub fn adjust<'c>(comparisons: impl IntoIterator<Item = &'c mut Comparison>, margin: f64) {
    let (mut tested, sure): (Vec<&mut Comparison>, Vec<_>) = comparisons
        .into_iter()
        .filter(|c| c.p_value.is_some())
        .partition(|c| c.effect_size.is_some());
    for comparison in sure {
        comparison.q_value = comparison.p_value;
    }
    let p: Vec<f64> = tested
        .iter()
        .map(|c| {
            let p = c.p_value.unwrap_or(1.0);
            (p.min(c.probability_of_sameness(margin)) * USUAL / c.level).min(1.0)
        })
        .collect();
    let (adjusted, level) = false_discovery::adjusted(&p, USUAL);
    for (comparison, q) in tested.iter_mut().zip(adjusted) {
        comparison.q_value = Some(q);
        comparison.set_level(level * comparison.level / USUAL);
    }
}

/// Compares independent samples by Welch's test, and by Fieller's interval with the same degrees of freedom. Returns `None` if a sample is empty,
/// if a value is not finite, or if the mean of `b` is not positive.
pub fn compare(a: &[f64], b: &[f64]) -> Option<Comparison> {
    compare_independent(a, b, USUAL)
}

/// Compares independent samples if repeats of one or both ended as soon as their interval was narrow, after at least `least` repeats. The level is
/// 3 % from five repeats on, and 2 % for fewer.
///
/// Such repeats end when their values happen to be close, so their true scatter is larger than their observed scatter. At a level of 5 %, up to 12
/// of 100 comparisons of equal sites report a difference; at the levels used here, 3 to 7 of 100 do (a test simulates it). The interval has the
/// same level.
pub fn compare_stopped(a: &[f64], b: &[f64], least: usize) -> Option<Comparison> {
    compare_independent(a, b, if least >= 5 { 0.03 } else { 0.02 })
}

fn compare_independent(a: &[f64], b: &[f64], level: f64) -> Option<Comparison> {
    let means = means(a, b)?;
    let of_sds = |sd_a: f64, sd_b: f64| {
        let (n_a, n_b) = (a.len() as f64, b.len() as f64);
        let (square_a, square_b) = (sd_a * sd_a / n_a, sd_b * sd_b / n_b);
        let sum = square_a + square_b;
        // degrees of freedom by Welch and Satterthwaite
        let freedom = if sum > 0.0 {
            sum * sum / (square_a * square_a / (n_a - 1.0) + square_b * square_b / (n_b - 1.0))
        } else {
            1.0
        };
        let basis = Basis {
            means,
            squares: (square_a, square_b, 0.0),
            freedom,
            is_positive: a.iter().all(|v| *v >= 0.0),
        };
        let apart = difference(means.0, means.1);
        let effect_size = effect_size(apart, (a.len(), sd_a), (b.len(), sd_b));
        (basis, basis.probability(1.0), effect_size)
    };
    let sds = sample_sd(a).zip(sample_sd(b));
    Some(Comparison::new(
        ((a.len(), b.len()), false, level),
        means,
        sds.map(|(sd_a, sd_b)| of_sds(sd_a, sd_b)),
    ))
}

/// Compares interleaved repeats by Student's paired test and Fieller's interval. The two runs of a pair ran close together, so that drift cancels
/// out. Returns `None` without pairs, if a value is not finite, or if the mean of the second values is not positive.
pub fn compare_paired(pairs: &[(f64, f64)]) -> Option<Comparison> {
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let means = means(&a, &b)?;
    let (count, freedom) = (pairs.len() as f64, pairs.len() as f64 - 1.0);
    let of_sds = |sd_a: f64, sd_b: f64| {
        let differences: Vec<f64> = pairs.iter().map(|(a, b)| difference(*a, *b)).collect();
        let together = pairs
            .iter()
            .map(|(a, b)| (a - means.0) * (b - means.1))
            .sum::<f64>()
            / freedom
            / count;
        let basis = Basis {
            means,
            squares: (sd_a * sd_a / count, sd_b * sd_b / count, together),
            freedom,
            is_positive: a.iter().all(|v| *v >= 0.0),
        };
        let apart = difference(means.0, means.1);
        // equals the error that follows from the basis, except for rounding of differences that do not scatter
        let error = sample_sd(&differences).unwrap_or(0.0) / count.sqrt();
        let effect_size = effect_size(apart, (a.len(), sd_a), (b.len(), sd_b));
        (basis, probability(apart, error, freedom), effect_size)
    };
    let sds = sample_sd(&a).zip(sample_sd(&b));
    Some(Comparison::new(
        ((a.len(), b.len()), true, USUAL),
        means,
        sds.map(|(sd_a, sd_b)| of_sds(sd_a, sd_b)),
    ))
}

fn means(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    if a.iter().chain(b).any(|v| !v.is_finite()) {
        return None;
    }
    let (of_a, of_b) = (mean(a)?, mean(b)?);
    (of_b > 0.0).then_some((of_a, of_b))
}

/// Returns the ratio of two means, or 1 if they differ only by rounding.
fn ratio_of(a: f64, b: f64) -> f64 {
    if difference(a, b) == 0.0 { 1.0 } else { a / b }
}

/// Returns the two-sided probability of Student's test. Without scatter it is 0 for a difference, and 1 for none.
pub(super) fn probability(difference: f64, error: f64, freedom: f64) -> f64 {
    match (difference == 0.0, error > 0.0) {
        (true, _) => 1.0,
        (false, false) => 0.0,
        (false, true) => t_probability(difference / error, freedom),
    }
}

/// Returns Fieller's interval of a ratio of two means: all ratios r for which a − r·b is within t standard errors of 0 (Fieller 1954, Some problems
/// in interval estimation, J. R. Stat. Soc. B 16). Returns `None` if the second mean is indistinguishable from 0.
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
    // if there is no scatter, rounding must not move the ratio out of its interval
    let ratio = ratio_of(a, b);
    (low.is_finite() && high.is_finite()).then(|| Interval {
        low: low.min(ratio),
        high: high.max(ratio),
    })
}

/// Returns Hedges' g (1981, Distribution theory for Glass's estimator of effect size, J. Educ. Stat. 6).
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
        // repeats whose scatter is nearly as large as their mean
        let [a, b] = [[0.2, 2.0, 2.5], [1.0, 1.05, 0.97]];
        let pairs = [(a[0], b[0]), (a[1], b[1]), (a[2], b[2])];
        for compared in [compare(&a, &b), compare_paired(&pairs)] {
            let i = compared.and_then(|c| c.interval).expect("an interval");
            assert!(i.low == 0.0 && i.high > 1.9, "{i:?}");
        }
        // for quantities that can be negative, the interval is not cut off at 0
        let i = compare(&[-0.1, 2.0, 2.5], &b).and_then(|c| c.interval);
        assert!(i.expect("an interval").low < 0.0);
    }

    #[test]
    fn pairs_cancel_a_drift_that_hides_the_difference_otherwise() {
        // each pair differs by exactly 10 %, while the machine gradually slows down to half its speed
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
        // a baseline that is indistinguishable from 0
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
        // without scatter, one byte in a GiB is a difference
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

    /// Expected values: R's t.test(a, b), and the effect size computed by hand.
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
    fn ratios_of_a_table_are_judged_together_and_no_interval_contradicts() {
        // pairs with a ratio of 1.1 and increasing scatter
        let of = |scatter: f64| {
            let pairs = [-1.0, 0.0, 1.0, 0.5].map(|z| (1.1 + scatter * z, 1.0 - 0.2 * scatter * z));
            compare_paired(&pairs).expect("a comparison")
        };
        let mut table = [0.06, 0.3, 0.5, 0.005].map(of);
        assert_eq!(table.map(|c| c.differs()), [true, false, false, true]);
        adjust(&mut table, 0.0);
        assert_eq!(table.map(|c| c.differs()), [false, false, false, true]);
        for c in table {
            let (i, q) = (
                c.interval.expect("an interval"),
                c.q_value.expect("adjusted"),
            );
            // the level if one of four comparisons is decided
            assert!((c.level - 0.0125).abs() < 1e-12);
            assert_eq!(
                (q <= 0.05, i.holds(1.0)),
                (c.differs(), !c.differs()),
                "{c:?}"
            );
        }
    }

    #[test]
    fn what_is_the_same_within_the_margin_is_decided_as_well() {
        let near = |shift: f64| {
            compare(
                &[100.0 + shift, 100.2, 99.9, 100.1],
                &[100.0, 99.8, 100.2, 100.1],
            )
            .expect("a comparison")
        };
        // 40 comparisons of equal samples: the level is that of a single comparison, and none becomes undecided because of their number
        let mut table: Vec<Comparison> = (0..40).map(|i| near(f64::from(i) * 0.001)).collect();
        adjust(&mut table, 0.05);
        for c in &table {
            assert!((c.level - USUAL).abs() < 1e-12, "{c:?}");
            assert_eq!(
                crate::stats::Verdict::of(c, 0.05),
                crate::stats::Verdict::Same
            );
        }
        let mut alone = table.clone();
        adjust(&mut alone, 0.0);
        assert!(alone.iter().all(|c| c.level < 0.01));
    }

    /// Equal samples are reported as different in at most 6 of 100 comparisons. A minimum share is checked as well: a test that never reports a
    /// difference would be useless.
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

    /// Equal sites whose repeats end as soon as their interval is narrow, after at least three and after at least five repeats.
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
                    // both values of a pair share part of their scatter, like repeats that ran close together
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
            // these values are pairs; treating them as independent makes the intervals too wide
            assert!(
                (0.93..=0.995).contains(&held[1]),
                "independent, {n} repeats: {}",
                held[1]
            );
        }
    }
}
