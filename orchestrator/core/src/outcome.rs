//! Outcomes of runs, and causes of failures.

use serde::{Deserialize, Serialize};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum Outcome {
    /// By evidence: the application's own verification, the files, the settings that took effect.
    Succeeded,
    /// With its cause.
    Failed {
        /// Which kind.
        cause: Cause,
        /// What was seen, and how to fix it.
        detail: String,
    },
}

/// Why a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The launcher could not start the program.
    Launch,
    /// The program ended badly or failed its own verification.
    Application,
    /// A checkpoint was not taken, or not completely.
    Checkpoint,
    /// The checkpoint could not be restarted, or the restarted program failed its verification.
    Restart,
    /// An MPI-IO setting had no effect.
    SettingIgnored,
    /// Something outside cvc has ended it: a signal that cvc did not send. Earlier versions called it [`Self::Application`] or [`Self::NodeLost`].
    EndedFromOutside,
    /// A node was lost.
    NodeLost,
    /// The launcher put ranks on other nodes than the mapping says.
    Misplaced,
    /// It exceeded its time limit.
    Timeout,
    /// Its Slurm job was cancelled by somebody other than cvc.
    Cancelled,
    /// Its Slurm job was preempted.
    Preempted,
    /// The cloud reclaimed a node.
    Reclaimed,
    /// It used more memory than its node or its job has.
    OutOfMemory,
    /// No space left.
    DiskFull,
    /// It wrote more to its standard output and error than it may.
    Output,
    /// The budget was used up.
    Budget,
    /// cvc could not write or read something of its own.
    Store,
}
