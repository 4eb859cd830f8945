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

/// The campaign cannot go on.
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
        /// Which site.
        site: String,
        /// Why, and how to fix it.
        problem: String,
    },
    /// Slurm.
    #[error(transparent)]
    Slurm(Box<crate::slurm::SlurmError>),
    /// A cloud.
    #[error("site {site}: {error}")]
    Provider {
        /// Which site.
        site: String,
        /// The cloud's error.
        error: Box<crate::provider_error::ProviderError>,
    },
    /// The budget does not pay for the machines of a site.
    #[error("site {site}: {over}")]
    OverBudget {
        /// Which site.
        site: String,
        /// What it would need.
        over: OverBudget,
    },
    /// Results that are complete on a site cannot be written on this machine.
    #[error("site {site}: the results of run {run} cannot be written here: {error}")]
    NotWritten {
        /// Which site.
        site: String,
        /// Whose results.
        run: String,
        /// Why.
        error: Box<CampaignError>,
    },
    /// Resources are left.
    #[error("site {site}: resources are left: {what}")]
    Leftover {
        /// Which site.
        site: String,
        /// What, and where.
        what: String,
    },
}

/// The budget does not pay for something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the budget: {why}")]
pub struct OverBudget {
    /// What it would need, or why that is unknown.
    pub why: String,
}

impl OverBudget {
    /// The budget does not pay, for this reason.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }

    /// How to go on; `command` is the one that continues the campaign.
    pub fn hint(command: &str) -> String {
        format!("raise `budget.usd`, and `{command}` continues")
    }
}

impl CampaignError {
    /// `cvc-node`, which goes to the nodes of a site, is not here.
    pub fn no_node_program(site: &str, program: &Utf8Path) -> Self {
        let beside = program.parent().unwrap_or(program);
        let problem = format!(
            "{program}, which cvc puts on the nodes, does not exist: build it with `cargo xtask node --release` in the clone of cvc's \
             repository, and copy it to {beside} or name it in CVC_NODE_PROGRAM if this cvc does not lie there"
        );
        Self::Site {
            site: site.to_owned(),
            problem,
        }
    }

    /// A task that panicked, or was ended before its time.
    pub fn of_task(error: JoinError) -> Self {
        let text = error.to_string();
        Self::internal(
            error
                .try_into_panic()
                .map_or(text, |panic| panic_text(panic.as_ref())),
        )
    }

    /// Whether this machine has no room for a file. What a site has finished is then safe only there.
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

    /// Whether results may be left that exist only on their site, because this machine cannot write them.
    pub fn leaves_results(&self) -> bool {
        matches!(self, Self::NotWritten { .. }) || self.is_full_disk()
    }

    /// An internal error of cvc.
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
