//! Job states: all of Slurm's names for them, and their meaning for a run.

use cvc_core::outcome::Cause;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// A name in a job's state. A job has one base state, and may also have flags.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum StateName {
            $($(#[$doc])* $name,)+
            /// A name that is not in this list.
            Other(String),
        }

        impl StateName {
            /// All names except [`StateName::Other`].
            pub const ALL: &[StateName] = &[$(StateName::$name),+];

            /// Returns the name in Slurm's spelling.
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
    /// The job is in the queue.
    Pending = "PENDING",
    /// The job has its nodes.
    Running = "RUNNING",
    /// The job has its nodes but is suspended by Slurm.
    Suspended = "SUSPENDED",
    /// The job ended with exit code 0.
    Completed = "COMPLETED",
    /// Cancelled by its user or an administrator.
    Cancelled = "CANCELLED",
    /// The job ended with another exit code.
    Failed = "FAILED",
    /// The job reached its time limit.
    Timeout = "TIMEOUT",
    /// One of its nodes failed.
    NodeFail = "NODE_FAIL",
    /// The job was preempted by another job.
    Preempted = "PREEMPTED",
    /// The job's nodes did not boot.
    BootFail = "BOOT_FAIL",
    /// The job's deadline passed.
    Deadline = "DEADLINE",
    /// The job exceeded its memory.
    OutOfMemory = "OUT_OF_MEMORY",
    /// Flag: the launch of the job failed.
    LaunchFailed = "LAUNCH_FAILED",
    /// Flag: the accounting is being notified.
    UpdateDb = "UPDATE_DB",
    /// Flag: the job returns to the queue.
    Requeued = "REQUEUED",
    /// Flag: the job returns to the queue and is held.
    RequeueHold = "REQUEUE_HOLD",
    /// Flag: the job returns to the queue and is held, because of its exit code.
    SpecialExit = "SPECIAL_EXIT",
    /// Flag: the number of the job's nodes is being changed.
    Resizing = "RESIZING",
    /// Flag: the job's nodes are being prepared.
    Configuring = "CONFIGURING",
    /// Flag: the job's processes are ending.
    Completing = "COMPLETING",
    /// Flag: the job has its nodes but received SIGSTOP.
    Stopped = "STOPPED",
    /// Flag: the job's nodes could not be prepared.
    ReconfigFail = "RECONFIG_FAIL",
    /// Flag: the job's nodes are being powered on.
    PowerUpNode = "POWER_UP_NODE",
    /// Flag: another cluster of the federation runs the job.
    Revoked = "REVOKED",
    /// Flag: the job returns to the queue of the federation.
    RequeueFed = "REQUEUE_FED",
    /// Flag: held because its reservation was removed.
    ResvDelHold = "RESV_DEL_HOLD",
    /// Flag: a signal is being sent to the job.
    Signaling = "SIGNALING",
    /// Flag: the job's files are being copied back.
    StageOut = "STAGE_OUT",
    /// Flag: the job was requeued with the highest priority.
    Expediting = "EXPEDITING",
}

/// Stage of a job, as it matters for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStage {
    /// The job has no nodes, or they are not ready.
    Waiting,
    /// The job has its nodes.
    Running,
    /// The job's processes are ending; its nodes are not free yet.
    Ending,
    /// The job has ended.
    Ended(End),
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With exit code 0. The files of the job show its results.
    Completed,
    /// With another exit code.
    Failed,
    /// The launch failed.
    LaunchFailed,
    /// The job was cancelled.
    Cancelled,
    /// The job was preempted, and did not return to the queue.
    Preempted,
    /// The job exceeded its time limit.
    Timeout,
    /// The job exceeded its memory.
    OutOfMemory,
    /// A node failed or did not boot.
    NodeFailed,
}

impl End {
    /// Returns the cause of failure for a run that was unfinished when its job ended; `None` if the job ended with exit code 0, so that the files of
    /// the run decide.
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

/// The state of a job: a base state and flags, in Slurm's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobState(Vec<StateName>);

impl JobState {
    /// Parses `RUNNING`, `CANCELLED by 1000`, `CANCELLED+`, or several names separated by commas or plus signs.
    pub fn read(text: &str) -> Self {
        let first = text.split(" by ").next().unwrap_or(text);
        Self::from_words(first.split([',', '+', ' ']).filter(|w| !w.is_empty()))
    }

    /// Creates a state from the names in a JSON list.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        Self(
            words
                .into_iter()
                .map(|w| StateName::read(w.trim()))
                .collect(),
        )
    }

    /// Returns the names of the state.
    pub fn words(&self) -> &[StateName] {
        &self.0
    }

    /// Returns whether the job is held: Slurm does not start it until somebody releases it.
    pub fn is_held(&self) -> bool {
        self.0.iter().any(|w| {
            matches!(
                w,
                StateName::RequeueHold | StateName::SpecialExit | StateName::ResvDelHold
            )
        })
    }

    /// Returns the stage of the job. Flags take precedence over the base state, because a requeued job has not ended.
    pub fn stage(&self) -> JobStage {
        let has = |words: &[StateName]| self.0.iter().any(|w| words.contains(w));
        if has(&[
            StateName::Requeued,
            StateName::RequeueHold,
            StateName::SpecialExit,
            StateName::RequeueFed,
            StateName::ResvDelHold,
            StateName::Expediting,
        ]) {
            return JobStage::Waiting;
        }
        if has(&[StateName::Completing, StateName::StageOut]) {
            return JobStage::Ending;
        }
        if has(&[StateName::Configuring, StateName::PowerUpNode]) {
            return JobStage::Waiting;
        }
        if has(&[StateName::Revoked]) {
            return JobStage::Ended(End::Cancelled);
        }
        if has(&[StateName::LaunchFailed, StateName::ReconfigFail]) {
            return JobStage::Ended(End::LaunchFailed);
        }
        for word in &self.0 {
            return match word {
                StateName::Pending => JobStage::Waiting,
                StateName::Running
                | StateName::Suspended
                | StateName::Resizing
                | StateName::Stopped
                | StateName::Signaling => JobStage::Running,
                StateName::Completed => JobStage::Ended(End::Completed),
                StateName::Cancelled => JobStage::Ended(End::Cancelled),
                StateName::Failed => JobStage::Ended(End::Failed),
                StateName::Timeout | StateName::Deadline => JobStage::Ended(End::Timeout),
                StateName::NodeFail | StateName::BootFail => JobStage::Ended(End::NodeFailed),
                StateName::Preempted => JobStage::Ended(End::Preempted),
                StateName::OutOfMemory => JobStage::Ended(End::OutOfMemory),
                // flags that were handled above, or that do not determine the stage
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
        // all names are unknown: wait until the job's state is known or the job has disappeared
        JobStage::Waiting
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
            ("NODE_FAIL,REQUEUED", JobStage::Waiting),
            ("CANCELLED+COMPLETING", JobStage::Ending),
            ("RUNNING CONFIGURING", JobStage::Waiting),
            ("PENDING,SPECIAL_EXIT", JobStage::Waiting),
            ("CANCELLED by 1000", JobStage::Ended(End::Cancelled)),
            ("CANCELLED+", JobStage::Ended(End::Cancelled)),
            ("TIMEOUT,UPDATE_DB", JobStage::Ended(End::Timeout)),
            ("NEW_WORD,RUNNING", JobStage::Running),
            ("NEW_WORD", JobStage::Waiting),
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
