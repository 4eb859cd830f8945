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
    /// The fitted changed volume.
    pub volume: ChangedVolume,
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
        self.methods.iter().find(|m| m.run.storing.name() == name)
    }
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
    let volume = ChangedVolume::fit(evidence.pairs).map_err(of_pairs)?;
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
        changed_mib: &|distance| volume.curve.at(distance),
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
            let changed_mib = |distance| end(volume.interval(distance));
            delta_run(run.storing, &changed_mib, &job, run.checkpoints + 1).map_err(of_job)
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
    let mut warnings = warnings(&volume, &methods, &ends);
    warnings.extend(evidence.codec.iter().flat_map(|c| c.warnings.clone()));
    let interval_s = methods.first().map_or(0.0, |m| m.run.interval_s);
    let mut zones = Vec::new();
    for of in evidence.zones {
        let volume = ChangedVolume::fit(&of.pairs).map_err(of_pairs)?;
        zones.push(ZoneAnswer {
            zone: of.zone.clone(),
            changed_mib: volume.curve.at(interval_s),
            volume,
        });
    }
    Ok(DeltaAnswer {
        question,
        young_full_s: found.first().map_or(0.0, |b| b.young_full_s),
        daly_full_s: found.first().map_or(0.0, |b| b.daly_full_s),
        volume,
        zones,
        codec: evidence.codec.cloned(),
        methods,
        warnings,
    })
}

/// `ends`: what is to be least (seconds or dollars) of each method with the least and the most that may have changed.
fn warnings(volume: &ChangedVolume, methods: &[MethodAnswer], ends: &[[f64; 2]]) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(best) = methods.first() {
        let (shortest_s, longest_s) = (volume.shortest_s, volume.longest_s);
        let reach_s = best.run.reach_s;
        if reach_s > 0.0 && !(shortest_s / 2.0..=longest_s * 2.0).contains(&reach_s) {
            warnings.push(format!(
                "{} reaches over up to {}, and the checkpoints are {} to {} apart: what changes over that is a guess, as wide as the range",
                best.run.storing.name(),
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
                .map(|(m, _)| m.run.storing.name())
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
