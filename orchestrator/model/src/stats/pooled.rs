//! The effect of one factor over several points: the geometric mean of ratios of pairs.

use super::interval::{Interval, LEVEL};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

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
}

impl PooledRatio {
    /// Returns whether the interval excludes 1.
    pub fn differs(&self) -> bool {
        self.interval.is_some_and(|i| i.high < 1.0 || i.low > 1.0)
    }

    /// Returns the change from the second to the first, percent.
    pub fn change_pct(&self) -> f64 {
        (self.ratio - 1.0) * 100.0
    }

    /// Returns the ends of the interval as changes, percent.
    pub fn interval_pct(&self) -> Option<(f64, f64)> {
        self.interval.map(|i| ((i.low - 1.0) * 100.0, (i.high - 1.0) * 100.0))
    }
}

/// Pools pairs of values, one list for each point.
///
/// The mean over points of the mean logarithm of the ratios of a point's pairs. If every point has two pairs or more, its variance is that
/// of the repeats, Σ sᵢ²/nᵢ / k² for k points, with the degrees of freedom of Welch and Satterthwaite: the interval is for these points, not
/// for points in general. Otherwise it is the variance between points, with k - 1 degrees of freedom.
///
/// `None` without pairs, or if a value is not positive.
pub fn pooled_ratio(points: &[Vec<(f64, f64)>]) -> Option<PooledRatio> {
    let logs: Vec<Vec<f64>> = points
        .iter()
        .filter(|pairs| !pairs.is_empty())
        .map(|pairs| pairs.iter().map(|(a, b)| (*a > 0.0 && *b > 0.0 && (a / b).is_finite()).then(|| (a / b).ln())).collect())
        .collect::<Option<_>>()?;
    let means: Vec<f64> = logs.iter().map(|l| l.iter().sum::<f64>() / l.len() as f64).collect();
    let k = means.len() as f64;
    if means.is_empty() {
        return None;
    }
    let mean = means.iter().sum::<f64>() / k;
    let spread = if logs.iter().all(|l| l.len() > 1) {
        let of_points: Vec<(f64, f64)> =
            logs.iter().zip(&means).map(|(l, mean)| (variance(l, *mean) / l.len() as f64, l.len() as f64 - 1.0)).collect();
        let sum: f64 = of_points.iter().map(|(v, _)| v).sum();
        let squares: f64 = of_points.iter().map(|(v, freedom)| v * v / freedom).sum();
        // without any scatter every number of degrees is right
        Some(((sum / (k * k)).sqrt(), if squares > 0.0 { sum * sum / squares } else { 1.0 }))
    } else {
        (means.len() > 1).then(|| ((variance(&means, mean) / k).sqrt(), k - 1.0))
    };
    let interval = spread.map(|(error, freedom)| {
        let half = if error > 0.0 {
            error * StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.5 + LEVEL / 2.0))
        } else {
            0.0
        };
        Interval { low: (mean - half).exp(), high: (mean + half).exp() }
    });
    Some(PooledRatio { points: means.len(), pairs: logs.iter().map(Vec::len).sum(), ratio: mean.exp(), interval })
}

/// The sample variance about a known sample mean.
fn variance(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::bootstrap::{below, seeded};
    use super::pooled_ratio;

    #[test]
    fn pairs_of_one_point_have_the_interval_of_students_t() {
        // logarithms of the ratios: 0.1, 0.2, 0.3; t(0.975, 2) = 4.302653; 0.1 / sqrt(3) = 0.0577350
        let pairs = [0.1f64, 0.2, 0.3].map(|l| (l.exp() * 7.0, 7.0)).to_vec();
        let pooled = pooled_ratio(&[pairs]).expect("a ratio");
        let interval = pooled.interval.expect("an interval");
        assert!((pooled.ratio.ln() - 0.2).abs() < 1e-9);
        assert!((interval.low.ln() - (0.2 - 4.302_653 * 0.057_735)).abs() < 1e-5, "{interval:?}");
        assert!((interval.high.ln() - (0.2 + 4.302_653 * 0.057_735)).abs() < 1e-5, "{interval:?}");
        assert!(!pooled.differs());
    }

    #[test]
    fn single_pairs_are_judged_by_how_much_points_differ() {
        let point = |l: f64| vec![(l.exp(), 1.0)];
        assert!(pooled_ratio(&[point(0.1)]).expect("a ratio").interval.is_none());
        let interval = pooled_ratio(&[point(0.1), point(0.2), point(0.3)]).expect("a ratio").interval.expect("an interval");
        assert!((interval.high.ln() - (0.2 + 4.302_653 * 0.057_735)).abs() < 1e-5, "{interval:?}");
    }

    #[test]
    fn what_is_not_positive_has_no_ratio_and_what_does_not_scatter_no_width() {
        assert!(pooled_ratio(&[]).is_none() && pooled_ratio(&[Vec::new()]).is_none());
        assert!(pooled_ratio(&[vec![(1.0, 0.0)]]).is_none() && pooled_ratio(&[vec![(-1.0, 1.0)]]).is_none());
        let same = pooled_ratio(&[vec![(2.0, 1.0), (4.0, 2.0)]]).expect("a ratio");
        assert!(same.interval.is_some_and(|i| (i.high - i.low).abs() < 1e-12) && same.differs());
    }

    /// Part of the intervals that hold the true effect: `points` points of `repeats` pairs whose logarithms scatter by 0.1, each point about
    /// an effect of its own.
    fn coverage(points: usize, repeats: usize) -> f64 {
        let mut random = seeded([&[7.0][..], &[]]);
        let effects: Vec<f64> = (0..points).map(|i| 0.05 * i as f64).collect();
        let truth = effects.iter().sum::<f64>() / points as f64;
        let mut normal = || {
            // twelve uniform numbers: near enough to a normal one, and without a further crate
            let sum: f64 = (0..12).map(|_| below(&mut random, 1_000_000) as f64 * 1e-6).sum();
            (sum - 6.0) * 0.1
        };
        let trials = 4000;
        let held = (0..trials).filter(|_| {
            let made: Vec<Vec<(f64, f64)>> =
                effects.iter().map(|effect| (0..repeats).map(|_| ((effect + normal()).exp(), 1.0)).collect()).collect();
            let interval = pooled_ratio(&made).and_then(|p| p.interval).expect("an interval");
            interval.low.ln() <= truth && truth <= interval.high.ln()
        });
        held.count() as f64 / f64::from(trials)
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_true_effect() {
        for (points, repeats) in [(1, 2), (1, 3), (1, 8), (2, 3), (4, 2), (4, 3), (6, 3), (12, 5)] {
            let coverage = coverage(points, repeats);
            assert!((0.93..=0.99).contains(&coverage), "{points} points of {repeats} repeats: {coverage}");
        }
    }
}
