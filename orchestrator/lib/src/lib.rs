//! Everything of cvc that is neither terminal nor cloud: campaign files, plans, runs, the store, reports.
//!
//! The data go one way: campaign file, points, runs, artefacts, records, reports. Only `run` touches the world.

pub mod agent;
pub mod app;
pub mod ckpt;
pub mod cloud;
pub mod cost;
pub mod crew;
pub mod doctor;
mod embedded;
pub mod host;
pub mod ids;
pub mod install;
pub mod inventory;
pub mod journal;
pub mod kernels;
pub mod mapping;
pub mod model;
pub mod mpi;
pub mod paper;
pub mod paths;
pub mod plan;
pub mod point;
pub mod predict;
pub mod prediction;
pub mod record;
mod remote;
pub mod render;
pub mod report;
pub mod rerun;
pub mod run;
pub mod slurm;
pub mod spec;
pub mod stats;
pub mod store;
pub mod units;
