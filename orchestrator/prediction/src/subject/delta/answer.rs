//! The best interval of each method, with the expected times over the interval of the changed volume.

use super::{campaign::ZonePairs, packing::CodecAnswer};
use crate::predict::PredictError;
use cvc_core::units::duration;
use cvc_model::delta::{
    BestDeltaInterval, ChangedPair, ChangedVolume, Choosing, DeltaCosts, DeltaJob, DeltaObjective,
    DeltaRun, Prices, choose_method, delta_run,
};
use cvc_model::{FitError, Interval};
use serde::Serialize;

/// Input of a choice between methods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeltaQuestion {
    /// Seconds of the program without checkpoints and failures.
    pub app_s: f64,
    /// Mean seconds between failures of the whole job.
    pub mtbf_s: f64,
    /// Costs of storing and restoring.
    pub costs: DeltaCosts,
    /// Prices of machines and storage.
    pub prices: Prices,
    /// The objective to minimise.
    pub aim: DeltaObjective,
}

/// Measurements of a program's checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Pairs of checkpoints.
    pub pairs: &'a [ChangedPair],
    /// Pairs of checkpoints by zone of memory; empty if unknown.
    pub zones: &'a [ZonePairs],
    /// Effect of a codec on blocks; `None` if blocks are stored uncompressed.
    pub codec: Option<&'a CodecAnswer>,
}

impl<'a> Evidence<'a> {
    /// Returns measurements that consist only of pairs.
    #[must_use]
    pub fn of(pairs: &'a [ChangedPair]) -> Self {
        Self {
            pairs,
            zones: &[],
            codec: None,
        }
    }
}

/// Changes in a zone of memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ZoneAnswer {
    /// The zone.
    pub zone: String,
    /// Fitted changed volume of the zone.
    pub volume: ChangedVolume,
    /// MiB that change in this zone between two checkpoints of the recommended method.
    pub changed_mib: f64,
}

/// A method at its best interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodAnswer {
    /// The expected run.
    pub run: DeltaRun,
    /// Expected seconds at this interval if the changed volume and its compressed size are both at the lower, or both at the upper, ends of their
    /// intervals for all distances.
    pub total_s: Interval,
}

/// Result of the choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeltaAnswer {
    /// The input.
    pub question: DeltaQuestion,
    /// The fitted changed volume of all zones together.
    pub volume: ChangedVolume,
    /// Whether methods and intervals are computed from the sum of the zones instead of `volume`.
    pub by_zone: bool,
    /// Fitted changes by zone of memory, if the zones of several pairs are known.
    pub zones: Vec<ZoneAnswer>,
    /// The codec; `None` if blocks are stored uncompressed.
    pub codec: Option<CodecAnswer>,
    /// Young's interval for full checkpoints, seconds.
    pub young_full_s: f64,
    /// Daly's interval for full checkpoints, seconds.
    pub daly_full_s: f64,
    /// The best interval of each method, best method first.
    pub methods: Vec<MethodAnswer>,
    /// Limitations of the result.
    pub warnings: Vec<String>,
}

impl DeltaAnswer {
    /// Returns the recommended method.
    #[must_use]
    pub fn best(&self) -> Option<&MethodAnswer> {
        self.methods.first()
    }

    /// Returns a method by its name.
    #[must_use]
    pub fn method(&self, name: &str) -> Option<&MethodAnswer> {
        self.methods.iter().find(|m| m.run.method.as_str() == name)
    }
}

/// Name of the zone for changes outside the known zones: files that are not images.
const OTHER: &str = "other files";
/// The sum of the zones represents all changes if the longest distance with known zones is at least this fraction of the longest distance of all
/// pairs.
const AS_LONG: f64 = 0.99;
/// MiB below which a remainder is a rounding error: less than a block.
const NO_BLOCK_MIB: f64 = 1e-3;

/// The changed volume as a function of the distance. If the zones are known over as long a distance as all pairs, it is the sum of the zones, each
/// limited to its size. Otherwise it is the value from all pairs, limited to the size of the zones.
struct Changes {
    volume: ChangedVolume,
    zones: Vec<(String, ChangedVolume)>,
}

