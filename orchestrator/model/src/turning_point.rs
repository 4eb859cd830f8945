//! The time of a fixed problem as a function of the number of processes, and the turning point: the number from which further processes make the
//! program slower (thesis, section 3.3.3 and Figures 5.1 and 5.2).
//!
//! ```text
//! T(P) = a + b/min(P, k) + c·P
//! ```
//!
//! a is the serial time, b the time that is divided among processes, c the cost of each process: communication, and with checkpoints its image and
//! its part of the coordination. Processes beyond k only wait, for example for a core; k is one of the measured numbers, or there is no such limit.
//! All parameters are at least 0, and errors are relative. The minimum time is at √(b/c), or at k.

use crate::{
    fit::{least_squares_not_negative, relative_weights},
    stats::{mean, random, t_quantile},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Minimum number of different process counts for a fit.
pub const MIN_POINTS: usize = 3;
/// Number of bootstrap samples for the interval of a turning point.
const SAMPLES: usize = 200;
/// A turning point above this multiple of the largest measured number of processes is reported as none.
const FAR: f64 = 64.0;

/// The times of a program on a number of processes.
#[derive(Clone, Debug, PartialEq)]
pub struct TimesAt {
    /// Number of processes.
    pub processes: u32,
    /// Seconds of each repeat: at least one repeat, all above 0.
    pub seconds: Vec<f64>,
}

impl TimesAt {
    fn mean_s(&self) -> f64 {
        mean(&self.seconds).unwrap_or(f64::NAN)
    }
}

/// Speed-up relative to the smallest number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speedup {
    /// Number of processes.
    pub processes: u32,
    /// Speed-up relative to one process, assuming that the smallest number of processes has an efficiency of 1.
    pub speedup: f64,
    /// Speed-up divided by the number of processes; 1 is perfect.
    pub efficiency: f64,
}

/// The number of processes with the minimum time, and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TurningPoint {
    /// Number of processes with the minimum time; `None` if the largest measured number is the fastest, or if the law has no minimum.
    pub processes: Option<u32>,
    /// Lower end of the interval: the smallest number of processes whose time is indistinguishable from the minimum.
    pub low: Option<u32>,
    /// Upper end of the interval; `None` if it is beyond the measured numbers.
    pub high: Option<u32>,
}

/// A fitted law of the time over the number of processes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ScalingLaw {
    /// a: serial time, s.
    pub fixed_s: f64,
    /// b: time divided among processes, s.
    pub divided_s: f64,
    /// c: time added by each process, s.
    pub each_s: f64,
    /// k: maximum number of processes that divide b; `None` without a limit.
    pub limit: Option<u32>,
    /// Root mean square of the relative errors.
    pub error: f64,
}

impl ScalingLaw {
    /// Returns the predicted seconds on this number of processes.
    pub fn seconds(&self, processes: f64) -> f64 {
        let [one, divided, each] = terms(processes, self.limit);
        self.fixed_s * one + self.divided_s * divided + self.each_s * each
    }

    /// Returns the number of processes with the minimum time; `None` if further processes always help.
    pub fn turning(&self) -> Option<f64> {
        let free = (self.each_s > 0.0).then(|| (self.divided_s / self.each_s).sqrt().max(1.0));
        match (free, self.limit.map(f64::from)) {
            (Some(free), Some(limit)) => Some(free.min(limit)),
            (free, limit) => free.or(limit),
        }
    }

    /// Returns [`Self::turning`] as a whole number of processes.
    fn whole_turning(&self) -> Option<u32> {
        let at = self.turning()?;
        let (below, above) = (at.floor().max(1.0), at.ceil());
        let best = if self.seconds(below) <= self.seconds(above) {
            below
        } else {
            above
        };
        // the conversion saturates
        Some(best as u32)
    }
}

fn terms(processes: f64, limit: Option<u32>) -> [f64; 3] {
    let divided = limit.map_or(processes, |limit| processes.min(f64::from(limit)));
    [1.0, 1.0 / divided, processes]
}

