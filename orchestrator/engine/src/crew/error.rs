//! Errors of a crew of sentinels.

use std::fmt::Write;

/// A node did not do the requested work. Exit code 4.
#[derive(Debug, thiserror::Error)]
pub enum CrewError {
    /// Some sentinels could not be started.
    #[error("{}", started(.0))]
    Start(Vec<NotStarted>),
    /// A node is lost.
    #[error("{host}: the node is lost: {reason}")]
    Lost {
        /// The host.
        host: String,
        /// How the loss was detected.
        reason: String,
    },
    /// The node did not answer in time, but may still be working on the request.
    #[error("{host}: `{request}` was not answered within {limit_s} s")]
    Timeout {
        /// The host.
        host: String,
        /// The request.
        request: &'static str,
        /// Time limit, seconds.
        limit_s: f64,
    },
    /// The node could not carry out the request.
    #[error("{host}: {problem}")]
    Refused {
        /// The host.
        host: String,
        /// The request.
        request: &'static str,
        /// The sentinel's message.
        problem: String,
    },
    /// The node answered a different request.
    #[error("{host}: `{request}` was answered with `{answer}`: cvc has a different version there")]
    Unexpected {
        /// The host.
        host: String,
        /// The request.
        request: &'static str,
        /// Kind of the answer.
        answer: &'static str,
    },
    /// The host is not a member of the crew.
    #[error("{host}: not one of the nodes in use")]
    Unknown {
        /// The host.
        host: String,
    },
}

/// A sentinel that could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStarted {
    /// The host.
    pub host: String,
    /// Program and arguments that should have started the sentinel.
    pub argv: Vec<String>,
    /// The problem.
    pub problem: String,
    /// The end of standard error, and of standard output before the sentinel's first message.
    pub message: String,
}

/// Messages of ssh, shells and the system, each with a hint. The first match is used.
const HINTS: [(&[&str], &str); 12] = [
    (
        &[
            "REMOTE HOST IDENTIFICATION HAS CHANGED",
            "Host key verification failed",
            "host key is known",
        ],
        "the host's key differs from the known one: if the host was reinstalled, remove its old key from the known-hosts file",
    ),
    (
        &["Permission denied (", "Too many authentication failures"],
        "the node must accept a key of this user without a password",
    ),
    (
        &["Could not resolve hostname", "Name or service not known"],
        "give the host an `address`, or add its name to the hosts of the launching node",
    ),
    (
        &["Connection refused"],
        "no sshd listens there: start it, or correct `port`",
    ),
    (
        &[
            "Connection timed out",
            "No route to host",
            "Network is unreachable",
            "Operation timed out",
        ],
        "the node is off or not reachable from here",
    ),
    (
        &[
            "kex_exchange_identification",
            "Connection reset",
            "Connection closed by",
        ],
        "its sshd refuses more logins at the moment (MaxStartups), or is being stopped",
    ),
    (
        &["Exec format error", "cannot execute binary file"],
        "cvc-node there is for another processor architecture: install it again",
    ),
    (
        &["GLIBC_"],
        "cvc-node was linked dynamically and needs a newer C library than the node has: build it statically (`cargo xtask node --release`)",
    ),
    (
        &[
            "command not found",
            "No such file or directory",
            "not found",
        ],
        "cvc-node is not installed there: run `cvc install` for the site",
    ),
    (
        &["account is locked", "account has expired", "not available"],
        "the account cannot log in there",
    ),
    (&["No space left"], "its disk is full"),
    (
        &[
            "allocation",
            "Job/step already completing",
            "Invalid job id",
        ],
        "the Slurm allocation has ended",
    ),
];

impl NotStarted {
    /// Returns the reason in one line.
    #[must_use]
    pub fn reason(&self) -> String {
        match self.message.lines().last() {
            Some(message) => format!("{} ({message})", self.problem),
            None => self.problem.clone(),
        }
    }

    /// Returns whether the sentinel's program is missing on the node.
    #[must_use]
    pub fn lacks_program(&self) -> bool {
        let of_shell = ["No such file or directory", "not found"]
            .iter()
            .any(|words| self.message.contains(words));
        of_shell || self.problem.contains("exit status: 127")
    }

    /// Returns a hint how to fix the problem.
    #[must_use]
    pub fn hint(&self) -> String {
        let known = HINTS.iter().find(|(words, _)| {
            words
                .iter()
                .any(|w| self.message.contains(w) || self.problem.contains(w))
        });
        match known {
            Some((_, hint)) => (*hint).to_owned(),
            None => format!("try it by hand: {}", self.argv.join(" ")),
        }
    }
}

fn started(failed: &[NotStarted]) -> String {
    let mut text = match failed {
        [_] => "a node cannot be used".to_owned(),
        _ => format!("{} nodes cannot be used", failed.len()),
    };
    for one in failed {
        // writing to a String cannot fail
        let _ = write!(text, "\n  {}: {}", one.host, one.problem);
        for line in one.message.lines() {
            let _ = write!(text, "\n    {line}");
        }
        let _ = write!(text, "\n    hint: {}", one.hint());
    }
    text
}

impl CrewError {
    /// Returns the host concerned; if there are several, the first.
    #[must_use]
    pub fn host(&self) -> &str {
        match self {
            Self::Start(failed) => failed.first().map_or("", |f| f.host.as_str()),
            Self::Lost { host, .. }
            | Self::Timeout { host, .. }
            | Self::Refused { host, .. }
            | Self::Unexpected { host, .. }
            | Self::Unknown { host } => host,
        }
    }

    /// Returns whether the node itself is lost, not only the request.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Returns whether a disk of the node is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Refused { problem, .. } if problem.contains("No space left on device") || problem.contains("Disk quota exceeded"))
    }

    /// Returns a hint how to fix the problem, unless the message already has one.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Start(_) | Self::Refused { .. } | Self::Unknown { .. } => None,
            Self::Lost { .. } => {
                Some("check that the node is up and its network works; `cvc doctor` checks both")
            }
            Self::Timeout { .. } => Some(
                "the node is alive but slow: check for a hanging disk or file server, or too much load",
            ),
            Self::Unexpected { .. } => Some("install cvc-node there again"),
        }
    }
}
