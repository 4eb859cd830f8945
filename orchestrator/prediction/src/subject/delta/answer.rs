//! Each method at its best interval, with ranges.

use super::{campaign::ZonePairs, packing::CodecAnswer};
use crate::predict::PredictError;
use cvc_core::units::duration;
use cvc_model::delta::{
    Aim, BestInterval, ChangedPair, ChangedVolume, Choosing, DeltaCosts, DeltaJob, DeltaRun,
    Prices, choose_method, delta_run,
};
use cvc_model::{FitError, Interval};
use serde::Serialize;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeltaQuestion {
    /// Seconds of the program without checkpoints and failures.
    pub app_s: f64,
    /// Mean seconds between failures of the whole job.
    pub mtbf_s: f64,
    /// What storing and restoring take.
    pub costs: DeltaCosts,
    /// What machines and storage cost.
    pub prices: Prices,
    /// What is to be least.
    pub aim: Aim,
}

/// What is known of the checkpoints of a program.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Pairs of checkpoints.
    pub pairs: &'a [ChangedPair],
    /// The same by zone of memory, where that is known.
    pub zones: &'a [ZonePairs],
    /// What a codec makes of blocks; none: they are stored as they are.
    pub codec: Option<&'a CodecAnswer>,
}

impl<'a> Evidence<'a> {
    /// Pairs alone.
    #[must_use]
    pub fn of(pairs: &'a [ChangedPair]) -> Self {
        Self {
            pairs,
            zones: &[],
            codec: None,
        }
    }
}

/// What changes in a zone of memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ZoneAnswer {
    /// The zone.
    pub zone: String,
    /// Its fitted changed volume.
    pub volume: ChangedVolume,
    /// MiB that change in it between two checkpoints of the recommended method.
    pub changed_mib: f64,
}

/// A method at its best interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodAnswer {
    /// The run.
    pub run: DeltaRun,
    /// Expected seconds at this interval if the changed volume, and what the codec leaves of it, are at the ends of their intervals, at all distances
    /// at once.
    pub total_s: Interval,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeltaAnswer {
    /// The question.
    pub question: DeltaQuestion,
    /// The fitted changed volume of all zones together.
    pub volume: ChangedVolume,
    /// Whether methods and intervals follow from the sum of the zones, and not from `volume`.
    pub by_zone: bool,
    /// The same by zone of memory, where the zones of several pairs are known.
    pub zones: Vec<ZoneAnswer>,
    /// The codec; none: blocks as they are.
    pub codec: Option<CodecAnswer>,
    /// Young's interval for full checkpoints, seconds.
    pub young_full_s: f64,
    /// Daly's.
    pub daly_full_s: f64,
    /// The best of each method, the best first.
    pub methods: Vec<MethodAnswer>,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

impl DeltaAnswer {
    /// The recommended method.
    #[must_use]
    pub fn best(&self) -> Option<&MethodAnswer> {
        self.methods.first()
    }

    /// A method by its name.
    #[must_use]
    pub fn method(&self, name: &str) -> Option<&MethodAnswer> {
        self.methods.iter().find(|m| m.run.method.as_str() == name)
    }
}

/// The zone of what changed in none of the known ones: files that are no images.
const OTHER: &str = "other files";
/// The part of the longest distance that zones must be known over to stand for the whole.
const AS_LONG: f64 = 0.99;
/// Less than a block, in MiB, is what rounding leaves.
const NO_BLOCK_MIB: f64 = 1e-3;

/// What changes within a distance: the sum of the zones where they are known over as long a distance as all together, each of which changes by no more
/// than it has; else what all pairs say, up to what the zones have.
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

    /// What can change at most.
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

    /// Zones change together, so that the ends of their intervals add up.
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

    /// The shortest and the longest distance that the fit has seen.
    fn seen_s(&self) -> (f64, f64) {
        let first = self.zones.first().filter(|_| self.by_zone());
        let seen = first.map_or(&self.volume, |(_, zone)| zone);
        (seen.shortest_s, seen.longest_s)
    }
}

/// The zones, with what changed in none of them as another one. Empty where they are not known of the same pairs.
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

/// A method is better by this part of the time, or it is not worth a word.
const BETTER: f64 = 1e-3;

/// Answers a question from pairs of checkpoints, and what a codec makes of them.
///
/// # Errors
/// Pairs that no curve can be fitted to; a run that practically never ends.
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
    let of_job = refused("look at --app-time, --mtbf, --bandwidth and the other costs");
    let found: Vec<BestInterval> = choose_method(Choosing {
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
        // a rule that decides by volumes may decide otherwise at an end
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

/// `ends`: what is to be least (seconds or dollars) of each method with the least and the most that may have changed.
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
                "{} reaches over up to {}, and the checkpoints are {} to {} apart: what changes over that is a guess, as wide as the range",
                best.run.method.as_str(),
                duration(reach_s),
                duration(shortest_s),
                duration(longest_s)
            ));
        }
        // the volumes are the same for all methods: what counts is which is better at the same end
        for (end, how) in [(0, "least"), (1, "most")] {
            let better: Vec<&str> = methods[1..]
                .iter()
                .zip(&ends[1..])
                .filter(|(_, ends_of)| ends_of[end] < ends[0][end] * (1.0 - BETTER))
                .map(|(m, _)| m.run.method.as_str())
                .collect();
            if !better.is_empty() {
                warnings.push(format!(
                    "if the {how} changes that may, {} would be better",
                    better.join(" or ")
                ));
            }
        }
    }
    warnings
}
