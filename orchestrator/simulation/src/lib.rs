//! Deterministic simulation of controllers, relays and agents.
//!
//! A *schedule* is reproducible from its seed: a campaign on one or two ssh sites, and the faults during it. Real code, in one thread: the runner,
//! the journal, the connection to the agent, the relay, the spool and the agent's loop. Simulated: the clock (tokio's, paused: time passes when all
//! tasks wait), the network with delays, interruptions and damaged lines, the nodes, and the processes of runs. Files are real files in memory; data
//! that were not synced are lost in a power loss. Several controllers may run at once, the user edits the campaign file, and clocks are set.
//!
//! At the end the simulation checks that each run has one recorded end that really occurred, that no two attempts at a run or on a node were ever
//! alive at once, and that nothing was left behind.

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
