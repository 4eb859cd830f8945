//! From observed checkpoints to those of any mapping, process count or class.
//!
//! | file | what |
//! | --- | --- |
//! | `observation.rs` | what was observed at a point: quantities by name and unit |
//! | `index.rs`, `csv.rs`, `images.rs`, `merge.rs` | where observations come from: a campaign, a table, images alone, rows that repeat |
//! | `setting.rs` | the setting that observations and questions share |
//! | `environment.rs`, `one_environment.rs` | DMTCP and kernel, which observations must share |
//! | `labels.rs` | labels that tell observations apart |
//! | `question.rs` | what is asked for: `npb-bt.D 2Nx32P mpich-ch3` |
//! | `predictor.rs`, `fitting.rs`, `curves.rs` | which observations speak for a question, and the model that is taken |
//! | `kind.rs`, `calibration.rs` | how far such predictions were off for other programs |
//! | `backtest.rs` | how far predictions are off for runs of the program itself that are left out |
//! | `next.rs` | which further run would narrow the answer most |
//! | `unmeasured.rs` | the points of a campaign that nobody has measured yet |
//! | `forecast.rs` | what is said |
//!
//! What predictions are of is in [`crate::subject`], which [`crate::forecasting`] puts together.
//!
//! A [`Predictor`] carries the mark of the split that it was trained on: it answers any [`Question`], but [`crate::holdout::judge`] holds
//! it only against observations that were held out of the same split. Nothing is invented: a quantity without data or model is a line with
//! the reason.

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
    Basis, Calibrated, Calibration, DataPlace, Kind, TrialError, WITH_KNOWN_COVERAGE, error_offset,
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
pub use question::{KnownNames, Question};
pub use setting::{RunSetting, mpi_kind_of_fact, mpi_kind_of_name};
pub use unmeasured::{UnmeasuredPoint, unmeasured};