/// Merges times on the same number of processes, and sorts by the number of processes. Times that are not positive are dropped.
pub fn by_processes(times: impl IntoIterator<Item = TimesAt>) -> Vec<TimesAt> {
    let mut all: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for at in times {
        let seconds = at.seconds.into_iter().filter(|s| s.is_finite() && *s > 0.0);
        all.entry(at.processes).or_default().extend(seconds);
    }
    all.into_iter()
        .filter(|(processes, seconds)| *processes > 0 && !seconds.is_empty())
        .map(|(processes, seconds)| TimesAt { processes, seconds })
        .collect()
}

/// Returns speed-up and efficiency for times in the order of [`by_processes`].
pub fn speedups(times: &[TimesAt]) -> Vec<Speedup> {
    let Some(first) = times.first() else {
        return Vec::new();
    };
    let work = first.mean_s() * f64::from(first.processes);
    let of = |at: &TimesAt| {
        let speedup = work / at.mean_s();
        Speedup {
            processes: at.processes,
            speedup,
            efficiency: speedup / f64::from(at.processes),
        }
    };
    times.iter().map(of).collect()
}

/// Returns the turning point among measured times in the order of [`by_processes`]; `None` if there are no times. If the largest number of
/// processes is the fastest, the turning point is unknown. Without repeats the scatter is unknown, and there is no interval.
///
/// The interval contains the numbers of processes whose time does not differ from the minimum by Student's t test, with the relative scatter pooled
/// over all numbers.
pub fn measured_turning(times: &[TimesAt]) -> Option<TurningPoint> {
    let best = times
        .iter()
        .min_by(|a, b| a.mean_s().total_cmp(&b.mean_s()))?;
    let last = times.last()?.processes;
    let same = |scatter: f64, t: f64| {
        let differs = move |at: &&TimesAt| {
            let n = 1.0 / at.seconds.len() as f64 + 1.0 / best.seconds.len() as f64;
            (at.mean_s() / best.mean_s()).ln() <= t * scatter * n.sqrt()
        };
        let alike: Vec<u32> = times
            .iter()
            .filter(differs)
            .map(|at| at.processes)
            .collect();
        (alike.first().copied(), alike.last().copied())
    };
    let (low, high) = match scatter(times) {
        Some((scatter, freedom)) => same(scatter, t_quantile(freedom)),
        None => (None, None),
    };
    Some(TurningPoint {
        processes: (best.processes < last).then_some(best.processes),
        low,
        high: high.filter(|high| *high < last),
    })
}

/// Returns the relative scatter of repeats and its degrees of freedom; `None` without repeats.
fn scatter(times: &[TimesAt]) -> Option<(f64, f64)> {
    let freedom: usize = times.iter().map(|at| at.seconds.len() - 1).sum();
    let squares: f64 = times
        .iter()
        .flat_map(|at| {
            at.seconds
                .iter()
                .map(move |s| (s / at.mean_s() - 1.0).powi(2))
        })
        .sum();
    let freedom = freedom as f64;
    (freedom > 0.0).then(|| ((squares / freedom).sqrt(), freedom))
}

/// Fits the law to times in the order of [`by_processes`]; `None` for fewer than [`MIN_POINTS`] numbers of processes. The limit k is chosen by the
/// minimum error when each number of processes is left out in turn.
pub fn scaling_law(times: &[TimesAt]) -> Option<ScalingLaw> {
    if times.len() < MIN_POINTS {
        return None;
    }
    let points: Vec<(f64, f64)> = times
        .iter()
        .map(|at| (f64::from(at.processes), at.mean_s()))
        .collect();
    // the largest measured number as limit would be indistinguishable from no limit
    let limits = times[1..times.len() - 1]
        .iter()
        .map(|at| Some(at.processes));
    let mut best: Option<(f64, ScalingLaw)> = None;
    for limit in [None].into_iter().chain(limits) {
        let Some(law) = fit(&points, limit) else {
            continue;
        };
        let error = left_out(&points, limit).unwrap_or(f64::INFINITY);
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, law));
        }
    }
    best.map(|(_, law)| law)
}

/// Returns the largest relative error at a point that is left out, over all points; `None` if a fit fails.
fn left_out(points: &[(f64, f64)], limit: Option<u32>) -> Option<f64> {
    let mut worst = 0.0f64;
    for (i, (processes, seconds)) in points.iter().enumerate() {
        let mut others = points.to_vec();
        others.remove(i);
        let said = fit(&others, limit)?.seconds(*processes);
        worst = worst.max((said / seconds).ln().abs());
    }
    Some(worst)
}

