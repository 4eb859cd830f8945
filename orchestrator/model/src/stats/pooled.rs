//! The effect of one factor over several points, as the geometric mean of ratios of pairs.

use super::{
    compare::probability,
    false_discovery,
    interval::{Interval, LEVEL, WIDEST},
    student::t_quantile_at,
};
use serde::Serialize;

/// Upper limit for the recommended number of pairs.
const MAX_PAIRS: usize = 10_000;

/// Logarithms closer to 0 than this are rounding errors.
const ROUNDING: f64 = 16.0 * f64::EPSILON;

/// The ratio of the first side of a comparison to the second, averaged over points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PooledRatio {
    /// Number of points, each compared with its counterpart.
    pub points: usize,
    /// Number of pairs of repeats over all points.
    pub pairs: usize,
    /// Geometric mean of the ratios, with the same weight for each point.
    pub ratio: f64,
    /// Interval of the ratio; `None` for a single pair, or if the pairs scatter too much.
    pub interval: Option<Interval>,
    /// Confidence level of the interval: 95 %, or more after the adjustment for the number of effects that are examined together.
    pub level: f64,
    /// Probability of a ratio at least as far from 1 if there is no effect; `None` without an interval.
    pub p_value: Option<f64>,
    /// Standard error of the ratio's logarithm, and its degrees of freedom; `None` for a single pair.
    #[serde(skip)]
    spread: Option<(f64, f64)>,
}

impl PooledRatio {
    /// Returns whether there is an effect: the interval does not contain 1. At most 5 % of the reported effects are due to chance.
    pub fn differs(&self) -> bool {
        self.interval.is_some_and(|i| !i.holds(1.0))
    }

    /// Returns whether all pairs are equal.
    pub fn is_equal(&self) -> bool {
        self.interval.is_some_and(|i| i.low == 1.0 && i.high == 1.0)
    }

    /// Returns the number of pairs needed for an interval if further pairs scatter like these; `None` for a single pair, or if ten thousand pairs
    /// are not enough.
    pub fn pairs_needed(&self) -> Option<usize> {
        let (error, freedom) = self.spread?;
        let enough = |pairs: &usize| {
            let more = *pairs as f64 / self.pairs as f64;
            let half = t_quantile_at(self.level, freedom * more) * error / more.sqrt();
            2.0 * half.sinh() <= WIDEST
        };
        (self.pairs + 1..MAX_PAIRS).find(enough)
    }

    /// Returns the change of the first side relative to the second, percent.
    pub fn change_pct(&self) -> f64 {
        (self.ratio - 1.0) * 100.0
    }

    /// Returns the ends of the interval as changes, percent.
    pub fn interval_pct(&self) -> Option<(f64, f64)> {
        self.interval
            .map(|i| ((i.low - 1.0) * 100.0, (i.high - 1.0) * 100.0))
    }

    fn set_level(&mut self, level: f64) {
        self.level = level;
        self.interval = self.spread.and_then(|(error, freedom)| {
            let half = if error > 0.0 {
                error * t_quantile_at(level, freedom)
            } else {
                0.0
            };
            let interval = Interval {
                low: self.ratio * (-half).exp(),
                high: self.ratio * half.exp(),
            };
            Some(interval).filter(|i| i.is_useful(self.ratio))
        });
    }
}

/// Adjusts effects that are examined together for their number, and returns the confidence level that their intervals get. At this level, 95 % of
/// the intervals that do not contain 1 contain the true ratio (Benjamini and Yekutieli 2005). These are the intervals of the effects that Benjamini
/// and Hochberg's procedure reports. Effects without scatter are not subject to chance, and do not count.
pub fn adjust_effects<'e>(effects: impl IntoIterator<Item = &'e mut PooledRatio>) -> f64 {
    let scatters = |effect: &PooledRatio| effect.spread.is_some_and(|(error, _)| error > 0.0);
    let mut tested: Vec<&mut PooledRatio> = effects
        .into_iter()
        .filter(|effect| effect.p_value.is_some() && scatters(effect))
        .collect();
    let p: Vec<f64> = tested.iter().filter_map(|effect| effect.p_value).collect();
    let (_, of_each) = false_discovery::adjusted(&p, 1.0 - LEVEL);
    for effect in &mut tested {
        effect.set_level(1.0 - of_each);
    }
    1.0 - of_each
}

/// Ratios of points that are not independent because they share a counterpart. The points form one series of ratios.
#[derive(Clone, Debug, PartialEq)]
pub struct RatioGroup {
    /// Number of points.
    pub points: usize,
    /// The ratio for each repeat: the geometric mean over the points of the group.
    pub ratios: Vec<f64>,
}

