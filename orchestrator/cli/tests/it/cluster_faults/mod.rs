//! What goes wrong on clusters: in each case the right cause is reported, no run is lost or doubled, nothing is left running, and the
//! campaign goes on where it can.

mod controller;
mod edited;
mod head;
mod nodes;
mod placement;
pub mod steps;
mod stopping;
mod storage;
