//! Everything of cvc that is neither terminal nor cloud: campaign files, plans, runs, the store, reports.
//!
//! The data go one way: campaign file, points, runs, artefacts, records, reports. Only `run` touches the world.

pub mod app;
pub mod ids;
pub mod journal;
pub mod mapping;
pub mod plan;
pub mod point;
pub mod record;
pub mod spec;
pub mod units;

pub mod ckpt;
pub mod host;
pub mod kernels;
pub mod mpi;
pub mod paths;
pub mod render;
pub mod run;
pub mod store;
