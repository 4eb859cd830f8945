//! MPI libraries: where they are, how they are started, which I/O settings they take and whether they took them.
//!
//! Everything that differs between families is behind [`Launcher`]. To add one: a file here that implements it, its host-file template in
//! `templates/launch/`, and its line in `registry.rs`.

mod evidence;
mod files;
mod find;
mod install;
mod launch;
mod launcher;
mod mpich;
mod openmpi;
mod registry;
mod romio;
mod srun;
#[cfg(test)]
mod tests;

pub use evidence::{IoEvidence, Output, check_io};
pub use files::file_values;
pub use find::{find, find_with};
pub use install::{Missing, MpiInstall};
pub use launch::{Launch, LaunchRequest, SSH_WRAPPER, launch};
pub use launcher::{Ask, Features, Launcher};
pub use registry::launcher;
