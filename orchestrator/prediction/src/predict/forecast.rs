//! Forecasts: each quantity with its interval, its model and its runs, or with the reason why there is none.

use super::question::Question;
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, ModelInfo, Parameter, Tier, stats::Interval, stored::FileGroup};
use indexmap::IndexSet;
use serde::{Serialize, Serializer, ser::SerializeStruct};
use std::collections::BTreeSet;

/// The forecasts of all quantities for one question.
#[derive(Clone, Debug, Serialize)]
pub struct Forecasts {
    /// The question.
    pub question: Question,
    /// The question as text.
    pub label: String,
    /// Quantities in the order of tables. Quantities that depend on the number of processes on a node have one line for each number.
    #[serde(rename = "quantities")]
    pub lines: Vec<ForecastLine>,
    /// The files of one checkpoint, with equal files in groups; empty if their sizes are unknown.
    pub files: Vec<FileGroup>,
    /// Schedules of checkpoints that can be derived.
    pub schedules: Vec<Scheduled>,
    /// The reason why there are no schedules, if some were requested.
    pub no_schedules: Option<String>,
    /// Warnings without duplicates.
    pub warnings: Vec<String>,
}

/// The forecast of one quantity.
#[derive(Clone, Debug, Serialize)]
pub struct ForecastLine {
    /// The quantity.
    pub quantity: Quantity,
    /// `MiB`, `s`, or nothing for a count.
    pub unit: &'static str,
    /// Processes on the node of the image; `None` for quantities that do not depend on it.
    pub node_load: Option<u32>,
    /// The number and its basis, or the reason why there is none.
    #[serde(flatten)]
    pub forecast: Forecast,
    /// The reasons of each model, if the main reason only summarises them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// The measurement at exactly this setting, if it is among the training observations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<ObservedValue>,
}

/// A measured number, as a separate type so that it is never confused with a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ObservedValue(pub f64);

/// The forecast of a quantity: a number with its interval and its basis, or the reason why there is none.
#[derive(Clone, Debug)]
pub enum Forecast {
    /// A number.
    Predicted(Prediction),
    /// The reason why there is no number.
    NoPrediction(String),
}

/// A number with its basis.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// The number with its interval.
    #[serde(rename = "predicted")]
    pub estimate: Estimate,
    /// The model that gave the number.
    pub model: ModelInfo,
    /// The reason for choosing this model.
    pub reason: String,
    /// Fitted parameters; empty for a sum of other lines.
    pub parameters: Vec<Parameter>,
    /// Labels of the observations that the model was fitted to, in their order.
    pub training: Vec<String>,
    /// All models that were tried, including the chosen one, in the order of the list.
    pub candidates: Vec<CandidateAnswer>,
    /// Half-width of the interval that follows from the observations alone, before the table of errors widened it; for a sum, from the intervals of
    /// its parts. `None` if there are too few observations for a useful interval.
    #[serde(skip)]
    pub own_half: Option<f64>,
    /// Whether the runs fit several laws, so that the interval covers all of them.
    #[serde(skip)]
    pub spans_laws: bool,
    /// Distance between the number and that of the candidate law that differs most; 0 if there is no other law.
    #[serde(skip)]
    pub laws: f64,
}

/// The prediction of one candidate model.
#[derive(Clone, Debug, Serialize)]
pub struct CandidateAnswer {
    /// The model.
    pub model: ModelInfo,
    /// Whether the line's number is from this model.
    pub chosen: bool,
    /// Mean error in percent over the observations, each left out in turn.
    pub leave_one_out_pct: Option<f64>,
    /// Number that the model predicts for the same setting; `None` if it predicts none.
    #[serde(rename = "predicted")]
    pub estimate: Option<Estimate>,
    /// The reason why the model predicts no number.
    #[serde(rename = "not_predicted")]
    pub refused: Option<String>,
    /// Fitted parameters.
    pub parameters: Vec<Parameter>,
}

/// A schedule: checkpoints at regular intervals in a run.
#[derive(Clone, Debug, Serialize)]
pub struct Scheduled {
    /// The rule in words.
    pub rule: &'static str,
    /// Source of the rule.
    pub source: &'static str,
    /// Number of checkpoints in the whole run; `None` if the program's time is unknown.
    pub checkpoints: Option<u64>,
    /// Seconds from the start of one checkpoint to the start of the next, including the checkpoint; `None` if there are no checkpoints.
    pub interval_s: Option<f64>,
    /// [`Self::interval_s`] for both ends of the 95 % interval of the checkpoint time; `None` if that time has no interval.
    pub interval_range_s: Option<Interval>,
    /// Seconds of the program with checkpoints; `None` if the program's time is unknown.
    pub total_s: Option<f64>,
    /// Time of all checkpoints relative to the program's time: 0.02 for 2 %. `None` if the program's time is needed but unknown.
    pub overhead_without_failures: Option<f64>,
    /// Whether [`Self::overhead`] includes failures.
    #[serde(skip)]
    pub includes_failures: bool,
    /// Total overhead of checkpoints, and of failures if their mean time is given, relative to the program's time: 0.02 for 2 %. `None` if the
    /// program's time is needed but unknown.
    pub overhead: Option<f64>,
    /// [`Self::overhead`] of this schedule for both ends of the 95 % interval of the checkpoint time; `None` if that time has no interval.
    pub overhead_range: Option<Interval>,
    /// Expected duration of the run with random failures; `None` without the mean time between failures or the program's time, or if the run does
    /// not end.
    pub with_failures: Option<ExpectedRun>,
}

