//! The controller's side of a site of several machines: copies cvc there, starts an agent or finds the running one, hands attempts over and
//! fetches their results.

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
pub use head_node::{Channel, HeadNode, Tell};
pub use machines::{MachineLoss, Machines, StandingMachines, TransferCost};
pub use reach::{BySsh, Notes, Reach};
pub use setting::{MAKE_SPOOL, REMOVE_SPOOL};
pub use site::PREPARE_PROGRAM;
pub use site::{Opening, Remote};
