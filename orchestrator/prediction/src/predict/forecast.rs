//! What is said: each quantity with its interval, its model and the runs behind it, or the reason why there is none.

use super::question::Question;
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, ModelInfo, Parameter, Tier, stats::Interval, stored::FileGroup};
use indexmap::IndexSet;
use serde::{Serialize, Serializer, ser::SerializeStruct};
use std::collections::BTreeSet;

/// The forecasts of all quantities for one question.
#[derive(Clone, Debug, Serialize)]
pub struct Forecasts {
    /// What was asked.
    pub question: Question,
    /// The same, for people.
    pub label: String,
    /// Quantities in the order of tables; what depends on the load of a node stands once for each load.
    #[serde(rename = "quantities")]
    pub lines: Vec<ForecastLine>,
    /// The files of one checkpoint, alike ones together; empty if their sizes are not known.
    pub files: Vec<FileGroup>,
    /// How often to take checkpoints, as far as that follows.
    pub schedules: Vec<Scheduled>,
    /// The reason why there is no number of checkpoints, if one was asked for.
    pub no_schedules: Option<String>,
    /// Warnings, each once.
    pub warnings: Vec<String>,
}

/// One quantity.
#[derive(Clone, Debug, Serialize)]
pub struct ForecastLine {
    /// Which.
    pub quantity: Quantity,
    /// `MiB`, `s`, or nothing for a count.
    pub unit: &'static str,
    /// Processes on the node of the image in question; `None` for what does not depend on it.
    pub node_load: Option<u32>,
    /// The number and what it is based on, or why there is none.
    #[serde(flatten)]
    pub forecast: Forecast,
    /// The reasons of each model, if the main reason is only a summary.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// What was measured at this very setting, if it is among the training observations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<ObservedValue>,
}

/// A measured number; a type of its own, so that it is never taken for a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ObservedValue(pub f64);

/// What is said of a quantity: a number with its interval and its basis, or the reason for none.
#[derive(Clone, Debug)]
pub enum Forecast {
    /// A number.
    Predicted(Prediction),
    /// Why there is none.
    NoPrediction(String),
}

/// A number with everything behind it.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// The number with its interval.
    #[serde(rename = "predicted")]
    pub estimate: Estimate,
    /// The model that it is from.
    pub model: ModelInfo,
    /// The reason for this model.
    pub reason: String,
    /// Its parameters; none for a sum of other lines.
    pub parameters: Vec<Parameter>,
    /// Labels of the observations that it was fitted on, in their order.
    pub training: Vec<String>,
    /// All models that were tried, the chosen one too, in the order of the list.
    pub candidates: Vec<CandidateAnswer>,
    /// Half width of the interval that followed from the observations alone, before the table of errors widened it; for a sum, that of its
    /// parts. `None` if there are too few observations for one that tells anything.
    #[serde(skip)]
    pub own_half: Option<f64>,
    /// Whether the runs leave open which of several laws holds: the interval reaches over all of them.
    #[serde(skip)]
    pub spans_laws: bool,
}

/// What another model says.
#[derive(Clone, Debug, Serialize)]
pub struct CandidateAnswer {
    /// The model.
    pub model: ModelInfo,
    /// Whether the line has its number from it.
    pub chosen: bool,
    /// Mean error in percent over the observations that were left out in turn.
    pub leave_one_out_pct: Option<f64>,
    /// Its number for the same setting.
    #[serde(rename = "predicted")]
    pub estimate: Option<Estimate>,
    /// Why it has none.
    #[serde(rename = "not_predicted")]
    pub refused: Option<String>,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
}

/// A way to spread checkpoints over a run.
#[derive(Clone, Debug, Serialize)]
pub struct Scheduled {
    /// The rule in words.
    pub rule: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Checkpoints in the whole run; `None` if the time of the program is not known.
    pub checkpoints: Option<u64>,
    /// Seconds from the start of one to the start of the next, so with the checkpoint in it; `None` without any.
    pub interval_s: Option<f64>,
    /// The same for the ends of the interval of the checkpoint time; `None` if that has none.
    pub interval_range_s: Option<Interval>,
    /// Seconds of the program with them; `None` if its time is not known.
    pub total_s: Option<f64>,
    /// What checkpoints, and failures if their mean time is given, cost in all, as a part of the program's time: 0.02 for 2 %. `None` if the
    /// time of the program is needed and not known.
    pub overhead: Option<f64>,
    /// The same if this interval is kept and a checkpoint takes as long as the ends of its interval say; `None` if that has none.
    pub overhead_range: Option<Interval>,
    /// What the run takes on average if failures come at random; `None` without their mean time, the time of the program, or an end.
    pub with_failures: Option<ExpectedRun>,
}

/// What a run with failures takes on average, and what is lost to what.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExpectedRun {
    /// Seconds from its first start to its end.
    pub total_s: f64,
    /// Failures during it.
    pub failures: f64,
    /// Seconds in completed checkpoints.
    pub checkpoints_s: f64,
    /// Seconds that were computed, or spent on a checkpoint, in vain.
    pub rework_s: f64,
    /// Seconds in restarts.
    pub restarts_s: f64,
}

/// The limits for schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ScheduleBudget {
    /// Share of the program's time that checkpoints may take: 0.3 for 30 %.
    pub overhead: Option<f64>,
    /// Seconds of the program without checkpoints, instead of what was observed.
    pub app_s: Option<f64>,
    /// Mean time between failures of the whole job, seconds.
    pub mtbf_s: Option<f64>,
    /// That of one node, seconds: nodes fail independently, so that of the job is as many times shorter as it has nodes.
    pub mtbf_node_s: Option<f64>,
    /// Seconds from a failure until the program computes again; as long as a checkpoint takes, if it is not known.
    pub restart_s: Option<f64>,
}

