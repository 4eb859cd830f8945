//! What happens to a connection.

use camino::Utf8PathBuf;
use std::fmt;

/// What happened to a connection that people should know of.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A host key was pinned; from now on only this one counts.
    Pinned {
        /// Name of the host in known-hosts files.
        host: String,
        /// Fingerprint of the key.
        fingerprint: String,
        /// The file of the user that had it; `None` if nothing did, and first contacts are believed.
        vouched_by: Option<String>,
        /// Where it is pinned.
        file: Utf8PathBuf,
    },
    /// The connection is lost, and made again.
    Lost {
        /// Which host.
        host: String,
        /// Why, and after which attempt.
        said: String,
    },
    /// The connection is there again.
    Back {
        /// Which host.
        host: String,
        /// For how long it was away, seconds.
        away_s: f64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned { host, fingerprint, vouched_by: Some(by), file } => {
                write!(f, "{host}: host key {fingerprint}, known from {by}, is pinned in {file}")
            }
            Self::Pinned { host, fingerprint, vouched_by: None, file } => {
                write!(f, "{host}: host key {fingerprint} was not known; it is believed (host_keys = \"accept-new\") and pinned in {file}")
            }
            Self::Lost { host, said } => write!(f, "{host}: connection lost, trying again: {said}"),
            Self::Back { host, away_s } => write!(f, "{host}: connected again after {away_s:.0} s"),
        }
    }
}
