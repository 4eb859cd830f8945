//! Job states: every name that Slurm has for them, and what they mean for a run.

use cvc_core::outcome::Cause;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// One name in a job's state. A job has a base state, and may also have flags.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum StateName {
            $($(#[$doc])* $name,)+
            /// A name that is not in this list.
            Other(String),
        }

        impl StateName {
            /// All names except [`StateName::Other`].
            pub const ALL: &[StateName] = &[$(StateName::$name),+];

            /// As Slurm writes it.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $word,)+
                    Self::Other(word) => word,
                }
            }

            fn read(word: &str) -> Self {
                match word {
                    $($word => Self::$name,)+
                    other => Self::Other(other.to_owned()),
                }
            }
        }
    };
}

words! {
    /// In the queue.
    Pending = "PENDING",
    /// Has its nodes.
    Running = "RUNNING",
    /// Has its nodes and is stopped by Slurm.
    Suspended = "SUSPENDED",
    /// Ended with code 0.
    Completed = "COMPLETED",
    /// Cancelled by its user or an administrator.
    Cancelled = "CANCELLED",
    /// Ended with another code.
    Failed = "FAILED",
    /// Its time limit was reached.
    Timeout = "TIMEOUT",
    /// One of its nodes failed.
    NodeFail = "NODE_FAIL",
    /// Gave way to another job.
    Preempted = "PREEMPTED",
    /// Its nodes did not start.
    BootFail = "BOOT_FAIL",
    /// Its deadline passed.
    Deadline = "DEADLINE",
    /// It used more memory than it has.
    OutOfMemory = "OUT_OF_MEMORY",
    /// Flag: its launch failed.
    LaunchFailed = "LAUNCH_FAILED",
    /// Flag: the accounting is being notified.
    UpdateDb = "UPDATE_DB",
    /// Flag: goes back into the queue.
    Requeued = "REQUEUED",
    /// Flag: goes back into the queue, held.
    RequeueHold = "REQUEUE_HOLD",
    /// Flag: goes back into the queue, held, because its code says so.
    SpecialExit = "SPECIAL_EXIT",
    /// Flag: its number of nodes is being changed.
    Resizing = "RESIZING",
    /// Flag: its nodes are being made ready.
    Configuring = "CONFIGURING",
    /// Flag: its processes are ending.
    Completing = "COMPLETING",
    /// Flag: it has its nodes and was sent SIGSTOP.
    Stopped = "STOPPED",
    /// Flag: its nodes could not be made ready.
    ReconfigFail = "RECONFIG_FAIL",
    /// Flag: its nodes are being switched on.
    PowerUpNode = "POWER_UP_NODE",
    /// Flag: another cluster of the federation runs it.
    Revoked = "REVOKED",
    /// Flag: goes back into the queue of the federation.
    RequeueFed = "REQUEUE_FED",
    /// Flag: held because its reservation was removed.
    ResvDelHold = "RESV_DEL_HOLD",
    /// Flag: a signal is on its way to it.
    Signaling = "SIGNALING",
    /// Flag: files are being copied back.
    StageOut = "STAGE_OUT",
    /// Flag: requeued, and goes before all others.
    Expediting = "EXPEDITING",
}

/// What a job's state means for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has no nodes, or they are not ready.
    Waiting,
    /// It has its nodes.
    Running,
    /// Its processes are ending, its nodes not free yet.
    Ending,
    /// It is over.
    Ended(End),
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With code 0. What it did is told by evidence.
    Completed,
    /// With another code.
    Failed,
    /// Its launch failed.
    LaunchFailed,
    /// Cancelled.
    Cancelled,
    /// Preempted, and not put back into the queue.
    Preempted,
    /// Over its time.
    Timeout,
    /// Over its memory.
    OutOfMemory,
    /// A node failed, or did not start.
    NodeFailed,
}

impl End {
    /// The cause of a run that was unfinished when its job ended; `None` where the run's own evidence decides.
    pub fn cause(self) -> Option<Cause> {
        match self {
            Self::Completed => None,
            Self::Failed => Some(Cause::Application),
            Self::LaunchFailed => Some(Cause::Launch),
            Self::Cancelled => Some(Cause::Cancelled),
            Self::Preempted => Some(Cause::Preempted),
            Self::Timeout => Some(Cause::Timeout),
            Self::OutOfMemory => Some(Cause::OutOfMemory),
            Self::NodeFailed => Some(Cause::NodeLost),
        }
    }
}

/// The state of a job: a base state and flags, in the order of Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobState(Vec<StateName>);

