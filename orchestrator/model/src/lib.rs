//! Models of checkpoint size and time: formulas, fits, intervals, and the choice between models. This crate does no I/O.
//!
//! | to predict | file |
//! | --- | --- |
//! | the application's data in an image | [`dtapp`], with the sizes of the NAS benchmarks in [`nas`] |
//! | libraries, shared memory and headers of areas in an image | [`library`], [`shmem`], [`headers`] |
//! | the memory that an I/O aggregator needs in addition, and the larger files of aggregators | [`surplus`], [`larger_group`] |
//! | files and bytes of a whole checkpoint, for any mapping | [`stored`] |
//! | a program's own checkpoint | [`application`] |
//! | data, own checkpoints and time for another problem size | [`size`] |
//! | time | [`zone_time`], [`latency`], [`schedule`], [`asynchronous`], [`io_phase`] |
//! | checkpoint strategies under failures, with one or several levels | [`strategy`] |
//! | checkpoints that store changes | [`delta`] |
//! | the files of each node, and the space for them | [`node_files`] |
//! | the number of processes beyond which a program gets slower | [`turning_point`] |
//! | metadata operations of a parallel file system | [`metadata`] |
//! | candidates that no other candidate dominates | [`pareto`] |
//!
//! The pure functions of these files are published formulas and their replacements. Fitted models implement [`Model`]. The types of [`split`]
//! separate the points to which a model is fitted from those on which it is judged, and [`choose`] chooses the model with the smallest
//! leave-one-out error. Sizes are in MiB (2^20 bytes) and times in seconds unless a name says otherwise.

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
pub mod node_files;
pub mod pareto;
pub mod schedule;
pub mod shmem;
pub mod size;
pub mod stand_in;
pub mod stats;
pub mod stored;
pub mod strategy;
pub mod surplus;
pub mod time_shape;
pub mod turning_point;
pub mod zone_time;

mod check;
mod choice;
mod curve;
mod estimate;
mod fit;
mod growth;
mod larger;
mod linear;
mod minimum;
mod scope;
mod split;

pub use choice::{Candidate, Choice, FitVerdict, Miss, choose, largest_miss};
pub use curve::{
    Answer, Fitted, Model, ModelInfo, MpiKind, Output, Parameter, Sample, Setting, Tier,
};
pub use estimate::{Estimate, error_pct};
pub use fit::{Fit, FitError, least_squares, relative_weights};
pub use growth::Growth;
pub use larger::{LargerGroup, larger_group};
pub use split::{HeldOut, Identified, Judged, Judgement, Training, split};
pub use stats::{Interval, LEVEL};
