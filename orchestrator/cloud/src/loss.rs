//! Reasons why an instance, and its node, can no longer be used.

use std::fmt;

/// Reason why an instance is lost.
#[derive(Clone, Debug, PartialEq)]
pub enum LossReason {
    /// The spot market took it back, or is about to.
    Reclaimed,
    /// It was stopped or terminated by somebody else.
    Ended {
        /// Which instance.
        instance: String,
        /// Whether it was only stopped.
        stopped: bool,
        /// The reason that the cloud gives.
        why: Option<String>,
    },
    /// The cloud does not show it any more.
    Vanished {
        /// Which instance.
        instance: String,
    },
    /// It ended before it was ready, and what the cloud says.
    EndedEarly(Option<String>),
    /// It was not running in time.
    NotRunning {
        /// The limit, seconds.
        limit_s: f64,
    },
    /// ssh rejects cvc.
    NoLogin(String),
    /// The cloud's own checks fail.
    Impaired(String),
    /// The agent no longer hears from its node.
    Silent(String),
}

impl LossReason {
    /// Whether the spot market reclaimed it.
    pub fn is_reclaim(&self) -> bool {
        matches!(self, Self::Reclaimed)
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reclaimed => write!(f, "the cloud took it back (spot interruption)"),
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
