//! Errors that stop an agent.

use camino::Utf8PathBuf;
use cvc_core::store::StoreError;
use cvc_engine::crew::CrewError;
use std::{io, time::Duration};

/// The reason why an agent could not work. The event log has the same reason.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The spool cannot be used.
    #[error(transparent)]
    Spool(#[from] StoreError),
    /// Something that the agent needs has failed.
    #[error("{0}")]
    Unable(String),
}

/// Why a file was not copied to a node.
#[derive(Debug, thiserror::Error)]
pub enum SpreadError {
    /// The file cannot be read on this machine.
    #[error("cannot read it here: {0}")]
    Read(io::Error),
    /// A program for copying did not start.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// The node rejected the file, with this message.
    #[error("{0}")]
    Refused(String),
    /// The copying was not complete at this time limit.
    #[error("it took more than {} s", .0.as_secs())]
    Slow(Duration),
}

/// The reason why an agent cannot make its site ready.
#[derive(Debug, thiserror::Error)]
pub enum ReadyError {
    /// The controller has another version of cvc.
    #[error(
        "the controller uses protocol {controller}, but the agent uses {agent}: install the same version of cvc on both"
    )]
    Protocol {
        /// Protocol version of the controller.
        controller: u32,
        /// Protocol version of this agent.
        agent: u32,
    },
    /// A signal ended the agent before its site was ready.
    #[error("it was ended by a signal")]
    Terminated,
    /// The spool cannot be used.
    #[error(transparent)]
    Spool(#[from] StoreError),
    /// The nodes cannot be set up.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// The site does not match the orders.
    #[error("{0}")]
    Site(String),
    /// A file or directory could not be copied to a node.
    #[error("{node}: cannot copy {path} there: {problem}")]
    Spread {
        /// The node.
        node: String,
        /// The path to copy.
        path: Utf8PathBuf,
        /// The reason.
        #[source]
        problem: SpreadError,
    },
    /// A storage area cannot be used.
    #[error("{0}")]
    Storage(String),
}
