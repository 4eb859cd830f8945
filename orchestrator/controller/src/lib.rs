//! Everything that runs on the user's machine: ssh, Slurm, clouds and their costs, installation, the doctor, and the runner of campaigns.

pub mod backoff;
pub mod cloud;
pub mod cost;
pub mod doctor;
pub mod error;
pub mod install;
pub mod observe;
pub mod progress;
pub mod provider;
pub mod remote;
pub mod runner;
pub mod slurm;
pub mod ssh;