fn fit(points: &[(f64, f64)], limit: Option<u32>) -> Option<ScalingLaw> {
    let rows: Vec<Vec<f64>> = points
        .iter()
        .map(|(processes, _)| terms(*processes, limit).to_vec())
        .collect();
    let values: Vec<f64> = points.iter().map(|(_, seconds)| *seconds).collect();
    let (kept, fit) =
        least_squares_not_negative(&rows, &values, &relative_weights(&values)).ok()?;
    let mut of = [0.0; 3];
    for (place, value) in kept.into_iter().zip(&fit.coefficients) {
        of[place] = *value;
    }
    let [fixed_s, divided_s, each_s] = of;
    let law = ScalingLaw {
        fixed_s,
        divided_s,
        each_s,
        limit,
        error: 0.0,
    };
    let squares = points
        .iter()
        .map(|(p, seconds)| (law.seconds(*p) / seconds - 1.0).powi(2));
    let error = (squares.sum::<f64>() / points.len() as f64).sqrt();
    Some(ScalingLaw { error, ..law })
}

/// Returns the turning point of a law with its interval. The interval is from a deterministic parametric bootstrap: laws are fitted to times
/// scattered about the law, by the scatter of the repeats or by the law's own errors, whichever is larger.
pub fn predicted_turning(law: &ScalingLaw, times: &[TimesAt]) -> TurningPoint {
    let largest = times.last().map_or(1, |at| at.processes);
    let known = |at: Option<u32>| at.filter(|p| f64::from(*p) <= FAR * f64::from(largest));
    let free = times.len().saturating_sub(MIN_POINTS).max(1) as f64;
    let of_errors = law.error * (times.len() as f64 / free).sqrt();
    let of_repeats = scatter(times).map_or(0.0, |(scatter, _)| scatter);
    let seeds: Vec<f64> = times.iter().map(TimesAt::mean_s).collect();
    let mut random = random::seeded([seeds.as_slice()]);
    let mut turnings: Vec<f64> = Vec::new();
    for _ in 0..SAMPLES {
        let sample: Vec<TimesAt> = times
            .iter()
            .map(|at| {
                let of_mean = of_repeats / (at.seconds.len() as f64).sqrt();
                let by = of_mean.max(of_errors) * random::normal(&mut random);
                TimesAt {
                    processes: at.processes,
                    seconds: vec![law.seconds(f64::from(at.processes)) * by.exp()],
                }
            })
            .collect();
        let at = scaling_law(&sample).and_then(|law| known(law.whole_turning()));
        turnings.push(at.map_or(f64::INFINITY, f64::from));
    }
    turnings.sort_by(f64::total_cmp);
    // some values are infinite, so quantiles are not interpolated
    let end = |part: f64| {
        let place = (part * (SAMPLES - 1) as f64).round() as usize;
        turnings
            .get(place)
            .filter(|p| p.is_finite())
            .map(|p| *p as u32)
    };
    TurningPoint {
        processes: known(law.whole_turning()),
        low: end(0.025),
        high: end(0.975),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ScalingLaw, TimesAt, by_processes, measured_turning, predicted_turning, scaling_law,
        speedups,
    };

    fn times(of: &[(u32, f64)]) -> Vec<TimesAt> {
        by_processes(of.iter().map(|(processes, seconds)| TimesAt {
            processes: *processes,
            seconds: vec![*seconds],
        }))
    }

    /// Thesis, Tables 5.3 to 5.6, without compression: processes, time with a checkpoint, latency of the checkpoint.
    const BT_D_MPICH: [(u32, f64, f64); 5] = [
        (16, 3354.26, 194.07),
        (25, 2790.03, 152.87),
        (36, 2520.03, 172.44),
        (49, 2124.24, 178.22),
        (64, 1853.27, 204.11),
    ];
    const BT_C_MPICH: [(u32, f64, f64); 5] = [
        (16, 216.99, 23.86),
        (25, 183.5, 37.09),
        (36, 185.41, 52.73),
        (49, 254.85, 81.55),
        (64, 224.98, 118.02),
    ];
    const BT_C_OPEN_MPI: [(u32, f64, f64); 5] = [
        (16, 200.48, 18.71),
        (25, 159.82, 20.0),
        (36, 160.16, 28.1),
        (49, 123.91, 22.94),
        (64, 145.81, 56.17),
    ];

    /// Returns the times with checkpoints, and the times without: the time minus the latency of its one checkpoint.
    fn of_print(table: &[(u32, f64, f64)]) -> [Vec<TimesAt>; 2] {
        let with: Vec<_> = table.iter().map(|(p, ft, _)| (*p, *ft)).collect();
        let without: Vec<_> = table.iter().map(|(p, ft, l)| (*p, ft - l)).collect();
        [times(&with), times(&without)]
    }

    #[test]
    fn checkpoints_move_the_turning_point_of_print_to_fewer_processes() {
        let turning = |times: &[TimesAt]| measured_turning(times).expect("times").processes;
        let both = |table| of_print(table).map(|times| turning(&times));
        // Figure 5.1: a large problem scales to 64 processes and beyond, with and without checkpoints
        assert_eq!(both(&BT_D_MPICH), [None, None]);
        // Figure 5.2: a small problem has a turning point with checkpoints only
        assert_eq!(both(&BT_C_MPICH), [Some(25), None]);
        assert_eq!(both(&BT_C_OPEN_MPI), [Some(49), None]);
    }

    /// In Figure 5.1, BT.D turns beyond 100 processes, on several nodes; the times on one node do not show it.
    #[test]
    fn the_law_of_print_turns_where_its_times_do() {
        let turning = |times: &Vec<TimesAt>| {
            let law = scaling_law(times).expect("a law");
            predicted_turning(&law, times).processes
        };
        let both = |table| of_print(table).map(|times| turning(&times));
        assert_eq!(both(&BT_D_MPICH), [None, None]);
        assert_eq!(both(&BT_C_MPICH)[0], Some(25));
        assert_eq!(both(&BT_C_OPEN_MPI), [Some(49), None]);
    }

    #[test]
    fn a_known_law_is_found_and_its_turning_point_with_it() {
        // √(400/4) = 10
        let of = |p: u32| (p, 5.0 + 400.0 / f64::from(p) + 4.0 * f64::from(p));
        let seen = times(&[1, 2, 4, 6].map(of));
        let law = scaling_law(&seen).expect("a law");
        assert!((law.turning().expect("one") - 10.0).abs() < 1e-6, "{law:?}");
        let said = predicted_turning(&law, &seen);
        assert_eq!(
            (said.processes, said.low, said.high),
            (Some(10), Some(10), Some(10))
        );
        // without a cost of each process there is no turning point
        let free = times(&[1, 2, 4, 8].map(|p| (p, 400.0 / f64::from(p))));
        let law = scaling_law(&free).expect("a law");
        assert_eq!(law.turning(), None);
        assert_eq!(predicted_turning(&law, &free).high, None);
        // a machine with two cores
        let two =
            times(&[1u32, 2, 3, 5, 8].map(|p| (p, 100.0 / f64::from(p.min(2)) + f64::from(p))));
        assert_eq!(
            scaling_law(&two).map(|law: ScalingLaw| law.limit),
            Some(Some(2))
        );
    }

    #[test]
    fn times_indistinguishable_from_the_minimum_are_in_the_interval() {
        let at = |processes, seconds: [f64; 3]| TimesAt {
            processes,
            seconds: seconds.to_vec(),
        };
        let seen = by_processes([
            at(1, [100.0, 101.0, 99.0]),
            at(2, [52.0, 51.0, 50.0]),
            at(4, [50.5, 51.5, 49.5]),
            at(8, [80.0, 81.0, 79.0]),
        ]);
        let turning = measured_turning(&seen).expect("one");
        assert_eq!(
            (turning.processes, turning.low, turning.high),
            (Some(4), Some(2), Some(4))
        );
        let [first, second, ..] = speedups(&seen)[..] else {
            panic!("four")
        };
        assert_eq!((first.speedup, first.efficiency), (1.0, 1.0));
        assert!((second.speedup - 100.0 / 51.0).abs() < 1e-12 && second.efficiency < 1.0);
        // with one repeat each the scatter is unknown, and there is no interval
        assert_eq!(
            measured_turning(&times(&[(1, 2.0), (2, 1.0)])).map(|t| (t.processes, t.low)),
            Some((None, None))
        );
    }
}