impl Changes {
    fn fit(evidence: &Evidence<'_>) -> Result<Self, FitError> {
        let mut zones = Vec::new();
        for of in with_other(evidence.pairs, evidence.zones) {
            zones.push((of.zone, ChangedVolume::fit(&of.pairs)?));
        }
        Ok(Self {
            volume: ChangedVolume::fit(evidence.pairs)?,
            zones,
        })
    }

    fn by_zone(&self) -> bool {
        let first = self.zones.first();
        first.is_some_and(|(_, zone)| zone.longest_s >= AS_LONG * self.volume.longest_s)
    }

    fn sum(&self, of: impl Fn(&ChangedVolume) -> f64) -> f64 {
        let sum: f64 = self.zones.iter().map(|(_, zone)| of(zone)).sum();
        sum.min(self.volume.curve.full_mib)
    }

    /// Returns the maximum MiB that can change.
    fn most_mib(&self) -> f64 {
        if self.zones.is_empty() {
            self.volume.curve.full_mib
        } else {
            self.sum(|zone| zone.curve.full_mib)
        }
    }

    fn at(&self, distance_s: f64) -> f64 {
        if self.by_zone() {
            self.sum(|zone| zone.curve.at(distance_s))
        } else {
            self.volume.curve.at(distance_s).min(self.most_mib())
        }
    }

    /// Returns the interval of the changed MiB. Errors of zones are assumed to be fully correlated, so that the ends of their intervals are added.
    fn interval(&self, distance_s: f64) -> Interval {
        if self.by_zone() {
            Interval {
                low: self.sum(|zone| zone.interval(distance_s).low),
                high: self.sum(|zone| zone.interval(distance_s).high),
            }
        } else {
            let interval = self.volume.interval(distance_s);
            Interval {
                low: interval.low.min(self.most_mib()),
                high: interval.high.min(self.most_mib()),
            }
        }
    }

    /// Returns the shortest and the longest distance of the fitted pairs, seconds.
    fn seen_s(&self) -> (f64, f64) {
        let first = self.zones.first().filter(|_| self.by_zone());
        let seen = first.map_or(&self.volume, |(_, zone)| zone);
        (seen.shortest_s, seen.longest_s)
    }
}

/// Returns the zones, with changes outside them as an additional zone. Returns no zones if they are not known for the same pairs.
fn with_other(all: &[ChangedPair], zones: &[ZonePairs]) -> Vec<ZonePairs> {
    let ids = |pairs: &[ChangedPair]| -> Vec<(u32, u32)> {
        let mut ids: Vec<_> = pairs.iter().map(|p| (p.from, p.to)).collect();
        ids.sort_unstable();
        ids
    };
    let Some(first) = zones.first() else {
        return Vec::new();
    };
    let known = ids(&first.pairs);
    if zones.iter().any(|zone| ids(&zone.pairs) != known) {
        return Vec::new();
    }
    let rest = known.iter().map(|id| {
        let pair = all.iter().find(|p| (p.from, p.to) == *id)?;
        let of = zones.iter().flat_map(|zone| &zone.pairs);
        let zones_mib: f64 = of
            .filter(|p| (p.from, p.to) == *id)
            .map(|p| p.changed_mib)
            .sum();
        Some(ChangedPair {
            changed_mib: (pair.changed_mib - zones_mib).max(0.0),
            ..*pair
        })
    });
    let Some(rest) = rest.collect::<Option<Vec<ChangedPair>>>() else {
        return Vec::new();
    };
    let mut with = zones.to_vec();
    if rest.iter().any(|p| p.changed_mib > NO_BLOCK_MIB) {
        with.push(ZonePairs {
            zone: OTHER.to_owned(),
            pairs: rest,
        });
    }
    with
}

/// Minimum relative gain for which a better method is mentioned.
const BETTER: f64 = 1e-3;

