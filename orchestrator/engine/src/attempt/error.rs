//! What stops an attempt before it can become a result. A failed run is data, not an error.

use crate::{crew::CrewError, host::HostError, render::RenderError};
use cvc_core::store::StoreError;

/// The run cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
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
    /// Something in cvc itself that must not be.
    #[error("internal error (please report): {0}")]
    Broken(String),
}
