//! Each method at its best interval, with ranges.

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

/// A method at its best interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodAnswer {
    /// The run.
    pub run: DeltaRun,
    /// Expected seconds at this interval if the changed volume is at the ends of its interval, at all distances at once.
    pub total_s: Interval,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeltaAnswer {
    /// The question.
    pub question: DeltaQuestion,
    /// The fitted changed volume.
    pub volume: ChangedVolume,
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

/// Answers a question from pairs of checkpoints.
///
/// # Errors
/// Pairs that no curve can be fitted to; a run that practically never ends.
pub fn answer(pairs: &[ChangedPair], question: DeltaQuestion) -> Result<DeltaAnswer, PredictError> {
    let refused = |hint: &'static str| {
        move |e: FitError| PredictError::Model {
            message: e.to_string(),
            hint: hint.into(),
        }
    };
    let volume = ChangedVolume::fit(pairs)
        .map_err(refused("give pairs of consecutive checkpoints of one run"))?;
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
        let at = |end: &dyn Fn(f64) -> f64| {
            delta_run(run.storing, end, &job, run.checkpoints + 1).map_err(of_job)
        };
        let (least, most) = (
            at(&|distance| volume.interval(distance).low)?,
            at(&|distance| volume.interval(distance).high)?,
        );
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
    let warnings = warnings(&volume, &methods, &ends);
    Ok(DeltaAnswer {
        question,
        young_full_s: found.first().map_or(0.0, |b| b.young_full_s),
        daly_full_s: found.first().map_or(0.0, |b| b.daly_full_s),
        volume,
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
