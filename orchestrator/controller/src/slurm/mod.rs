//! Slurm: what it says of nodes and jobs (pure readers), and a client that asks it, on this machine or over ssh.
//!
//! Nothing of it believes that a job did its work because Slurm says so: a job that ended with code 0 has ended, and what it did is told by
//! its files. A job that neither knows is unknown, not finished: a controller forgets jobs when it crashes.

mod client;
mod clock;
mod error;
mod info;
mod job;
mod nodes;
mod reason;
mod state;

pub use client::{Client, Found};
pub use clock::Clock;
pub use error::SlurmError;
pub use info::{
    AnswerError, Exit, JobId, JobInfo, SACCT_COMPLETION_FORMAT, SACCT_FORMAT, SQUEUE_FORMAT, read_sacct, read_scontrol, read_squeue_json,
    read_squeue_text,
};
pub use job::JobRequest;

pub use nodes::{NodeInfo, SINFO_FORMAT, read_sinfo};
pub use reason::{Explanation, explain, hint_for_refusal, is_transient};
pub use state::{End, JobState, Stage, Word};
