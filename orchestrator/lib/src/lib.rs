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
pub mod report;
pub mod stats;
pub mod store;
pub mod units;
