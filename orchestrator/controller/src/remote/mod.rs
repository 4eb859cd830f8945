//! The controller's end of a site of several machines: it puts cvc there, starts an agent or finds the one that went on without it, hands
//! attempts over and brings back what came of them.

mod agent_handle;
mod agent_state;
mod connection;
#[cfg(test)]
mod contract;
mod executor;
mod head_node;
mod job_monitor;
mod setting;
mod site;
mod submission;

pub(crate) use site::{Opening, Remote, identity};
