//! Deterministic simulation of controllers, relays and agents.
//!
//! A *schedule* follows from its seed: a campaign on one or two ssh sites, and what goes wrong meanwhile. The walk through the plan, the
//! journal, the connection to the agent, the relay, the spool and the agent's loop are the real ones, in one thread. Simulated are the clock
//! (tokio's, paused: time passes when everybody waits), the network with its delays, breaks and damaged lines, the nodes and the processes
//! of runs. Files are real ones in memory; what was not synced is lost with the power. Several controllers may meet, the user edits the campaign
//! file, and somebody sets the clocks. At the end it is checked that each run has one end that really was, that no two attempts at a run
//! or on a node ever lived at once, and that nothing is left anywhere.

mod agent;
pub mod calibration;
mod campaigns;
mod check;
mod faults;
mod head;
mod locks;
mod power;
mod schedule;
mod sessions;
mod world;

pub use schedule::{Story, directory, simulate};
