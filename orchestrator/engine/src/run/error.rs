//! Errors that stop an attempt before it has a result. A failed run is data, not an error.

use crate::{crew::CrewError, host::HostError, render::RenderError};
use cvc_core::{app::source_file::CopyError, store::StoreError};

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
    /// Something in the application's descriptor cannot be used.
    #[error("application {app}: {problem}")]
    Descriptor {
        /// Which application.
        app: String,
        /// What is wrong.
        problem: String,
    },
    /// An input file of the application.
    #[error(transparent)]
    Input(#[from] CopyError),
    /// The shepherd's program cannot be started.
    #[error("cannot start the shepherd {program}: {problem}")]
    Shepherd {
        /// Its path.
        program: String,
        /// The system's error.
        problem: String,
    },
    /// Others can put something in the place of a run's directory.
    #[error("{0}")]
    Area(String),
    /// A bug in cvc.
    #[error("internal error (please report): {0}")]
    Broken(String),
}
