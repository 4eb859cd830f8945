//! What can go wrong on a machine.

use std::io;

/// Something could not be done on a host. Exit code 4.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A program could not be started.
    #[error("{host}: cannot start {}: {source}", argv.join(" "))]
    Start {
        /// Which host.
        host: String,
        /// The program and its arguments.
        argv: Vec<String>,
        /// What the system said.
        source: io::Error,
    },
    /// A program did not end in time and was ended.
    #[error("{host}: {} did not end within {limit_s} s", argv.join(" "))]
    Timeout {
        /// Which host.
        host: String,
        /// The program and its arguments.
        argv: Vec<String>,
        /// The limit, seconds.
        limit_s: f64,
    },
    /// A file could not be written or read.
    #[error("{host}: cannot {action} {path}: {source}")]
    File {
        /// Which host.
        host: String,
        /// What was tried.
        action: &'static str,
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}
