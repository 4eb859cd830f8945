//! Who is in a crew.

/// A node and how its sentinel is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name: in messages and answers.
    pub name: String,
    /// Program and arguments that start its sentinel and carry its standard input and output, such as `ssh -o … n2 /opt/cvc/cvc-node
    /// sentinel`. `None`: this process answers by itself.
    pub argv: Option<Vec<String>>,
}

/// Times of a crew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Between beats of a sentinel, and between pings to it, seconds.
    pub beat_s: f64,
    /// A member of which nothing was heard for so long is lost; a sentinel that heard nothing for so long ends what it guards. Seconds. A
    /// link that was cut is only sure to be heard again in time if the cut was shorter than half of it, since TCP waits longer and longer
    /// between tries.
    pub lost_after_s: f64,
    /// How long a sentinel may take from its start to its first word, seconds.
    pub start_limit_s: f64,
    /// How long sentinels may take to end what they guard when the crew is closed, before their lines are cut, seconds.
    pub close_limit_s: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { beat_s: 1.0, lost_after_s: 20.0, start_limit_s: 30.0, close_limit_s: 20.0 }
    }
}
