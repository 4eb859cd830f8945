//! Scaling of programs with the number of processes, with and without checkpoints, and the number beyond which adding more does not pay.

use super::{
    counterpart::{CounterpartPair, label, pairs},
    data::Data,
};
use cvc_core::{point::FactorId, record::names, units::MIB};
use cvc_model::turning_point::{
    MIN_POINTS, ScalingLaw, Speedup, TimesAt, TurningPoint, by_processes, measured_turning,
    predicted_turning, scaling_law, speedups,
};
use indexmap::IndexMap;
use serde::Serialize;

/// Times of a program over the number of processes, with all other factors equal.
#[derive(Clone, Debug, Serialize)]
pub struct ScalingCurve {
    /// The levels of the other factors that vary in the campaign.
    pub at: String,
    /// The checkpointer; `none` for the program without checkpoints.
    pub checkpoints: String,
    /// Measurements, sorted by number of processes.
    pub points: Vec<ScalingPoint>,
    /// The number of processes beyond which adding more did not pay, by the measurements.
    pub measured: TurningPoint,
    /// The law that fits the times.
    pub law: Option<ScalingLaw>,
    /// The number of processes beyond which adding more does not pay, by the law.
    pub predicted: Option<TurningPoint>,
}

/// Measurements with one number of processes, on the mapping that is fastest with checkpoints.
#[derive(Clone, Debug, Serialize)]
pub struct ScalingPoint {
    /// Index of the point in the campaign.
    #[serde(skip)]
    pub place: usize,
    /// Name of the mapping.
    pub mapping: String,
    /// Mean wall time, seconds.
    pub seconds: f64,
    /// Speed-up and efficiency.
    #[serde(flatten)]
    pub speedup: Speedup,
    /// Size of a checkpoint, MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_mib: Option<f64>,
}

/// Returns the scaling curves of these points, if there are wall times for at least three numbers of processes. The curve without checkpoints
/// precedes the otherwise equal curves with checkpoints.
pub(crate) fn curves(data: &Data, points: &[usize]) -> Vec<ScalingCurve> {
    let has_time =
        |p: usize| points.contains(&p) && data.points[p].summaries.contains_key(names::WALL_S);
    let mut curves = Vec::new();
    let mut is_paired = vec![false; data.points.len()];
    for level in data
        .levels("checkpointer")
        .into_iter()
        .filter(|l| *l != "none")
    {
        for (at, pairs) in by_place(pairs(data, "checkpointer", level, "none")) {
            let pairs: Vec<(usize, usize)> = pairs
                .into_iter()
                .filter(|(with, without)| has_time(*with) && has_time(*without))
                .collect();
            let fastest = fastest(data, pairs, |(with, _)| *with);
            for (name, of) in [("none", 1), (level, 0)] {
                let places = fastest.iter().map(|(with, without)| [*with, *without][of]);
                let places: Vec<usize> = places.collect();
                if name == "none" {
                    places.iter().for_each(|p| is_paired[*p] = true);
                }
                curves.extend(curve(data, &at, name, &places));
            }
        }
    }
    // programs that ran only without checkpoints
    let alone = data
        .points_at("checkpointer", "none")
        .iter()
        .copied()
        .filter(|p| has_time(*p));
    let alone: Vec<CounterpartPair> = alone
        .map(|point| CounterpartPair {
            point,
            counterpart: point,
            at: data
                .varying()
                .into_iter()
                .filter(|f| *f != "checkpointer")
                .map(|f| (f.to_owned(), data.points[point].factor(f).to_owned()))
                .collect(),
        })
        .collect();
    for (at, pairs) in by_place(alone) {
        if pairs.iter().any(|(p, _)| is_paired[*p]) {
            continue;
        }
        let places: Vec<usize> = fastest(data, pairs, |(p, _)| *p)
            .into_iter()
            .map(|(p, _)| p)
            .collect();
        curves.extend(curve(data, &at, "none", &places));
    }
    curves
}

