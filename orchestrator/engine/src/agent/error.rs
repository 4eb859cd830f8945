//! What stops an agent.

use crate::crew::CrewError;
use camino::Utf8PathBuf;
use cvc_core::store::StoreError;

/// Why an agent could not work. It is in the event log as well.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The spool.
    #[error(transparent)]
    Spool(#[from] StoreError),
    /// Something that it needs.
    #[error("{0}")]
    Unable(String),
}

/// Why an agent cannot make its site ready.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadyError {
    /// The controller is of another version.
    #[error("its controller speaks protocol {controller}, and it {agent}: use the same version of cvc")]
    Protocol {
        /// The controller's protocol.
        controller: u32,
        /// This agent's.
        agent: u32,
    },
    /// The spool.
    #[error(transparent)]
    Spool(#[from] StoreError),
    /// The nodes.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// The site is not what the orders say.
    #[error("{0}")]
    Site(String),
    /// A file or directory did not get to a node.
    #[error("{node}: cannot put {path} there: {problem}")]
    Spread {
        /// Which node.
        node: String,
        /// What was to be copied.
        path: Utf8PathBuf,
        /// Why it was not.
        problem: String,
    },
    /// A storage area cannot be used.
    #[error("{0}")]
    Storage(String),
}
