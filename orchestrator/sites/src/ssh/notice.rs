//! Notices about a connection.

use camino::Utf8PathBuf;
use std::fmt;

/// Something that users should know about a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A host key was pinned; from now on only this one counts.
    Pinned {
        /// Name of the host in known-hosts files.
        host: String,
        /// Fingerprint of the key.
        fingerprint: String,
        /// The user's file that had it; `None` if none had it and first contacts are accepted.
        vouched_by: Option<String>,
        /// File in which it is pinned.
        file: Utf8PathBuf,
    },
    /// The connection is lost and is being restored.
    Lost {
        /// Which host.
        host: String,
        /// The reason.
        message: String,
    },
    /// The connection is there again.
    Back {
        /// Which host.
        host: String,
        /// Time without a connection, seconds.
        away_s: f64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned {
                host,
                fingerprint,
                vouched_by: Some(by),
                file,
            } => {
                write!(
                    f,
                    "{host}: pinned host key {fingerprint}, known from {by}, in {file}"
                )
            }
            Self::Pinned {
                host,
                fingerprint,
                vouched_by: None,
                file,
            } => {
                write!(
                    f,
                    "{host}: accepted unknown host key {fingerprint} (host_keys = \"accept-new\") and pinned it in {file}"
                )
            }
            Self::Lost { host, message } => {
                write!(f, "{host}: connection lost, trying again: {message}")
            }
            Self::Back { host, away_s } => write!(f, "{host}: connected again after {away_s:.0} s"),
        }
    }
}
