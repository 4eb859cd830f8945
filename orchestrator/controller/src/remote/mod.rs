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
mod outbox;
mod setting;
mod site;
mod submission;

pub(crate) use site::{Opening, Remote};
