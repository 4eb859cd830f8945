//! Notices about a connection.

use camino::Utf8PathBuf;
use std::fmt;

/// A notice to the user about a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum HostNotice {
    /// A host key was pinned: from now on no other key of this host is accepted.
    Pinned {
        /// Name of the host in known-hosts files.
        host: String,
        /// Fingerprint of the key.
        fingerprint: String,
        /// The user's file that contained the key; `None` if the key was accepted at a first contact.
        vouched_by: Option<String>,
        /// File into which the key was pinned.
        file: Utf8PathBuf,
    },
    /// The connection is lost and is being restored.
    Lost {
        /// The host.
        host: String,
        /// The reason.
        message: String,
    },
    /// The connection is restored.
    Back {
        /// The host.
        host: String,
        /// Time without a connection, seconds.
        away_s: f64,
    },
}

impl fmt::Display for HostNotice {
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
