//! The controller's side of a site of several machines. It copies cvc to the head node, starts an agent or finds the running one, requests attempts
//! and fetches their results.

mod agent_handle;
mod agent_state;
mod connection;
#[cfg(test)]
mod contract;
mod executor;
mod head_node;
mod job_monitor;
mod machines;
mod outbox;
mod reach;
mod setting;
mod site;
mod submission;

pub use agent_state::Ready;
pub use head_node::{Channel, HeadNode, ProgressReport};
pub use machines::{MachineLoss, RemoteMachines, StandingMachines, TransferCost};
pub use reach::{BySsh, NodeReach, Notes};
pub use setting::{MAKE_SPOOL, REMOVE_SPOOL};
pub use site::PREPARE_PROGRAM;
pub use site::{Opening, Remote};
