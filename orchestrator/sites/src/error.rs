//! Errors that stop a whole campaign. A failed run is data, not an error.

use camino::Utf8Path;
use cvc_core::panics::panic_text;
use cvc_core::store::StoreError;
use cvc_engine::{
    attempt::RunError,
    crew::CrewError,
    host::{HostError, THIS_MACHINE},
    render::RenderError,
};
use std::io::ErrorKind;
use tokio::task::JoinError;

/// An error that stops a campaign.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// An error of the engine: files, machines, nodes, templates.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Software is missing or differs from the lock.
    #[error(transparent)]
    Install(#[from] crate::install::InstallError),
    /// A site of several machines cannot be used.
    #[error("site {site}: {problem}")]
    Site {
        /// The site.
        site: String,
        /// The problem, and how to correct it.
        problem: String,
    },
    /// Slurm failed.
    #[error(transparent)]
    Slurm(Box<crate::slurm::SlurmError>),
    /// A cloud failed.
    #[error("site {site}: {error}")]
    Provider {
        /// The site.
        site: String,
        /// The cloud's error.
        error: Box<crate::provider_error::ProviderError>,
    },
    /// The budget is too small for the machines of a site.
    #[error("site {site}: {over}")]
    OverBudget {
        /// The site.
        site: String,
        /// The costs, or why they are unknown.
        over: OverBudget,
    },
    /// Results of a finished run cannot be copied to this machine.
    #[error("site {site}: the results of run {run} cannot be written here: {error}")]
    NotWritten {
        /// The site.
        site: String,
        /// The run.
        run: String,
        /// The reason.
        error: Box<CampaignError>,
    },
    /// Resources of a site could not be removed.
    #[error("site {site}: resources are left: {what}")]
    Leftover {
        /// The site.
        site: String,
        /// The resource and where it is.
        what: String,
    },
}

/// The budget is too small.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the budget: {why}")]
pub struct OverBudget {
    /// The costs, or why they are unknown.
    pub why: String,
}

impl OverBudget {
    /// Creates the error with this reason.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }

    /// Returns the remedy for the user. `command` is the command that continues the campaign.
    pub fn hint(command: &str) -> String {
        format!("raise `budget.usd`, and `{command}` continues")
    }
}

impl CampaignError {
    /// Creates the error for a missing `cvc-node` on this machine. cvc copies this program to the nodes of a site.
    pub fn no_node_program(site: &str, program: &Utf8Path) -> Self {
        let beside = program.parent().unwrap_or(program);
        let problem = format!(
            "{program}, which cvc copies to the nodes, does not exist: build it with `cargo xtask node --release` in the clone of cvc's repository; \
             if this cvc runs from elsewhere, copy the program to {beside} or name it in CVC_NODE_PROGRAM"
        );
        Self::Site {
            site: site.to_owned(),
            problem,
        }
    }

    /// Creates the error of a task that panicked or was aborted.
    pub fn of_task(error: JoinError) -> Self {
        let text = error.to_string();
        Self::internal(
            error
                .try_into_panic()
                .map_or(text, |panic| panic_text(panic.as_ref())),
        )
    }

    /// Returns whether this machine's disk is full. Results of a finished run then exist only on their site.
    pub fn is_full_disk(&self) -> bool {
        match self {
            Self::NotWritten { error, .. } => error.is_full_disk(),
            Self::Run(RunError::Store(error)) => error.is_full_disk(),
            Self::Run(RunError::Host(HostError::File { host, source, .. }))
                if host == THIS_MACHINE =>
            {
                matches!(
                    source.kind(),
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded
                )
            }
            _ => false,
        }
    }

    /// Returns whether results may remain on their site only, because this machine cannot write them.
    pub fn leaves_results(&self) -> bool {
        matches!(self, Self::NotWritten { .. }) || self.is_full_disk()
    }

    /// Creates an internal error of cvc.
    pub fn internal(what: impl Into<String>) -> Self {
        Self::Run(RunError::Broken(what.into()))
    }
}

impl From<StoreError> for CampaignError {
    fn from(error: StoreError) -> Self {
        Self::Run(error.into())
    }
}

impl From<HostError> for CampaignError {
    fn from(error: HostError) -> Self {
        Self::Run(error.into())
    }
}

impl From<CrewError> for CampaignError {
    fn from(error: CrewError) -> Self {
        Self::Run(error.into())
    }
}

impl From<RenderError> for CampaignError {
    fn from(error: RenderError) -> Self {
        Self::Run(error.into())
    }
}

impl From<crate::slurm::SlurmError> for CampaignError {
    fn from(error: crate::slurm::SlurmError) -> Self {
        Self::Slurm(Box::new(error))
    }
}
