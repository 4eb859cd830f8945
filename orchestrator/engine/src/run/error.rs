//! Errors that stop an attempt before it has a result. A failed run is data, not an error.

use super::run_dirs::AreaError;
use crate::{crew::CrewError, host::HostError, render::RenderError};
use cvc_core::{app::source_file::CopyError, store::StoreError};

/// The run cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file of the campaign cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A machine did not do what was required.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The nodes of a site did not do what was required.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// A template, cvc's own or a descriptor's, cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// A part of the application's descriptor cannot be used.
    #[error("application {app}: {problem}")]
    Descriptor {
        /// Name of the application.
        app: String,
        /// The problem.
        problem: String,
    },
    /// An input file of the application cannot be used.
    #[error(transparent)]
    Input(#[from] CopyError),
    /// The shepherd's program cannot be started.
    #[error("cannot start the shepherd {program}: {problem}")]
    Shepherd {
        /// Path of the program.
        program: String,
        /// The system's error.
        problem: String,
    },
    /// Other users could replace a run's directory.
    #[error(transparent)]
    Area(#[from] AreaError),
    /// A bug in cvc.
    #[error("internal error (please report): {0}")]
    Broken(String),
}
