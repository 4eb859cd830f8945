//! Errors of Slurm.

use super::{info::AnswerError, state::End};
use cvc_engine::{host::HostError, render::RenderError};

/// A failure of Slurm, or an answer that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// The machine on which Slurm is asked.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The job's script cannot be made.
    #[error("cannot write the job's script: {0}")]
    Request(String),
    /// Its template cannot be filled in.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// sbatch refuses the job.
    #[error("{host}: sbatch refused the job {job}: {message}; {hint}")]
    Refused {
        /// Where it was submitted.
        host: String,
        /// Its name.
        job: String,
        /// What sbatch wrote.
        message: String,
        /// What to do.
        hint: &'static str,
    },
    /// A tool failed.
    #[error("{host}: {tool} failed: {message}")]
    Tool {
        /// Where.
        host: String,
        /// Which.
        tool: String,
        /// What it wrote.
        message: String,
    },
    /// The controller does not answer.
    #[error(
        "{host}: Slurm's controller did not answer {tool} for {waited_s:.0} s: {message}; see `scontrol ping` there"
    )]
    Unreachable {
        /// Where.
        host: String,
        /// Which tool asked.
        tool: String,
        /// What it wrote last.
        message: String,
        /// Time spent trying, seconds.
        waited_s: f64,
    },
    /// An answer that cannot be read.
    #[error("{host}: cannot read the answer of {tool}: {problem}")]
    Answer {
        /// Where.
        host: String,
        /// Which tool.
        tool: String,
        /// What is wrong with it.
        problem: AnswerError,
    },
    /// A job waited for too long.
    #[error("job {job} ({name}) got no nodes within {limit_s:.0} s: {why}")]
    Queue {
        /// Its number.
        job: String,
        /// Its name.
        name: String,
        /// The limit, seconds.
        limit_s: f64,
        /// Why it waits, and what to do.
        why: String,
    },
    /// A job ended before it ran.
    #[error("job {job} ({name}) ended before it ran: {state}{why}")]
    Ended {
        /// Its number.
        job: String,
        /// Its name.
        name: String,
        /// Its state.
        state: String,
        /// How it ended.
        end: End,
        /// What is known of it.
        why: String,
    },
    /// A submitted job is unknown to Slurm.
    #[error(
        "Slurm no longer knows job {0}: neither its controller nor its accounting lists it; see the job's files"
    )]
    Unknown(String),
    /// A job that was cancelled is still there.
    #[error(
        "job {name} was cancelled and is still {state} after {limit_s:.0} s; see `scontrol show job` and the state of its nodes"
    )]
    StillThere {
        /// Its name.
        name: String,
        /// Its state.
        state: String,
        /// The limit, seconds.
        limit_s: f64,
    },
}

impl SlurmError {
    /// The cause for a run in this job.
    pub fn run_cause(&self) -> cvc_core::outcome::Cause {
        use cvc_core::outcome::Cause;
        match self {
            Self::Ended { end, .. } => end.cause().unwrap_or(Cause::Launch),
            Self::Queue { .. } => Cause::Timeout,
            _ => Cause::Launch,
        }
    }
}
