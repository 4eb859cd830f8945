//! MPI libraries: where they are, how they start ranks, their I/O settings, and whether these settings took effect.
//!
//! All differences between families are behind [`Launcher`]. To add a family: a file here that implements it, its host-file template in
//! `templates/launch/`, and its line in `cvc_core::registry`.

mod evidence;
mod files;
mod find;
mod io_evidence;
mod launch;
mod launcher;
mod linked;
mod missing;
mod mpich;
mod openmpi;
mod registry;
mod romio;
mod srun;
mod start;
#[cfg(test)]
mod tests;

pub use evidence::check_io;
pub use files::file_values;
pub use find::{find, find_files, find_with, is_named};
pub use io_evidence::{IoEvidence, LaunchOutput};
pub use launch::{Launch, LaunchRequest, SSH_WRAPPER, THREAD_VARIABLES};
pub use launcher::{Ask, Features, Launcher, MpiInstall};
pub use linked::{LinkedMpi, linked_mpi, needed};
pub use missing::Missing;
pub use registry::launcher;
pub use start::launch;
