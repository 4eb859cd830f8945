//! Errors that stop an agent.

use camino::Utf8PathBuf;
use cvc_core::store::StoreError;
use cvc_engine::crew::CrewError;
use std::{io, time::Duration};

/// The reason why an agent could not work, which is in the event log as well.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The spool.
    #[error(transparent)]
    Spool(#[from] StoreError),
    /// Something that it needs failed.
    #[error("{0}")]
    Unable(String),
}

/// Why something was not copied to a node.
#[derive(Debug, thiserror::Error)]
pub enum SpreadError {
    /// It cannot be read on this machine.
    #[error("cannot read it here: {0}")]
    Read(io::Error),
    /// A program that copies did not start.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Which program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The node did not take it, in its own words.
    #[error("{0}")]
    Refused(String),
    /// It was still being copied at the limit.
    #[error("it took more than {} s", .0.as_secs())]
    Slow(Duration),
}

/// The reason why an agent cannot make its site ready.
#[derive(Debug, thiserror::Error)]
pub enum ReadyError {
    /// The controller is of another version.
    #[error(
        "the controller speaks protocol {controller}, and the agent {agent}: use the same version of cvc"
    )]
    Protocol {
        /// The controller's protocol.
        controller: u32,
        /// This agent's.
        agent: u32,
    },
    /// A signal ended the agent meanwhile.
    #[error("it was ended by a signal")]
    Terminated,
    /// The spool.
    #[error(transparent)]
    Spool(#[from] StoreError),
    /// The nodes.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// The site does not match the orders.
    #[error("{0}")]
    Site(String),
    /// A file or directory could not be copied to a node.
    #[error("{node}: cannot copy {path} there: {problem}")]
    Spread {
        /// Which node.
        node: String,
        /// What was to be copied.
        path: Utf8PathBuf,
        /// Why it was not.
        #[source]
        problem: SpreadError,
    },
    /// A storage area cannot be used.
    #[error("{0}")]
    Storage(String),
}
