//! Sites of several machines, seen from the user's machine: hosts reached over ssh, Slurm's jobs, the agents on them, and the installation of
//! software. Nothing here knows who rents the machines.

pub mod backoff;
pub mod error;
pub mod install;
pub mod inventory;
pub mod progress;
pub mod provider_error;
pub mod remote;
pub mod slurm;
pub mod ssh;
