//! Why an instance, and the node that it was, cannot be used any more.

use std::fmt;

/// Why an instance is lost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LossReason {
    /// The spot market took it back, or is about to.
    Reclaimed,
    /// It was stopped or terminated by somebody else.
    Ended {
        /// Which instance.
        instance: String,
        /// Whether it was only stopped.
        stopped: bool,
        /// What the cloud says.
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
    /// ssh does not let cvc in.
    NoLogin(String),
    /// The cloud's own checks fail.
    Impaired(String),
    /// The agent does not hear of its node any more.
    Silent(String),
}

impl LossReason {
    /// Whether the spot market took it.
    pub(crate) fn is_reclaim(&self) -> bool {
        matches!(self, Self::Reclaimed)
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reclaimed => write!(f, "the cloud took it back (spot interruption)"),
            Self::Ended { instance, stopped, why } => {
                let how = if *stopped { "stopped" } else { "terminated" };
                write!(f, "the instance {instance} was {how}: {}", why.as_deref().unwrap_or("the cloud gives no reason"))
            }
            Self::Vanished { instance } => write!(f, "the instance {instance} is not there any more"),
            Self::EndedEarly(why) => write!(f, "{}", why.as_deref().unwrap_or("it ended while it was waited for")),
            Self::NotRunning { limit_s } => write!(f, "it was not running after {limit_s:.0} s"),
            Self::Impaired(why) => write!(f, "its status checks fail: {why}"),
            Self::NoLogin(why) | Self::Silent(why) => write!(f, "{why}"),
        }
    }
}
