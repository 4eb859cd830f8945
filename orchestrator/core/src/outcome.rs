//! Outcomes of runs, and the causes of failures.

use serde::{Deserialize, Serialize};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Outcome {
    /// The run succeeded, by evidence: the application's own verification, the files, and the settings that took effect.
    Succeeded,
    /// The run failed.
    Failed {
        /// Cause of the failure.
        cause: Cause,
        /// What was observed, and how to fix it.
        detail: String,
    },
}

/// Why a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The launcher could not start the program.
    Launch,
    /// The program ended with an error, or failed its own verification.
    Application,
    /// A checkpoint was not taken, or is incomplete.
    Checkpoint,
    /// The checkpoint could not be restarted, or the restarted program failed its verification.
    Restart,
    /// An MPI-IO setting had no effect.
    SettingIgnored,
    /// A signal that cvc did not send ended the run. Earlier versions recorded this as [`Self::Application`] or [`Self::NodeLost`].
    EndedFromOutside,
    /// A node was lost.
    NodeLost,
    /// The launcher did not place ranks on nodes as the mapping says.
    Misplaced,
    /// The run exceeded its time limit.
    Timeout,
    /// The run's Slurm job was cancelled from outside cvc.
    Cancelled,
    /// The run's Slurm job was preempted.
    Preempted,
    /// The cloud reclaimed a node.
    Reclaimed,
    /// The run used more memory than its node or its job has.
    OutOfMemory,
    /// A disk was full.
    DiskFull,
    /// The run wrote more to its standard output and error than is allowed.
    Output,
    /// The budget was used up.
    Budget,
    /// cvc could not write or read its own files.
    Store,
}

impl Cause {
    /// Returns whether the program itself failed, as it may on every attempt. Otherwise the cause is a machine or the budget, which may be different
    /// for the next run.
    pub const fn is_of_program(self) -> bool {
        match self {
            Self::Launch
            | Self::Application
            | Self::Checkpoint
            | Self::Restart
            | Self::SettingIgnored
            | Self::Misplaced
            | Self::Timeout
            | Self::OutOfMemory
            | Self::Output => true,
            Self::EndedFromOutside
            | Self::NodeLost
            | Self::Cancelled
            | Self::Preempted
            | Self::Reclaimed
            | Self::DiskFull
            | Self::Budget
            | Self::Store => false,
        }
    }
}

impl Outcome {
    /// Returns whether the outcome is a failure of the program itself.
    pub const fn is_failure_of_program(&self) -> bool {
        match self {
            Self::Succeeded => false,
            Self::Failed { cause, .. } => cause.is_of_program(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause, Outcome};

    #[test]
    fn machines_that_fail_are_no_failure_of_the_program() {
        let failed = |cause| Outcome::Failed {
            cause,
            detail: String::new(),
        };
        assert!(failed(Cause::Application).is_failure_of_program());
        for outcome in [
            Outcome::Succeeded,
            failed(Cause::NodeLost),
            failed(Cause::DiskFull),
            failed(Cause::Budget),
        ] {
            assert!(!outcome.is_failure_of_program(), "{outcome:?}");
        }
    }
}
