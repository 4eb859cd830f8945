//! Reasons why an instance, and its node, can no longer be used.

use std::fmt;

/// The reason why an instance is lost.
#[derive(Clone, Debug, PartialEq)]
pub enum LossReason {
    /// The spot market has reclaimed the instance, or has given notice that it will.
    Reclaimed,
    /// The instance was stopped or terminated from outside.
    Ended {
        /// The instance.
        instance: String,
        /// Whether the instance was stopped; otherwise it was terminated.
        stopped: bool,
        /// The cloud's reason, if it gives one.
        why: Option<String>,
    },
    /// The cloud does not show the instance any more.
    Vanished {
        /// The instance.
        instance: String,
    },
    /// The instance ended before it was ready; with the cloud's reason, if there is one.
    EndedEarly(Option<String>),
    /// The instance was not in the state `running` within the time limit.
    NotRunning {
        /// The limit, seconds.
        limit_s: f64,
    },
    /// ssh rejects the login.
    NoLogin(String),
    /// The cloud's status checks of the instance fail, with this message.
    Impaired(String),
    /// The node of the instance sends no heartbeats to the agent.
    Silent(String),
}

impl LossReason {
    /// Returns whether the spot market reclaimed the instance.
    pub fn is_reclaim(&self) -> bool {
        matches!(self, Self::Reclaimed)
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reclaimed => write!(f, "the cloud reclaimed it (spot interruption)"),
            Self::Ended {
                instance,
                stopped,
                why,
            } => {
                let how = if *stopped { "stopped" } else { "terminated" };
                write!(
                    f,
                    "the instance {instance} was {how}: {}",
                    why.as_deref().unwrap_or("the cloud gives no reason")
                )
            }
            Self::Vanished { instance } => write!(f, "the instance {instance} no longer exists"),
            Self::EndedEarly(why) => write!(
                f,
                "{}",
                why.as_deref().unwrap_or("it ended before it was ready")
            ),
            Self::NotRunning { limit_s } => write!(f, "it was not running after {limit_s:.0} s"),
            Self::Impaired(why) => write!(f, "its status checks fail: {why}"),
            Self::NoLogin(why) | Self::Silent(why) => write!(f, "{why}"),
        }
    }
}
