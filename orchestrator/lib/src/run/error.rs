//! What stops a whole campaign. A failed run is data, not an error.

use crate::{crew::CrewError, host::HostError, render::RenderError, store::StoreError};

/// The campaign cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A file of the campaign.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A machine.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The nodes of a site.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// A template, cvc's own or of a descriptor.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// Something that a run's descriptor says cannot be used.
    #[error("application {app}: {problem}")]
    Descriptor {
        /// Which application.
        app: String,
        /// What is wrong.
        problem: String,
    },
    /// The shepherd's program is not there.
    #[error("cannot start the shepherd {program}: {problem}")]
    Shepherd {
        /// Its path.
        program: String,
        /// What the system said.
        problem: String,
    },
    /// What is installed is not what it should be.
    #[error(transparent)]
    Install(#[from] crate::install::InstallError),
    /// A site of several machines cannot be used.
    #[error("site {site}: {problem}")]
    Site {
        /// Which site.
        site: String,
        /// Why, and how to mend it.
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
        /// What the cloud said.
        error: Box<crate::cloud::ProviderError>,
    },
    /// The budget does not pay for the machines of a site.
    #[error("site {site}: the budget: {why}")]
    OverBudget {
        /// Which site.
        site: String,
        /// What it would need.
        why: String,
    },
    /// Something is still there that must not be.
    #[error("site {site}: something is left: {what}")]
    Leftover {
        /// Which site.
        site: String,
        /// What, and where.
        what: String,
    },
    /// Something in cvc itself that must not be.
    #[error("cvc itself is wrong: {0}")]
    Broken(String),
}