/// Expected duration of a run with failures, and the losses by cause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExpectedRun {
    /// Seconds from the first start of the run to its end.
    pub total_s: f64,
    /// Number of failures during the run.
    pub failures: f64,
    /// Seconds of completed checkpoints.
    pub checkpoints_s: f64,
    /// Seconds of lost computation and lost checkpoints.
    pub rework_s: f64,
    /// Seconds of restarts.
    pub restarts_s: f64,
}

/// Limits and times for schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ScheduleBudget {
    /// Maximum time of checkpoints relative to the program's time: 0.3 for 30 %.
    pub overhead: Option<f64>,
    /// Seconds of the program without checkpoints, instead of the observed time.
    pub app_s: Option<f64>,
    /// Mean time between failures of the whole job, seconds.
    pub mtbf_s: Option<f64>,
    /// Mean time between failures of one node, seconds. Nodes fail independently, so the mean time of a job is this time divided by the number of
    /// nodes.
    pub mtbf_node_s: Option<f64>,
    /// Seconds from a failure until the program computes again; if unknown, the time of a checkpoint.
    pub restart_s: Option<f64>,
}

impl ScheduleBudget {
    /// Returns the limits for a job on `nodes` nodes. If only the time between failures of a node is given, computes the time between failures of the
    /// job.
    pub fn on_nodes(self, nodes: u32) -> Self {
        let of_nodes = || Some(self.mtbf_node_s? / f64::from(nodes.max(1)));
        Self {
            mtbf_s: self.mtbf_s.or_else(of_nodes),
            ..self
        }
    }
}

/// A forecast with its warnings.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub forecast: Forecast,
    pub warnings: Vec<String>,
    /// The reasons of each model, if the main reason only summarises them.
    pub refused: Vec<String>,
    /// Number of available and of needed runs, if there are too few.
    pub too_few: Option<(usize, usize)>,
    /// Whether the forecast follows from runs of the program alone, because they contradict runs of other programs.
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
    /// Returns whether the prediction was fitted to totals: its interval is that of the fit and not calibrated.
    pub fn is_of_totals(&self) -> bool {
        self.model.id.starts_with("totals-")
    }

    /// Returns whether the prediction follows from other problem sizes: its interval is from the errors for sizes that were left out.
    pub(crate) fn is_of_sizes(&self) -> bool {
        self.model.id.starts_with("size-")
    }

    /// Returns a prediction to which no curve was fitted.
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
            laws: 0.0,
        }
    }

    /// Returns a prediction that is computed from other predictions.
    pub(crate) fn made_of(model: ModelInfo, estimate: Estimate, parts: &[&Self]) -> Self {
        let labels: IndexSet<&String> = parts.iter().flat_map(|p| &p.training).collect();
        // a sum has the tier of its least certain part
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
            laws: parts.iter().map(|p| p.laws).sum(),
            ..Self::new(
                ModelInfo { tier, ..model },
                estimate,
                format!("made of {}", ids.join(", ")),
            )
        }
    }
}

impl Forecast {
    /// Returns the number with its basis; `None` if there is none.
    pub fn prediction(&self) -> Option<&Prediction> {
        match self {
            Self::Predicted(prediction) => Some(prediction),
            Self::NoPrediction(_) => None,
        }
    }

    /// Returns the number with its interval, or the reason why there is none.
    pub fn estimate(&self) -> Result<Estimate, &str> {
        match self {
            Self::Predicted(prediction) => Ok(prediction.estimate),
            Self::NoPrediction(reason) => Err(reason),
        }
    }

    /// Returns the forecast multiplied by a factor.
    pub fn times(self, factor: f64) -> Self {
        match self {
            Self::Predicted(prediction) => Self::Predicted(Prediction {
                estimate: prediction.estimate.times(factor),
                laws: prediction.laws * factor.abs(),
                ..prediction
            }),
            Self::NoPrediction(reason) => Self::NoPrediction(reason),
        }
    }
}

/// Serialises the fields of a [`Prediction`], or `{"predicted": null, "not_predicted": "the reason"}`.
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
    /// Adds a line, and returns its forecast.
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

    /// Returns whether at least one line predicts the program itself; the other lines describe only its library.
    pub fn says_something_of_the_program(&self) -> bool {
        let of_program = [
            Quantity::Dtapp,
            Quantity::Image,
            Quantity::File,
            Quantity::Stored,
        ];
        self.question.is_known_without_runs()
            || of_program.into_iter().any(|q| self.first(q).is_some())
            || self
                .first(Quantity::Application)
                .is_some_and(|own| own.model.tier == Tier::SmallRuns)
    }

    /// Returns the lines of a quantity: one, or one for each number of processes on a node.
    pub fn of(&self, quantity: Quantity) -> impl Iterator<Item = &ForecastLine> {
        self.lines.iter().filter(move |l| l.quantity == quantity)
    }

    /// Returns the first prediction of a quantity.
    pub fn first(&self, quantity: Quantity) -> Option<&Prediction> {
        self.of(quantity)
            .next()
            .and_then(|l| l.forecast.prediction())
    }
}