impl JobState {
    /// Reads `RUNNING`, `CANCELLED by 1000`, `CANCELLED+`, or several words with commas or plus signs between them.
    pub fn read(text: &str) -> Self {
        let first = text.split(" by ").next().unwrap_or(text);
        Self::from_words(first.split([',', '+', ' ']).filter(|w| !w.is_empty()))
    }

    /// From the names in a JSON list.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        Self(
            words
                .into_iter()
                .map(|w| StateName::read(w.trim()))
                .collect(),
        )
    }

    /// Its names.
    pub fn words(&self) -> &[StateName] {
        &self.0
    }

    /// Whether it is on hold until somebody releases it.
    pub fn is_held(&self) -> bool {
        self.0.iter().any(|w| {
            matches!(
                w,
                StateName::RequeueHold | StateName::SpecialExit | StateName::ResvDelHold
            )
        })
    }

    /// The stage of the job. Flags take precedence over the base state: a job that is requeued has not ended.
    pub fn stage(&self) -> Stage {
        let has = |words: &[StateName]| self.0.iter().any(|w| words.contains(w));
        if has(&[
            StateName::Requeued,
            StateName::RequeueHold,
            StateName::SpecialExit,
            StateName::RequeueFed,
            StateName::ResvDelHold,
            StateName::Expediting,
        ]) {
            return Stage::Waiting;
        }
        if has(&[StateName::Completing, StateName::StageOut]) {
            return Stage::Ending;
        }
        if has(&[StateName::Configuring, StateName::PowerUpNode]) {
            return Stage::Waiting;
        }
        if has(&[StateName::Revoked]) {
            return Stage::Ended(End::Cancelled);
        }
        if has(&[StateName::LaunchFailed, StateName::ReconfigFail]) {
            return Stage::Ended(End::LaunchFailed);
        }
        for word in &self.0 {
            return match word {
                StateName::Pending => Stage::Waiting,
                StateName::Running
                | StateName::Suspended
                | StateName::Resizing
                | StateName::Stopped
                | StateName::Signaling => Stage::Running,
                StateName::Completed => Stage::Ended(End::Completed),
                StateName::Cancelled => Stage::Ended(End::Cancelled),
                StateName::Failed => Stage::Ended(End::Failed),
                StateName::Timeout | StateName::Deadline => Stage::Ended(End::Timeout),
                StateName::NodeFail | StateName::BootFail => Stage::Ended(End::NodeFailed),
                StateName::Preempted => Stage::Ended(End::Preempted),
                StateName::OutOfMemory => Stage::Ended(End::OutOfMemory),
                // handled above, or without information about the stage
                StateName::LaunchFailed
                | StateName::UpdateDb
                | StateName::Requeued
                | StateName::RequeueHold
                | StateName::SpecialExit
                | StateName::Configuring
                | StateName::Completing
                | StateName::ReconfigFail
                | StateName::PowerUpNode
                | StateName::Revoked
                | StateName::RequeueFed
                | StateName::ResvDelHold
                | StateName::StageOut
                | StateName::Expediting
                | StateName::Other(_) => continue,
            };
        }
        // only unknown names: ask again until the job's state is known or the job is gone
        Stage::Waiting
    }
}

impl std::fmt::Display for JobState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, word) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "," }, word.as_str())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back_and_means_something() {
        let table: Vec<String> = StateName::ALL
            .iter()
            .map(|word| {
                assert_eq!(StateName::read(word.as_str()), *word);
                format!(
                    "{:<14} {:?}",
                    word.as_str(),
                    JobState::read(word.as_str()).stage()
                )
            })
            .collect();
        insta::assert_snapshot!(table.join("\n"));
    }

    #[test]
    fn flags_count_before_the_base_state() {
        for (text, stage) in [
            ("NODE_FAIL,REQUEUED", Stage::Waiting),
            ("CANCELLED+COMPLETING", Stage::Ending),
            ("RUNNING CONFIGURING", Stage::Waiting),
            ("PENDING,SPECIAL_EXIT", Stage::Waiting),
            ("CANCELLED by 1000", Stage::Ended(End::Cancelled)),
            ("CANCELLED+", Stage::Ended(End::Cancelled)),
            ("TIMEOUT,UPDATE_DB", Stage::Ended(End::Timeout)),
            ("NEW_WORD,RUNNING", Stage::Running),
            ("NEW_WORD", Stage::Waiting),
        ] {
            assert_eq!(JobState::read(text).stage(), stage, "{text}");
        }
        assert_eq!(
            JobState::read("NEW_WORD").words(),
            [StateName::Other("NEW_WORD".into())]
        );
        assert!(JobState::read("PENDING,REQUEUE_HOLD").is_held());
    }
}
