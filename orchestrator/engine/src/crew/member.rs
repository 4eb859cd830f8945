//! The members of a crew.

/// A node, and how its sentinel is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name of the node, for messages and answers.
    pub name: String,
    /// Program and arguments that start the node's sentinel and connect its standard input and output, for example `ssh -o … n2 /opt/cvc/cvc-node
    /// sentinel`. `None`: this process itself acts as the sentinel.
    pub argv: Option<Vec<String>>,
}

/// Time settings of a crew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrewSettings {
    /// Interval between a sentinel's heartbeats, and between heartbeats sent to it, seconds.
    pub beat_s: f64,
    /// Time without a message after which a member counts as lost, and after which a sentinel ends the processes that it guards, seconds. An
    /// interruption of the network is survived only if it is shorter than half of this time, because TCP retries at growing intervals.
    pub lost_after_s: f64,
    /// Time limit from a sentinel's start to its first message, seconds.
    pub start_limit_s: f64,
    /// Time limit, when the crew is closed, for sentinels to end the processes that they guard; then their connections are cut, seconds.
    pub close_limit_s: f64,
}

impl Default for CrewSettings {
    fn default() -> Self {
        Self {
            beat_s: 1.0,
            lost_after_s: 20.0,
            start_limit_s: 30.0,
            close_limit_s: 20.0,
        }
    }
}
