//! Errors on a machine.

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
        /// The system's error.
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
        /// The system's error.
        source: io::Error,
    },
    /// A host does not answer, or not as an sshd does.
    #[error("{host}: cannot be reached: {message}")]
    Unreachable {
        /// Which host.
        host: String,
        /// The kind of obstacle.
        cause: Obstacle,
        /// The last lines of ssh.
        message: String,
    },
    /// The key of a host is unknown.
    #[error("{host}: unknown host key: `{name}` offers {offered}, which is in none of {}", files.join(", "))]
    KeyUnknown {
        /// Which host.
        host: String,
        /// The name under which known-hosts files would have it.
        name: String,
        /// Fingerprint of the key that was offered.
        offered: String,
        /// Files that were searched.
        files: Vec<String>,
    },
    /// A host has another key than before.
    #[error("{0}")]
    KeyChanged(Box<ChangedKey>),
    /// The host does not let this user in.
    #[error("{host}: rejected `{user}`: it accepts {methods}; tried {}", if keys.is_empty() { "no key".to_owned() } else { keys.join(", ") })]
    Denied {
        /// Which host.
        host: String,
        /// The user there.
        user: String,
        /// Authentication methods that it accepts.
        methods: String,
        /// Keys that were offered.
        keys: Vec<String>,
    },
    /// The connection ended while something was done.
    #[error("{host}: the connection was lost {during}: {message}")]
    Lost {
        /// Which host.
        host: String,
        /// What was being done, with unknown result.
        during: String,
        /// The last lines of ssh.
        message: String,
    },
    /// A program is not there.
    #[error("{host}: has no program `{program}`")]
    NoProgram {
        /// Which host.
        host: String,
        /// The program.
        program: String,
    },
    /// ssh failed for another reason.
    #[error("{host}: ssh failed: {message}")]
    Ssh {
        /// Which host.
        host: String,
        /// Its last lines.
        message: String,
    },
    /// A transferred entry was rejected.
    #[error("{host}: refused {path}: {problem}")]
    Refused {
        /// Which host.
        host: String,
        /// The path on the host.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// A host that offers a different key from its known one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedKey {
    /// Which host.
    pub host: String,
    /// The name under which known-hosts files have it.
    pub name: String,
    /// Fingerprint of the key that was offered.
    pub offered: String,
    /// Fingerprint of the key that was expected.
    pub known: String,
    /// File with the expected key.
    pub file: String,
    /// Its line, from 1.
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
            "either the machine was reinstalled or replaced, or somebody intercepts the connection"
        )
    }
}

/// The reason why a host cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// No such name.
    Name,
    /// Nothing listens on the port.
    Refused,
    /// No answer in time.
    Silence,
    /// The network has no route to it.
    NoRoute,
    /// It answered and hung up.
    HungUp,
}

impl HostError {
    /// Whether the same operation may succeed later, because the host or the network is away.
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

    /// how to fix it, if known.
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
            Self::Lost { .. } => Some("everything on the host is safe: repeat the command to continue".into()),
            Self::NoProgram { program, .. } => Some(format!("install `{program}` there, or put it on the PATH that a login without terminal has")),
            Self::Refused { .. } => Some("remove it there, or leave it out".into()),
            Self::Ssh { .. } | Self::Start { .. } | Self::Timeout { .. } | Self::File { .. } => None,
        }
    }
}

/// `[host]:port`, as known-hosts files write it, for a command line.
fn by_hand(name: &str) -> String {
    match name.strip_prefix('[').and_then(|n| n.split_once("]:")) {
        Some((host, port)) => format!("-p {port} {host}"),
        None => name.to_owned(),
    }
}