/// Returns the best interval of each method, from pairs of checkpoints and the effect of a codec.
///
/// # Errors
/// No curve can be fitted to the pairs, or the run practically never ends.
pub fn answer(
    evidence: Evidence<'_>,
    mut question: DeltaQuestion,
) -> Result<DeltaAnswer, PredictError> {
    let refused = |hint: &'static str| {
        move |e: FitError| PredictError::Model {
            message: e.to_string(),
            hint: hint.into(),
        }
    };
    let of_pairs = refused("give pairs of consecutive checkpoints of one run");
    let changes = Changes::fit(&evidence).map_err(of_pairs)?;
    let volume = &changes.volume;
    if let Some(codec) = evidence.codec {
        question.costs.packing = codec.packing;
    }
    let job = DeltaJob {
        app_s: question.app_s,
        mtbf_s: question.mtbf_s,
        full_mib: volume.curve.full_mib,
        costs: question.costs,
        prices: question.prices,
    };
    let of_job = refused("check --app-time, --mtbf, --bandwidth and the other costs");
    let found: Vec<BestDeltaInterval> = choose_method(Choosing {
        changed_mib: &|distance| changes.at(distance),
        job: &job,
        aim: question.aim,
    })
    .map_err(of_job)?;
    let mut methods = Vec::new();
    let mut ends: Vec<[f64; 2]> = Vec::new();
    for best in &found {
        let run = best.run;
        let at = |end: &dyn Fn(Interval) -> f64| {
            let mut job = job;
            if let Some(codec) = evidence.codec {
                job.costs.packing.delta_ratio = end(codec.delta_ratio);
            }
            let changed_mib = |distance| end(changes.interval(distance));
            delta_run(run.method, &changed_mib, &job, run.checkpoints + 1).map_err(of_job)
        };
        let (least, most) = (at(&|ends| ends.low)?, at(&|ends| ends.high)?);
        ends.push([question.aim.of(&least), question.aim.of(&most)]);
        let (low, high) = (least.total_s, most.total_s);
        // at an end of the interval, the rule of a method that depends on volumes may decide differently
        methods.push(MethodAnswer {
            run,
            total_s: Interval {
                low: low.min(run.total_s),
                high: high.max(run.total_s),
            },
        });
    }
    let mut warnings = warnings(changes.seen_s(), &methods, &ends);
    warnings.extend(evidence.codec.iter().flat_map(|c| c.warnings.clone()));
    let interval_s = methods.first().map_or(0.0, |m| m.run.interval_s);
    let by_zone = changes.by_zone();
    let Changes { volume, zones } = changes;
    let zone = |(zone, volume): (String, ChangedVolume)| ZoneAnswer {
        zone,
        changed_mib: volume.curve.at(interval_s),
        volume,
    };
    Ok(DeltaAnswer {
        question,
        young_full_s: found.first().map_or(0.0, |b| b.young_full_s),
        daly_full_s: found.first().map_or(0.0, |b| b.daly_full_s),
        volume,
        by_zone,
        zones: zones.into_iter().map(zone).collect(),
        codec: evidence.codec.cloned(),
        methods,
        warnings,
    })
}

/// Returns the warnings. `ends` is the objective (seconds or dollars) of each method, for the minimum and the maximum changed volume.
fn warnings(
    (shortest_s, longest_s): (f64, f64),
    methods: &[MethodAnswer],
    ends: &[[f64; 2]],
) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(best) = methods.first() {
        let reach_s = best.run.reach_s;
        if reach_s > 0.0 && !(shortest_s / 2.0..=longest_s * 2.0).contains(&reach_s) {
            warnings.push(format!(
                "{} reaches over up to {}, and the checkpoints are {} to {} apart: the changes over that distance are a guess, as wide as the range",
                best.run.method.as_str(),
                duration(reach_s),
                duration(shortest_s),
                duration(longest_s)
            ));
        }
        // all methods have the same volumes, so they are compared at the same end of the interval
        for (end, how) in [(0, "smallest"), (1, "largest")] {
            let better: Vec<&str> = methods[1..]
                .iter()
                .zip(&ends[1..])
                .filter(|(_, ends_of)| ends_of[end] < ends[0][end] * (1.0 - BETTER))
                .map(|(m, _)| m.run.method.as_str())
                .collect();
            if !better.is_empty() {
                warnings.push(format!(
                    "with the {how} possible changes, {} would be better",
                    better.join(" or ")
                ));
            }
        }
    }
    warnings
}
