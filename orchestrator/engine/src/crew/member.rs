//! The members of a crew.

/// A node and how its sentinel is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name, for messages and answers.
    pub name: String,
    /// Program and arguments that start its sentinel and carry its standard input and output, such as `ssh -o … n2 /opt/cvc/cvc-node
    /// sentinel`. `None`: this process answers by itself.
    pub argv: Option<Vec<String>>,
}

/// Times of a crew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Interval between heartbeats of a sentinel, and between pings to it, seconds.
    pub beat_s: f64,
    /// Silence after which a member is lost, and after which a sentinel ends what it guards, seconds. An interrupted network is only
    /// noticed to be back in time if the interruption was shorter than half of this, because TCP retries at growing intervals.
    pub lost_after_s: f64,
    /// Time limit from a sentinel's start to its hello, seconds.
    pub start_limit_s: f64,
    /// Time limit for sentinels to end what they guard when the crew is closed, before their connections are cut, seconds.
    pub close_limit_s: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            beat_s: 1.0,
            lost_after_s: 20.0,
            start_limit_s: 30.0,
            close_limit_s: 20.0,
        }
    }
}
