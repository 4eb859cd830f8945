//! Slurm: pure parsers of its reports about nodes and jobs, and a client that runs its tools on this machine or over ssh.
//!
//! Slurm's answers never show that a job has done its work. A job with exit code 0 has ended, and its files show its results. A job that neither
//! controller nor accounting lists is unknown, not finished, because a controller that crashes forgets jobs.

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
pub use clock::SlurmClock;
pub use error::SlurmError;
pub use info::{
    AnswerError, JobExit, JobId, JobInfo, SACCT_COMPLETION_FORMAT, SACCT_FORMAT, SQUEUE_FORMAT,
    read_sacct, read_scontrol, read_squeue_json, read_squeue_text,
};
pub use job::JobRequest;

pub use nodes::{NodeInfo, SINFO_FORMAT, read_sinfo};
pub use reason::{
    NO_ANSWER, NOT_INSTALLED, PendingExplanation, explain, hint_for_refusal, is_transient,
};
pub use state::{End, JobStage, JobState, StateName};
