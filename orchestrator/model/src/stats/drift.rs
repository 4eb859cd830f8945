//! Test whether values drift with time.

use super::{compare::probability, interval::Interval, student::t_quantile};
use serde::Serialize;

/// Minimum number of values for which a drift is tested.
const ENOUGH: usize = 8;

/// Change of values from the first to the last measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Drift {
    /// Number of values.
    pub values: usize,
    /// Time between the first and the last value, in the unit of the times.
    pub span: f64,
    /// Ratio of a value at the end to a value at the start.
    pub ratio: f64,
    /// 95 % interval of the ratio.
    pub interval: Interval,
    /// Probability of a change at least as large if there is no drift.
    pub p_value: f64,
}

/// Estimates a drift common to groups of repeats, each a list of (time, positive value).
///
/// Fits a straight line to the logarithms over time, with a separate constant for each group: within a group only the time differs. The interval
/// and the probability are Student's. Returns `None` for fewer than eight values in groups of two or more, or if all values have the same time.
pub fn drift(groups: &[Vec<(f64, f64)>]) -> Option<Drift> {
    let groups: Vec<&Vec<(f64, f64)>> = groups.iter().filter(|group| group.len() > 1).collect();
    let all = || groups.iter().flat_map(|group| group.iter());
    let count = all().count();
    if count < ENOUGH
        || all().any(|(time, value)| !time.is_finite() || !value.is_finite() || *value <= 0.0)
    {
        return None;
    }
    let freedom = count
        .checked_sub(groups.len() + 1)
        .filter(|freedom| *freedom > 0)? as f64;
    let (mut of_times, mut together, mut of_values) = (0.0, 0.0, 0.0);
    for group in &groups {
        let n = group.len() as f64;
        let time = group.iter().map(|(t, _)| t).sum::<f64>() / n;
        let value = group.iter().map(|(_, v)| v.ln()).sum::<f64>() / n;
        for (t, v) in *group {
            let (t, v) = (t - time, v.ln() - value);
            of_times += t * t;
            together += t * v;
            of_values += v * v;
        }
    }
    let (first, last) = all().fold((f64::INFINITY, f64::NEG_INFINITY), |(f, l), (t, _)| {
        (f.min(*t), l.max(*t))
    });
    let span = last - first;
    if of_times <= 0.0 || span <= 0.0 {
        return None;
    }
    let slope = together / of_times;
    let error = ((of_values - slope * together).max(0.0) / freedom / of_times).sqrt();
    let half = if error > 0.0 {
        t_quantile(freedom) * error
    } else {
        0.0
    };
    let at_end = |slope: f64| (slope * span).exp();
    let interval = Interval {
        low: at_end(slope - half),
        high: at_end(slope + half),
    };
    Some(Drift {
        values: count,
        span,
        ratio: at_end(slope),
        interval,
        p_value: probability(slope, error, freedom),
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::random::{
            samples::{normal, share},
            seeded,
        },
        drift,
    };

    #[test]
    fn a_drift_is_found_across_points_of_different_size() {
        // two points that differ by a factor of a hundred; both become a tenth slower over ten hours
        let point = |size: f64| {
            (0..6)
                .map(|i| f64::from(i) * 2.0)
                .map(|t| (t, size * (1.1f64.ln() * t / 10.0).exp()))
                .collect()
        };
        let found = drift(&[point(1.0), point(100.0)]).expect("a drift");
        assert!(
            (found.ratio - 1.1).abs() < 1e-9
                && found.p_value < 1e-6
                && found.values == 12
                && found.span == 10.0,
            "{found:?}"
        );
        assert!(drift(&[vec![(0.0, 1.0), (1.0, 1.0)]]).is_none(), "too few");
        assert!(drift(&[vec![(0.0, 1.0); 9]]).is_none(), "all at once");
        assert!(
            drift(&[(0..9).map(|i| (f64::from(i), -1.0)).collect()]).is_none(),
            "no logarithm"
        );
    }

    #[test]
    fn noise_is_seldom_taken_for_a_drift_and_intervals_hold() {
        for (points, repeats, truth) in [(1, 8, 1.0f64), (4, 3, 1.0), (10, 5, 1.2)] {
            let mut random = seeded([&[f64::from(points), f64::from(repeats)][..]]);
            let mut alarms = 0;
            let held = share(2000, || {
                let mut made = |at: i32| {
                    let mut value = |repeat: i32| {
                        let time =
                            f64::from(repeat * points + at) / f64::from(repeats * points - 1);
                        (
                            time,
                            (truth.ln() * time + 0.1 * normal(&mut random)).exp()
                                * f64::from(at + 1),
                        )
                    };
                    (0..repeats).map(&mut value).collect::<Vec<_>>()
                };
                let groups: Vec<_> = (0..points).map(&mut made).collect();
                let found = drift(&groups).expect("a drift");
                alarms += u32::from(found.p_value <= 0.05);
                found.interval.low <= truth && truth <= found.interval.high
            });
            assert!(
                (0.93..=0.97).contains(&held),
                "{points} points, {repeats} repeats: {held}"
            );
            let alarms = f64::from(alarms) / 2000.0;
            assert!(
                if truth == 1.0 {
                    (0.03..=0.07).contains(&alarms)
                } else {
                    alarms > 0.5
                },
                "{points} points, {repeats} repeats: {alarms}"
            );
        }
    }
}
