//! What can go wrong with Slurm.

use super::{info::AnswerError, state::End};
use cvc_engine::{host::HostError, render::RenderError};

/// Something that Slurm does not do, or does not say.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// The machine on which Slurm is asked.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The job's script cannot be made.
    #[error("the job cannot be written down: {0}")]
    Request(String),
    /// Its template cannot be filled in.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// sbatch refuses the job.
    #[error("{host}: sbatch refuses the job {job}: {said}; {hint}")]
    Refused {
        /// Where it was submitted.
        host: String,
        /// Its name.
        job: String,
        /// What sbatch wrote.
        said: String,
        /// What to do.
        hint: &'static str,
    },
    /// A tool failed.
    #[error("{host}: {tool} failed: {said}")]
    Tool {
        /// Where.
        host: String,
        /// Which.
        tool: String,
        /// What it wrote.
        said: String,
    },
    /// The controller does not answer.
    #[error("{host}: Slurm's controller did not answer {tool} for {waited_s:.0} s: {said}; see `scontrol ping` there")]
    Unreachable {
        /// Where.
        host: String,
        /// Which tool asked.
        tool: String,
        /// What it wrote last.
        said: String,
        /// How long it was tried, seconds.
        waited_s: f64,
    },
    /// An answer that cannot be read.
    #[error("{host}: the answer of {tool} cannot be understood: {problem}")]
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
    /// A job ended before it was of use.
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
    /// Nobody knows of a job that was submitted.
    #[error("job {0} is not known to Slurm any more: neither its controller nor its accounting has it; its files tell what became of it")]
    Unknown(String),
    /// A job that was cancelled is still there.
    #[error("job {name} was cancelled and is still {state} after {limit_s:.0} s; see `scontrol show job` and the state of its nodes")]
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
    /// What this is for a run whose job it was.
    pub fn run_cause(&self) -> cvc_core::outcome::Cause {
        use cvc_core::outcome::Cause;
        match self {
            Self::Ended { end, .. } => end.cause().unwrap_or(Cause::Launch),
            Self::Queue { .. } => Cause::Timeout,
            _ => Cause::Launch,
        }
    }
}
