//! Errors of Slurm.

use super::{info::AnswerError, state::End};
use cvc_engine::{host::HostError, render::RenderError};

/// A failed Slurm command, or an answer that cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// The machine on which Slurm's tools run failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The job's script cannot be written.
    #[error("cannot write the job's script: {0}")]
    Request(String),
    /// The template of the script cannot be filled in.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// sbatch refused the job.
    #[error("{host}: sbatch refused the job {job}: {message}; {hint}")]
    Refused {
        /// Host on which sbatch ran.
        host: String,
        /// Name of the job.
        job: String,
        /// The message of sbatch.
        message: String,
        /// What the user can do.
        hint: &'static str,
    },
    /// A Slurm tool failed.
    #[error("{host}: {tool} failed: {message}; {hint}")]
    Tool {
        /// Host on which the tool ran.
        host: String,
        /// Name of the tool.
        tool: String,
        /// Error output of the tool.
        message: String,
        /// What the user can do.
        hint: &'static str,
    },
    /// The controller does not answer.
    #[error(
        "{host}: Slurm's controller did not answer {tool} for {waited_s:.0} s: {message}; run `scontrol ping` there"
    )]
    Unreachable {
        /// Host on which the tool ran.
        host: String,
        /// Name of the tool.
        tool: String,
        /// Last lines of the tool's output.
        message: String,
        /// Time spent trying, seconds.
        waited_s: f64,
    },
    /// The answer of a tool cannot be parsed.
    #[error("{host}: cannot read the answer of {tool}: {problem}")]
    Answer {
        /// Host on which the tool ran.
        host: String,
        /// Name of the tool.
        tool: String,
        /// The problem.
        problem: AnswerError,
    },
    /// A job waited for too long.
    #[error("job {job} ({name}) got no nodes within {limit_s:.0} s: {why}")]
    Queue {
        /// Number of the job.
        job: String,
        /// Name of the job.
        name: String,
        /// Limit of the waiting time, seconds.
        limit_s: f64,
        /// Why the job waits, and what the user can do.
        why: String,
    },
    /// A job ended while it still waited for its nodes.
    #[error("job {job} ({name}) ended before it ran: {state}{why}")]
    Ended {
        /// Number of the job.
        job: String,
        /// Name of the job.
        name: String,
        /// Last state of the job.
        state: String,
        /// How the job ended.
        end: End,
        /// Reason of the end, if known.
        why: String,
    },
    /// A submitted job is unknown to Slurm.
    #[error(
        "Slurm no longer knows job {0}: neither its controller nor its accounting lists it; see the job's files"
    )]
    Unknown(String),
    /// A cancelled job has not ended within the time limit.
    #[error(
        "job {name} was cancelled and is still {state} after {limit_s:.0} s; see `scontrol show job` and the state of its nodes"
    )]
    StillThere {
        /// Name of the job.
        name: String,
        /// State of the job.
        state: String,
        /// Time limit, seconds.
        limit_s: f64,
    },
}

impl SlurmError {
    /// Returns the cause of failure for a run in this job.
    pub fn run_cause(&self) -> cvc_core::outcome::Cause {
        use cvc_core::outcome::Cause;
        match self {
            Self::Ended { end, .. } => end.cause().unwrap_or(Cause::Launch),
            Self::Queue { .. } => Cause::Timeout,
            _ => Cause::Launch,
        }
    }
}
