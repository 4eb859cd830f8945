//! Models of checkpoint size and time: formulas, fits, intervals, and the choice between them. This crate does no I/O.
//!
//! | to predict | file |
//! | --- | --- |
//! | the application's data in an image | [`dtapp`], with the sizes of the NAS benchmarks in [`nas`] |
//! | its libraries, its shared memory, the headers of its areas | [`library`], [`shmem`], [`headers`] |
//! | what an I/O aggregator adds | [`surplus`] |
//! | files and bytes of a whole checkpoint, for any mapping | [`stored`] |
//! | a program's own checkpoint | [`application`] |
//! | time | [`zone_time`], [`latency`], [`schedule`], [`asynchronous`], [`io_phase`] |
//! | checkpoints that store what changed | [`delta`] |
//! | metadata operations of a parallel file system | [`metadata`] |
//! | which of several candidates is worth taking | [`pareto`] |
//!
//! The pure functions of these files are the published formulas and those that replace them. Fitted models implement [`Model`]; the types of
//! [`split`] keep the points that a model is fitted on apart from those that it is judged on, and [`choose`] takes the model with the
//! smallest leave-one-out error.
//! Sizes are in MiB (2^20 bytes) and times in seconds unless a name says otherwise.

pub mod application;
pub mod asynchronous;
pub mod conformal;
pub mod delta;
pub mod dtapp;
pub mod headers;
pub mod io_phase;
pub mod latency;
pub mod library;
pub mod metadata;
pub mod nas;
pub mod pareto;
pub mod schedule;
pub mod shmem;
pub mod stats;
pub mod stored;
pub mod surplus;
pub mod time_shape;
pub mod zone_time;

mod check;
mod choice;
mod curve;
mod estimate;
mod fit;
mod growth;
mod linear;
mod scope;
mod split;

pub use choice::{Candidate, Choice, Miss, Verdict, choose, largest_miss};
pub use curve::{
    Answer, Fitted, Model, ModelInfo, MpiKind, Output, Parameter, Sample, Setting, Tier,
};
pub use estimate::{Estimate, error_pct};
pub use fit::{Fit, FitError, least_squares, relative_weights};
pub use growth::Growth;
pub use split::{HeldOut, Identified, Judged, Judgement, Training, split};
pub use stats::{Interval, LEVEL};
