//! Errors on a machine.

use std::io;

/// An operation on a host failed. Exit code 4.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A program could not be started.
    #[error("{host}: cannot start {}: {source}", argv.join(" "))]
    Start {
        /// The host.
        host: String,
        /// The program and its arguments.
        argv: Vec<String>,
        /// The system's error.
        source: io::Error,
    },
    /// A program did not end in time and was ended.
    #[error("{host}: {} did not end within {limit_s} s", argv.join(" "))]
    Timeout {
        /// The host.
        host: String,
        /// The program and its arguments.
        argv: Vec<String>,
        /// Time limit, seconds.
        limit_s: f64,
    },
    /// A file could not be written or read.
    #[error("{host}: cannot {action} {path}: {source}")]
    File {
        /// The host.
        host: String,
        /// The action, as a verb: `read`, `write`.
        action: &'static str,
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// A host does not answer, or does not answer as an SSH server.
    #[error("{host}: cannot be reached: {message}")]
    Unreachable {
        /// The host.
        host: String,
        /// Kind of the obstacle.
        cause: Obstacle,
        /// Last lines of ssh's output.
        message: String,
    },
    /// The key of a host is unknown.
    #[error("{host}: unknown host key: `{name}` offers {offered}, which is in none of {}", files.join(", "))]
    KeyUnknown {
        /// The host.
        host: String,
        /// Name of the host in known-hosts files.
        name: String,
        /// Fingerprint of the key that the host offered.
        offered: String,
        /// Files that were searched.
        files: Vec<String>,
    },
    /// The key of a host has changed.
    #[error("{0}")]
    KeyChanged(Box<ChangedKey>),
    /// The host rejects this user.
    #[error("{host}: rejected `{user}`: it accepts {methods}; tried {}", if keys.is_empty() { "no key".to_owned() } else { keys.join(", ") })]
    Denied {
        /// The host.
        host: String,
        /// The user name on the host.
        user: String,
        /// Authentication methods that the host accepts.
        methods: String,
        /// Keys that were offered.
        keys: Vec<String>,
    },
    /// The connection ended during an action.
    #[error("{host}: the connection was lost {during}: {message}")]
    Lost {
        /// The host.
        host: String,
        /// The action, whose result is unknown.
        during: String,
        /// Last lines of ssh's output.
        message: String,
    },
    /// A program is missing on the host.
    #[error("{host}: has no program `{program}`")]
    NoProgram {
        /// The host.
        host: String,
        /// The program.
        program: String,
    },
    /// ssh failed for another reason.
    #[error("{host}: ssh failed: {message}")]
    Ssh {
        /// The host.
        host: String,
        /// Last lines of ssh's output.
        message: String,
    },
    /// The host offered a file or directory that was rejected.
    #[error("{host}: refused {path}: {problem}")]
    Refused {
        /// The host.
        host: String,
        /// The path on the host.
        path: String,
        /// The problem.
        problem: String,
    },
}

/// A host whose key differs from its known key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedKey {
    /// The host.
    pub host: String,
    /// Name of the host in known-hosts files.
    pub name: String,
    /// Fingerprint of the key that the host offered.
    pub offered: String,
    /// Fingerprint of the known key.
    pub known: String,
    /// Known-hosts file with the known key.
    pub file: String,
    /// Line number in the file, from 1.
    pub line: usize,
}

impl std::fmt::Display for ChangedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            host,
            name,
            offered,
            known,
            file,
            line,
        } = self;
        write!(
            f,
            "{host}: its host key has changed: `{name}` offers {offered}, but {file}:{line} has {known}; "
        )?;
        write!(
            f,
            "either the machine was reinstalled or replaced, or the connection is intercepted"
        )
    }
}

/// The reason why a host cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The host's name does not resolve.
    Name,
    /// No process listens on the port.
    Refused,
    /// The host did not answer in time.
    Silence,
    /// The network has no route to the host.
    NoRoute,
    /// The host answered and then closed the connection.
    HungUp,
}

impl HostError {
    /// Returns whether the same operation may succeed later, because the host or the network is temporarily unavailable.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } => true,
            Self::Start { .. }
            | Self::Timeout { .. }
            | Self::File { .. }
            | Self::KeyUnknown { .. }
            | Self::KeyChanged(_)
            | Self::Denied { .. }
            | Self::NoProgram { .. }
            | Self::Ssh { .. }
            | Self::Refused { .. } => false,
        }
    }

    /// Returns a hint how to fix the problem, if known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { host, cause, .. } => Some(match cause {
                Obstacle::Name => format!("give `{host}` an `address` in the campaign file, or a HostName in ~/.ssh/config; check that this machine is online"),
                Obstacle::Refused => "start sshd there, or give its `port`".into(),
                Obstacle::Silence => format!("check that it is up and its port open to this machine; behind a login node it needs `ProxyJump` in ~/.ssh/config (Host {host})"),
                Obstacle::NoRoute => format!("check the network of this machine (VPN?); behind a login node it needs `ProxyJump` in ~/.ssh/config (Host {host})"),
                Obstacle::HungUp => "see the log of its sshd (journalctl -u ssh): too many connections at once (MaxStartups), or it rejects this machine; a jump host must allow forwarding".into(),
            }),
            Self::KeyUnknown { name, .. } => Some(format!(
                "ask its administrator for the fingerprint, or look there (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub); if it is the same, connect once by hand (ssh {}), or let cvc accept first contacts: ssh.host_keys = \"accept-new\"",
                by_hand(name)
            )),
            Self::KeyChanged(changed) => Some(format!(
                "ask its administrator whether the key was changed, and for the new fingerprint; if it is the one above: ssh-keygen -R '{}' -f {}",
                changed.name,
                crate::render::shell_quote(&changed.file)
            )),
            Self::Denied { host, user, .. } => Some(format!(
                "put your public key there (ssh-copy-id {user}@{host}), load it into the agent (ssh-add), or give `user` and `identity_file` of the host"
            )),
            Self::Lost { .. } => Some("nothing on the host is lost: repeat the command to continue".into()),
            Self::NoProgram { program, .. } => Some(format!("install `{program}` there, or put it on the PATH that a login without terminal has")),
            Self::Refused { .. } => Some("remove it there, or leave it out".into()),
            Self::Ssh { .. } | Self::Start { .. } | Self::Timeout { .. } | Self::File { .. } => None,
        }
    }
}

/// Returns the host's name as known-hosts files write it (`[host]:port`), quoted for a command line.
fn by_hand(name: &str) -> String {
    match name.strip_prefix('[').and_then(|n| n.split_once("]:")) {
        Some((host, port)) => format!("-p {port} {host}"),
        None => name.to_owned(),
    }
}