/// An answer with its warnings.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub forecast: Forecast,
    pub warnings: Vec<String>,
    /// The reasons of each model, if the outcome only summarises them.
    pub refused: Vec<String>,
    /// Runs that there are and that are needed, if that is why.
    pub too_few: Option<(usize, usize)>,
    /// Whether it follows from runs of the program alone because they contradict those of others.
    pub of_own_runs: bool,
}

impl Answered {
    pub fn none(reason: impl Into<String>) -> Self {
        Self {
            forecast: Forecast::NoPrediction(reason.into()),
            warnings: Vec::new(),
            refused: Vec::new(),
            too_few: None,
            of_own_runs: false,
        }
    }

    pub fn of(prediction: Prediction) -> Self {
        Self::with(prediction, Vec::new())
    }

    pub fn with(prediction: Prediction, warnings: Vec<String>) -> Self {
        Self {
            forecast: Forecast::Predicted(prediction),
            warnings,
            ..Self::none("")
        }
    }
}

impl Prediction {
    /// Whether it was fitted to totals alone: its interval is that of the fit, and not calibrated.
    pub fn is_of_totals(&self) -> bool {
        self.model.id.starts_with("totals-")
    }

    /// A number that no curve was fitted to.
    pub(crate) fn new(model: ModelInfo, estimate: Estimate, reason: impl Into<String>) -> Self {
        Self {
            estimate,
            model,
            reason: reason.into(),
            parameters: Vec::new(),
            training: Vec::new(),
            candidates: Vec::new(),
            own_half: None,
            spans_laws: false,
        }
    }

    /// A number made of others.
    pub(crate) fn made_of(model: ModelInfo, estimate: Estimate, parts: &[&Self]) -> Self {
        let labels: IndexSet<&String> = parts.iter().flat_map(|p| &p.training).collect();
        // a sum is only as certain as its worst part
        let tiers = parts.iter().map(|p| p.model.tier);
        let tier = tiers.fold(model.tier, Tier::max);
        let ids: BTreeSet<&str> = parts.iter().map(|p| p.model.id).collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        let squares = parts.iter().filter_map(|p| p.own_half);
        let own_half = squares.map(|half| half * half).sum::<f64>().sqrt();
        Self {
            training: labels.into_iter().cloned().collect(),
            own_half: Some(own_half),
            spans_laws: parts.iter().any(|p| p.spans_laws),
            ..Self::new(
                ModelInfo { tier, ..model },
                estimate,
                format!("made of {}", ids.join(", ")),
            )
        }
    }
}

impl Forecast {
    /// The number with its basis, if there is one.
    pub fn prediction(&self) -> Option<&Prediction> {
        match self {
            Self::Predicted(prediction) => Some(prediction),
            Self::NoPrediction(_) => None,
        }
    }

    /// The number with its interval, or the reason for none.
    pub fn estimate(&self) -> Result<Estimate, &str> {
        match self {
            Self::Predicted(prediction) => Ok(prediction.estimate),
            Self::NoPrediction(reason) => Err(reason),
        }
    }

    /// The same forecast for so many of what it is of, or for a part of it.
    pub fn times(self, factor: f64) -> Self {
        match self {
            Self::Predicted(prediction) => Self::Predicted(Prediction {
                estimate: prediction.estimate.times(factor),
                ..prediction
            }),
            Self::NoPrediction(reason) => Self::NoPrediction(reason),
        }
    }
}

/// The fields of a [`Prediction`], or `{"predicted": null, "not_predicted": "the reason"}`.
impl Serialize for Forecast {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Predicted(prediction) => prediction.serialize(to),
            Self::NoPrediction(reason) => {
                let mut fields = to.serialize_struct("Forecast", 2)?;
                fields.serialize_field("predicted", &None::<Estimate>)?;
                fields.serialize_field("not_predicted", reason)?;
                fields.end()
            }
        }
    }
}

impl Forecasts {
    /// Adds a line, and returns what it says.
    pub(crate) fn add(
        &mut self,
        quantity: Quantity,
        node_load: Option<u32>,
        answered: Answered,
    ) -> Forecast {
        self.warnings.extend(answered.warnings);
        self.lines.push(ForecastLine {
            quantity,
            unit: quantity.unit(),
            node_load,
            forecast: answered.forecast.clone(),
            refused: answered.refused,
            observed: None,
        });
        answered.forecast
    }

    /// Whether there is a number of the program itself: without one, the rest is only of its library.
    pub fn says_something_of_the_program(&self) -> bool {
        let of_program = [
            Quantity::Dtapp,
            Quantity::Image,
            Quantity::File,
            Quantity::Stored,
        ];
        self.question.is_known_without_runs()
            || of_program.into_iter().any(|q| self.first(q).is_some())
    }

    /// The lines of a quantity: one, or one for each load of a node.
    pub fn of(&self, quantity: Quantity) -> impl Iterator<Item = &ForecastLine> {
        self.lines.iter().filter(move |l| l.quantity == quantity)
    }

    /// The first line of a quantity.
    pub fn first(&self, quantity: Quantity) -> Option<&Prediction> {
        self.of(quantity)
            .next()
            .and_then(|l| l.forecast.prediction())
    }
}