/// Pools groups of ratios. The groups are independent of each other.
///
/// The result is the mean of the logarithms of the ratios over points; a group of w points has the weight w. If every group has two repeats or
/// more, the variance is that of the repeats, Σ wᵢ² sᵢ²/nᵢ / (Σ wᵢ)², with Welch and Satterthwaite's degrees of freedom. The interval is then valid
/// for these points, not for points in general. Otherwise the variance is that between groups, with k - 1 degrees of freedom for k groups.
///
/// Returns `None` without ratios, or if a ratio is not positive.
pub fn pooled_ratio(groups: &[RatioGroup]) -> Option<PooledRatio> {
    let groups: Vec<&RatioGroup> = groups.iter().filter(|g| !g.ratios.is_empty()).collect();
    let log = |ratio: &f64| (*ratio > 0.0 && ratio.is_finite()).then(|| ratio.ln());
    let logs: Vec<Vec<f64>> = groups
        .iter()
        .map(|g| g.ratios.iter().map(log).collect())
        .collect::<Option<_>>()?;
    let weights: Vec<f64> = groups.iter().map(|g| g.points as f64).collect();
    let total: f64 = weights.iter().sum();
    if logs.is_empty() || total <= 0.0 {
        return None;
    }
    let means: Vec<f64> = logs
        .iter()
        .map(|l| l.iter().sum::<f64>() / l.len() as f64)
        .collect();
    let mean = means.iter().zip(&weights).map(|(m, w)| m * w).sum::<f64>() / total;
    let mean = if mean.abs() <= ROUNDING { 0.0 } else { mean };
    let spread = if logs.iter().all(|l| l.len() > 1) {
        let of_group = |((l, mean), w): ((&Vec<f64>, &f64), &f64)| {
            (
                w * w * variance(l, *mean) / l.len() as f64,
                l.len() as f64 - 1.0,
            )
        };
        let of_groups: Vec<(f64, f64)> = logs
            .iter()
            .zip(&means)
            .zip(&weights)
            .map(of_group)
            .collect();
        let sum: f64 = of_groups.iter().map(|(v, _)| v).sum();
        let squares: f64 = of_groups.iter().map(|(v, freedom)| v * v / freedom).sum();
        // without scatter, the number of degrees of freedom does not matter
        Some((
            sum.sqrt() / total,
            if squares > 0.0 {
                sum * sum / squares
            } else {
                1.0
            },
        ))
    } else {
        let k = means.len() as f64;
        let between: f64 = means
            .iter()
            .zip(&weights)
            .map(|(m, w)| (w * (m - mean)).powi(2))
            .sum();
        (means.len() > 1).then(|| ((between * k / (k - 1.0)).sqrt() / total, k - 1.0))
    };
    let mut pooled = PooledRatio {
        points: groups.iter().map(|g| g.points).sum(),
        pairs: groups.iter().map(|g| g.points * g.ratios.len()).sum(),
        ratio: mean.exp(),
        interval: None,
        level: LEVEL,
        p_value: None,
        // logarithms of equal numbers may differ by rounding
        spread: spread
            .map(|(error, freedom)| (if error <= ROUNDING { 0.0 } else { error }, freedom)),
    };
    pooled.set_level(LEVEL);
    // an effect without an interval is not reported as an effect
    if let (Some((error, freedom)), Some(_)) = (pooled.spread, pooled.interval) {
        pooled.p_value = Some(probability(mean, error, freedom));
    }
    Some(pooled)
}

