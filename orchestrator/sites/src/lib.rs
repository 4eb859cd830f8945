//! Sites of several machines, used from the user's machine: hosts reached over ssh, Slurm jobs, the agents on hosts and in jobs, and the installation
//! of software. This crate does not depend on the provider of the machines.

pub mod backoff;
pub mod error;
pub mod install;
pub mod inventory;
pub mod progress;
pub mod provider_error;
pub mod remote;
pub mod slurm;
pub mod ssh;
