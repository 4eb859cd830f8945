//! What became of an installation, host by host, as ansible-playbook told it.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum InstallEvent {
    /// Something before the first task.
    Preparing {
        /// What is done.
        what: String,
    },
    /// It begins.
    Started {
        /// Which site.
        site: String,
        /// Its hosts.
        hosts: Vec<String>,
        /// Whether only is looked what would be done.
        check: bool,
    },
    /// A task begins on all hosts that are still with it.
    Task {
        /// Which, with its role in front.
        task: String,
    },
    /// A task has ended on a host.
    Host {
        /// Which host.
        host: String,
        /// Which task.
        task: String,
        /// How.
        result: TaskResult,
        /// The message of a failure.
        #[serde(skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// It is over.
    Ended {
        /// Which site.
        site: String,
        /// Hosts with what became of their tasks.
        hosts: IndexMap<String, HostReport>,
    },
}

/// How a task ended on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskResult {
    /// Nothing had to be changed.
    Ok,
    /// Something was changed, or would be.
    Changed,
    /// It failed, but another way is tried.
    Caught,
    /// It failed.
    Failed,
    /// The host does not answer.
    Unreachable,
}

/// Tasks of a host, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostReport {
    /// Tasks that ended well.
    pub ok: u32,
    /// Of these, such that changed something.
    pub changed: u32,
    /// Tasks that failed.
    #[serde(alias = "failures")]
    pub failed: u32,
    /// Times that it did not answer.
    pub unreachable: u32,
}

impl HostReport {
    /// Whether everything was done.
    pub fn is_done(&self) -> bool {
        self.failed == 0 && self.unreachable == 0
    }
}

/// A task that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FailedTask {
    /// Where.
    pub host: String,
    /// Which, with its role in front.
    pub task: String,
    /// File and line of it, below the directory of the roles.
    pub at: String,
    /// What the module said.
    pub msg: String,
    /// End of its standard error.
    pub stderr: String,
    /// Exit code of its program, if it had one.
    pub rc: Option<i64>,
    /// Whether the host did not answer.
    pub unreachable: bool,
}

/// What a role found or installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Installed {
    /// Where it is.
    pub path: String,
    /// What it says to the question for its version.
    pub said: String,
    /// Where it comes from: `given`, `module`, `path`, `package`, `spack`, `kernels`.
    pub source: String,
    /// Package of the distribution.
    pub package: String,
    /// Version of that.
    pub package_version: String,
    /// Digest of the sources, of the kernels.
    pub digest: String,
}

/// What became of an installation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InstallReport {
    /// Which site.
    pub site: String,
    /// Whether only was looked what would be done.
    pub check: bool,
    /// Hosts in the order of the site.
    pub hosts: IndexMap<String, HostReport>,
    /// Of each host that failed, its task.
    pub failed: Vec<FailedTask>,
    /// What there is, by host and component.
    pub installed: IndexMap<String, BTreeMap<String, Installed>>,
}

impl InstallReport {
    /// how to fix the first failure, if its message is a known one.
    pub fn hint(&self) -> Option<String> {
        let first = self.failed.first()?;
        let words = format!("{}\n{}", first.msg, first.stderr);
        let known = HINTS.iter().find(|(phrases, _)| phrases.iter().any(|p| words.contains(p)));
        let again = "fix the cause there, then type the command again: what is done is not done twice";
        Some(known.map_or(again, |(_, hint)| hint).replace("HOST", &first.host))
    }
}

/// Messages of modules and ssh, and hints for them.
const HINTS: [(&[&str], &str); 8] = [
    (
        &["REMOTE HOST IDENTIFICATION HAS CHANGED", "Host key verification failed"],
        "the host key of HOST is not the one that is known: \
      ask whoever runs it, then put the right key into the site's known-hosts file (`ssh-keygen -R HOST`, `ssh.known_hosts`)",
    ),
    (
        &["Permission denied (", "Too many authentication failures"],
        "HOST does not let this user in: try `ssh HOST`; give `user` and `identity_file` of the host, or load \
      the key into the agent",
    ),
    (
        &[
            "sudo: a password is required",
            "Missing sudo password",
            "sudo: a terminal is required",
            "is not in the sudoers",
            "sudo: not found",
            "sudo: command not found",
        ],
        "installing packages needs root: let the user on HOST use sudo without a password, or log in as root, or install by hand and set \
      `install.packages = false`; with a password: `cvc install SITE --inventory-only DIR`, then ansible-playbook -K",
    ),
    (
        &["Could not get lock", "Failed to lock apt", "is held by process"],
        "another package manager works on HOST: wait for it, then type the command again",
    ),
    (&["No space left on device"], "the disk of HOST is full: make room, then type the command again"),
    (
        &[
            "Temporary failure resolving",
            "Failed to fetch",
            "Cannot download",
            "Failed to download metadata",
            "Unable to fetch some archives",
        ],
        "HOST cannot reach its package mirrors: hint its network or its list of repositories",
    ),
    (
        &["Could not resolve hostname", "Connection timed out", "No route to host", "Connection refused", "cannot be reached"],
        "HOST does not answer: is it switched on, and its name or address right? try `ssh HOST`",
    ),
    (&["; hint: "], "do as the message says, then type the command again: what is done is not done twice"),
];

impl fmt::Display for InstallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // hosts that failed alike are named together
        let mut groups: Vec<FailedTask> = Vec::new();
        for task in &self.failed {
            let alike = |g: &&mut FailedTask| {
                FailedTask { host: String::new(), ..(**g).clone() } == FailedTask { host: String::new(), ..task.clone() }
            };
            match groups.iter_mut().find(alike) {
                Some(group) => group.host = format!("{}, {}", group.host, task.host),
                None => groups.push(task.clone()),
            }
        }
        for (number, task) in groups.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "site {}: {task}", self.site)?;
        }
        let done: Vec<&str> = self.hosts.iter().filter(|(_, r)| r.is_done()).map(|(h, _)| h.as_str()).collect();
        if done.is_empty() { Ok(()) } else { write!(f, "\n  the other hosts are done: {}", done.join(", ")) }
    }
}

impl fmt::Display for FailedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unreachable {
            write!(f, "{} cannot be reached: {}", self.host, self.msg)?;
            return if self.task.is_empty() { Ok(()) } else { write!(f, "\n  at the task `{}`", self.task) };
        }
        write!(f, "{}: the task `{}` failed: {}", self.host, self.task, self.msg)?;
        if let Some(rc) = self.rc {
            write!(f, " (exit code {rc})")?;
        }
        for line in self.stderr.lines().filter(|l| !l.trim().is_empty() && !self.msg.contains(l.trim())) {
            write!(f, "\n  stderr: {line}")?;
        }
        if self.at.is_empty() { Ok(()) } else { write!(f, "\n  in {}", self.at) }
    }
}