/// Groups pairs of points that differ only in their processes.
fn by_place(pairs: Vec<CounterpartPair>) -> IndexMap<String, Vec<(usize, usize)>> {
    let mut places: IndexMap<String, Vec<(usize, usize)>> = IndexMap::new();
    for mut pair in pairs {
        pair.at
            .retain(|(factor, _)| !["mapping", "processes"].contains(&factor.as_str()));
        places
            .entry(label(&pair))
            .or_default()
            .push((pair.point, pair.counterpart));
    }
    places
}

fn seconds(data: &Data, point: usize) -> f64 {
    data.points[point]
        .summaries
        .get(names::WALL_S)
        .map_or(f64::INFINITY, |s| s.mean)
}

/// Returns the fastest point of each number of processes, sorted by that number.
fn fastest(
    data: &Data,
    mut pairs: Vec<(usize, usize)>,
    of: impl Fn(&(usize, usize)) -> usize,
) -> Vec<(usize, usize)> {
    let processes = |pair: &(usize, usize)| data.points[of(pair)].processes;
    pairs.sort_by(|a, b| {
        let by_time = seconds(data, of(a)).total_cmp(&seconds(data, of(b)));
        processes(a).cmp(&processes(b)).then(by_time)
    });
    pairs.dedup_by_key(|pair| processes(pair));
    pairs
}

/// Returns the curve through points with different numbers of processes, sorted by this number.
fn curve(data: &Data, at: &str, checkpoints: &str, places: &[usize]) -> Option<ScalingCurve> {
    if places.len() < MIN_POINTS {
        return None;
    }
    let times = by_processes(places.iter().map(|p| TimesAt {
        processes: data.points[*p].processes,
        seconds: data.points[*p].independent(names::WALL_S),
    }));
    let speedups = speedups(&times);
    let measured = measured_turning(&times)?;
    let law = scaling_law(&times);
    let points = places.iter().zip(speedups).map(|(place, speedup)| {
        let point = &data.points[*place];
        let stored = point.summaries.get(names::CKPT_STORED_BYTES);
        ScalingPoint {
            place: *place,
            mapping: point.level(FactorId::Mapping).to_owned(),
            seconds: seconds(data, *place),
            speedup,
            stored_mib: stored.map(|s| s.mean / MIB),
        }
    });
    Some(ScalingCurve {
        at: at.to_owned(),
        checkpoints: checkpoints.to_owned(),
        points: points.collect(),
        measured,
        predicted: law.map(|law| predicted_turning(&law, &times)),
        law,
    })
}

impl ScalingCurve {
    /// Returns the largest number of processes that was measured.
    fn largest(&self) -> u32 {
        self.points.last().map_or(0, |p| p.speedup.processes)
    }

    /// Describes the measured and the predicted number of processes beyond which adding more does not pay.
    pub(crate) fn sentence(&self) -> String {
        let which = match self.checkpoints.as_str() {
            "none" => "without checkpoints".to_owned(),
            checkpointer => format!("with checkpoints by {checkpointer}"),
        };
        let measured = match self.measured.processes {
            Some(at) => format!("{at} processes were the fastest{}", range(&self.measured)),
            None => format!(
                "the largest number tried, {}, was the fastest",
                self.largest()
            ),
        };
        let predicted = match &self.predicted {
            Some(said) => match said.processes {
                Some(at) => format!(
                    "; the fitted law has its minimum at {at} processes{}",
                    range(said)
                ),
                None => "; the fitted law has no minimum".to_owned(),
            },
            None => String::new(),
        };
        let place = match self.at.as_str() {
            "" => String::new(),
            at => format!(" ({at})"),
        };
        format!("{which}{place}: {measured}{predicted}.")
    }
}

/// Describes the interval of a turning point.
fn range(of: &TurningPoint) -> String {
    match (of.low, of.high) {
        (Some(low), Some(high)) => format!(" ({low} to {high})"),
        (Some(low), None) => format!(" ({low} or more)"),
        (None, _) => String::new(),
    }
}
