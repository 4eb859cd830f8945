//! Slurm: pure readers of what it reports about nodes and jobs, and a client that runs its tools on this machine or over ssh.
//!
//! No part of it concludes from Slurm that a job did its work: a job with exit code 0 has ended, and its files tell what it did. A job that
//! neither controller nor accounting knows is unknown, not finished: a controller that crashes forgets jobs.

mod client;
mod clock;
mod error;
mod info;
mod job;
mod nodes;
mod reason;
mod shared;
mod state;

pub use client::{Client, JobLookup};
pub use clock::Clock;
pub use error::SlurmError;
pub use info::{
    AnswerError, Exit, JobId, JobInfo, SACCT_COMPLETION_FORMAT, SACCT_FORMAT, SQUEUE_FORMAT,
    read_sacct, read_scontrol, read_squeue_json, read_squeue_text,
};
pub use job::JobRequest;

pub use nodes::{NodeInfo, SINFO_FORMAT, read_sinfo};
pub use reason::{Explanation, explain, hint_for_refusal, is_transient};
pub use state::{End, JobState, Stage, StateName};