/// Returns the sample variance about a known sample mean.
fn variance(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::random::{samples, seeded};
    use super::{Interval, RatioGroup, adjust_effects, pooled_ratio};

    const EVERYTHING: Interval = Interval {
        low: 0.0,
        high: f64::INFINITY,
    };

    fn point(ratios: Vec<f64>) -> RatioGroup {
        RatioGroup { points: 1, ratios }
    }

    #[test]
    fn repeats_of_one_point_have_the_interval_of_students_t() {
        // logarithms of the ratios: 0.1, 0.2, 0.3; t(0.975, 2) = 4.302653; 0.1 / sqrt(3) = 0.0577350
        let pooled =
            pooled_ratio(&[point([0.1f64, 0.2, 0.3].map(f64::exp).to_vec())]).expect("a ratio");
        let interval = pooled.interval.expect("an interval");
        assert!((pooled.ratio.ln() - 0.2).abs() < 1e-9);
        assert!(
            (interval.low.ln() - (0.2 - 4.302_653 * 0.057_735)).abs() < 1e-5,
            "{interval:?}"
        );
        assert!(
            (interval.high.ln() - (0.2 + 4.302_653 * 0.057_735)).abs() < 1e-5,
            "{interval:?}"
        );
        assert!(!pooled.differs());
    }

    #[test]
    fn single_repeats_are_judged_by_how_much_points_differ() {
        let one = |l: f64| point(vec![l.exp()]);
        assert!(
            pooled_ratio(&[one(0.1)])
                .expect("a ratio")
                .interval
                .is_none()
        );
        let interval = pooled_ratio(&[one(0.1), one(0.2), one(0.3)])
            .expect("a ratio")
            .interval
            .expect("an interval");
        assert!(
            (interval.high.ln() - (0.2 + 4.302_653 * 0.057_735)).abs() < 1e-5,
            "{interval:?}"
        );
    }

    #[test]
    fn what_is_not_positive_has_no_ratio_and_what_does_not_scatter_no_width() {
        assert!(pooled_ratio(&[]).is_none() && pooled_ratio(&[point(Vec::new())]).is_none());
        assert!(
            pooled_ratio(&[point(vec![f64::INFINITY])]).is_none()
                && pooled_ratio(&[point(vec![-1.0])]).is_none()
        );
        let same = pooled_ratio(&[point(vec![2.0, 2.0])]).expect("a ratio");
        assert!(
            same.interval
                .is_some_and(|i| (i.high - i.low).abs() < 1e-12)
                && same.differs()
        );
    }

    #[test]
    fn what_scatters_too_much_has_no_interval_and_says_how_many_pairs_it_takes() {
        let wild = pooled_ratio(&[point(vec![0.02, 0.7])]).expect("a ratio");
        let needed = wild.pairs_needed().expect("a number");
        assert!(
            wild.interval.is_none() && !wild.differs() && (4..40).contains(&needed),
            "{wild:?} {needed}"
        );
        assert!(
            pooled_ratio(&[point(vec![2.0])])
                .expect("a ratio")
                .pairs_needed()
                .is_none()
        );
    }

    #[test]
    fn intervals_agree_with_what_the_adjustment_calls_an_effect() {
        let of = |shift: f64| {
            pooled_ratio(&[point(
                [-0.1, 0.0, 0.1].map(|l: f64| (shift + l).exp()).to_vec(),
            )])
            .expect("a ratio")
        };
        // 0.3 alone is an effect: 0.3 / 0.0577 = 5.2 > 4.3
        assert!(of(0.3).differs() && of(0.3).level == 0.95);
        let mut many = [of(0.3), of(0.0), of(0.1), of(0.05)];
        let level = adjust_effects(&mut many);
        assert!((level - 0.9875).abs() < 1e-12 && many.iter().all(|e| e.level == level));
        assert!(
            many.iter()
                .all(|e| !e.differs() && e.interval.is_some_and(|i| i.holds(1.0)))
        );
        let mut two = [
            of(0.3),
            of(0.6),
            pooled_ratio(&[point(vec![2.0, 2.0])]).expect("a ratio"),
        ];
        // effects without scatter do not count
        assert_eq!(adjust_effects(&mut two), 0.95);
        assert!(two.iter().all(|e| e.differs()));
    }

    /// Returns how often intervals contain the true effect. There are `groups` counterparts, each shared by `shared` points with `repeats` repeats.
    /// The logarithms of all values scatter by 0.1, and each group has its own effect.
    fn coverage(groups: usize, shared: usize, repeats: usize) -> f64 {
        let mut random = seeded([&[7.0][..], &[]]);
        let effects: Vec<f64> = (0..groups).map(|i| 0.05 * i as f64).collect();
        let truth = effects.iter().sum::<f64>() / groups as f64;
        let mut normal = || samples::normal(&mut random) * 0.1;
        let trials = 2000;
        let held = (0..trials).filter(|_| {
            let mut ratio = |effect: f64| {
                let counterpart = normal();
                ((0..shared)
                    .map(|_| effect + normal() - counterpart)
                    .sum::<f64>()
                    / shared as f64)
                    .exp()
            };
            let mut group = |effect: &f64| RatioGroup {
                points: shared,
                ratios: (0..repeats).map(|_| ratio(*effect)).collect(),
            };
            let made: Vec<RatioGroup> = effects.iter().map(&mut group).collect();
            let interval = pooled_ratio(&made)
                .and_then(|p| p.interval)
                .unwrap_or(EVERYTHING);
            interval.low.ln() <= truth && truth <= interval.high.ln()
        });
        held.count() as f64 / f64::from(trials)
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_true_effect() {
        for (groups, shared, repeats) in [
            (1, 1, 2),
            (1, 1, 3),
            (1, 1, 8),
            (2, 1, 3),
            (4, 1, 2),
            (4, 1, 3),
            (12, 1, 5),
            (1, 4, 3),
            (4, 2, 3),
        ] {
            let coverage = coverage(groups, shared, repeats);
            assert!(
                (0.93..=0.99).contains(&coverage),
                "{groups} groups of {shared}, {repeats} repeats: {coverage}"
            );
        }
    }
}
