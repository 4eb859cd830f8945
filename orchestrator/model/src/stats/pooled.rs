//! The effect of one factor over several points: the geometric mean of ratios of pairs.

use super::{
    compare::probability,
    false_discovery,
    interval::{Interval, LEVEL},
    student::t_quantile,
};
use serde::Serialize;

/// How many times the first is of the second, on average over points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PooledRatio {
    /// Number of points, each compared with its counterpart.
    pub points: usize,
    /// Number of pairs of repeats in all of them.
    pub pairs: usize,
    /// Geometric mean of the ratios, every point weighing the same.
    pub ratio: f64,
    /// Its 95 % interval; `None` for a single pair.
    pub interval: Option<Interval>,
    /// Probability of a ratio at least as far from 1 if there is no effect; `None` for a single pair.
    pub p_value: Option<f64>,
    /// The same, adjusted for the number of effects that are looked at together.
    pub q_value: Option<f64>,
}

impl PooledRatio {
    /// Returns whether there is an effect: at most 5 % of what is called so is chance.
    pub fn differs(&self) -> bool {
        self.q_value
            .or(self.p_value)
            .is_some_and(|p| p <= 1.0 - LEVEL)
    }

    /// Returns the change from the second to the first, percent.
    pub fn change_pct(&self) -> f64 {
        (self.ratio - 1.0) * 100.0
    }

    /// Returns the ends of the interval as changes, percent.
    pub fn interval_pct(&self) -> Option<(f64, f64)> {
        self.interval
            .map(|i| ((i.low - 1.0) * 100.0, (i.high - 1.0) * 100.0))
    }
}

/// Adjusts the probabilities of effects that are looked at together for their number.
pub fn adjust_effects<'e>(effects: impl IntoIterator<Item = &'e mut PooledRatio>) {
    let mut tested: Vec<&mut PooledRatio> = effects
        .into_iter()
        .filter(|effect| effect.p_value.is_some())
        .collect();
    let p: Vec<f64> = tested.iter().filter_map(|effect| effect.p_value).collect();
    for (effect, q) in tested.iter_mut().zip(false_discovery::adjusted(&p)) {
        effect.q_value = Some(q);
    }
}

/// Ratios of points that are not independent, because they have a counterpart in common: one series for all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct RatioGroup {
    /// Number of points.
    pub points: usize,
    /// The ratio in each repeat: the geometric mean over the points of the group.
    pub ratios: Vec<f64>,
}

/// Pools groups of ratios, which are independent of each other.
///
/// The mean over points of the mean logarithm of the ratios; a group of w points weighs w. If every group has two repeats or more, the
/// variance is that of the repeats, Σ wᵢ² sᵢ²/nᵢ / (Σ wᵢ)², with the degrees of freedom of Welch and Satterthwaite: the interval is for these
/// points, not for points in general. Otherwise it is the variance between groups, with k - 1 degrees of freedom for k groups.
///
/// `None` without ratios, or if one is not positive.
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
        // without any scatter every number of degrees is right
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
    let interval = spread.map(|(error, freedom)| {
        let half = if error > 0.0 {
            error * t_quantile(freedom)
        } else {
            0.0
        };
        Interval {
            low: (mean - half).exp(),
            high: (mean + half).exp(),
        }
    });
    let p_value = spread.map(|(error, freedom)| probability(mean, error, freedom));
    let pairs = groups.iter().map(|g| g.points * g.ratios.len()).sum();
    Some(PooledRatio {
        points: groups.iter().map(|g| g.points).sum(),
        pairs,
        ratio: mean.exp(),
        interval,
        p_value,
        q_value: None,
    })
}

/// The sample variance about a known sample mean.
fn variance(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::random::{samples, seeded};
    use super::{RatioGroup, pooled_ratio};

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

    /// Part of the intervals that hold the true effect: `groups` counterparts, each shared by `shared` points of `repeats` repeats. The
    /// logarithms of all values scatter by 0.1, each group about an effect of its own.
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
                .expect("an interval");
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
