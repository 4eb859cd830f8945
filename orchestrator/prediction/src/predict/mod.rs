//! Predicts checkpoints for any mapping, process count or class from observed checkpoints.
//!
//! | file | contents |
//! | --- | --- |
//! | `observation.rs` | observations at a point: quantities by name and unit |
//! | `index.rs`, `csv.rs`, `images.rs`, `merge.rs` | sources of observations: a campaign, a table, images alone; merging of repeated rows |
//! | `setting.rs` | the setting of observations and questions |
//! | `environment.rs`, `one_environment.rs` | DMTCP and kernel, which must be the same for all observations |
//! | `labels.rs` | labels that distinguish observations |
//! | `question.rs` | the question: `npb-bt.D 2Nx32P mpich-ch3` |
//! | `predictor.rs`, `fitting.rs`, `curves.rs` | the observations relevant to a question, and the choice of the model |
//! | `kind.rs`, `calibration.rs` | errors of such predictions for other programs |
//! | `backtest.rs` | errors of predictions for left-out runs of the program itself |
//! | `next.rs` | the additional run that would narrow the intervals most |
//! | `unmeasured.rs` | the points of a campaign that are not measured yet |
//! | `forecast.rs` | the forecasts |
//!
//! The subjects of predictions are in [`crate::subject`], and [`crate::forecasting`] combines them.
//!
//! A [`Predictor`] carries the type of the split on which it was trained: it answers any [`Question`], but [`crate::holdout::judge`] compares it
//! only with observations held out of the same split. A quantity without data or model is a line with the reason.

mod backtest;
pub(crate) mod calibration;
mod csv;
pub(crate) mod curves;
mod environment;
mod error;
mod filter;
pub(crate) mod fitting;
pub(crate) mod forecast;
mod images;
mod index;
mod kind;
mod labels;
mod merge;
mod next;
pub(crate) mod observation;
mod one_environment;
pub(crate) mod predictor;
pub(crate) mod question;
pub(crate) mod setting;
mod unmeasured;

pub use calibration::{
    Basis, Calibrated, Calibration, DataPlace, Kind, TrialError, WITH_KNOWN_COVERAGE,
};
pub use csv::{from_csv, parse};
pub use environment::{Environment, KernelEra, ZoneRules};
pub use error::PredictError;
pub use filter::Filter;
pub use forecast::{
    CandidateAnswer, ExpectedRun, Forecast, ForecastLine, Forecasts, ObservedValue, Prediction,
    ScheduleBudget, Scheduled,
};
pub use images::{ImageObservations, UNNAMED_CLASS, from_images, holds_images, to_csv};
pub use index::from_index;
pub use index::zone_rule;
pub use labels::add_differing_origins;
pub use merge::merge_repeated;
pub use next::{NextRun, next_runs};
pub use observation::Observation;
pub use one_environment::{by_environment, keep_one_environment};
pub use predictor::Predictor;
pub use question::{KnownNames, Question, add_sizes};
pub use setting::{RunSetting, mpi_kind_of_fact, mpi_kind_of_name};
pub use unmeasured::{UnmeasuredPoint, unmeasured};
