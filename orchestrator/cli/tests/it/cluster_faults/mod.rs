//! Tests of faults on clusters: in each case the right cause is reported, no run is lost or run twice, nothing keeps running, and the campaign
//! continues if possible.

mod controller;
mod edited;
mod head;
mod nodes;
mod placement;
pub mod steps;
mod stopping;
mod storage;
