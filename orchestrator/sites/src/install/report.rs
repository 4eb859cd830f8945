//! The result of an installation, host by host, as ansible-playbook reported it.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// An event of an installation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum InstallEvent {
    /// A step before the first task.
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
        /// Whether it is a dry run.
        check: bool,
    },
    /// A task begins on all hosts that have not failed.
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
    /// Whether everything succeeded.
    pub fn is_done(&self) -> bool {
        self.failed == 0 && self.unreachable == 0
    }
}

/// A task that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FailedTask {
    /// Its host.
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
    /// Its answer when asked for its version.
    #[serde(rename = "said")]
    pub version_output: String,
    /// Where it comes from: `given`, `module`, `path`, `package`, `spack`, `kernels`.
    pub source: String,
    /// Package of the distribution.
    pub package: String,
    /// Version of that.
    pub package_version: String,
    /// Digest of the sources, of the kernels.
    pub digest: String,
}

/// The result of an installation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InstallReport {
    /// Which site.
    pub site: String,
    /// Whether it was a dry run.
    pub check: bool,
    /// Hosts in the order of the site.
    pub hosts: IndexMap<String, HostReport>,
    /// The failed task of each host that failed.
    pub failed: Vec<FailedTask>,
    /// Installed software, by host and component.
    pub installed: IndexMap<String, BTreeMap<String, Installed>>,
}

impl InstallReport {
    /// how to fix the first failure, if its message is known.
    pub fn hint(&self) -> Option<String> {
        let first = self.failed.first()?;
        let words = format!("{}\n{}", first.msg, first.stderr);
        let known = HINTS
            .iter()
            .find(|(phrases, _)| phrases.iter().any(|p| words.contains(p)));
        let again = "fix the cause there, then repeat the command: finished work is not repeated";
        Some(
            known
                .map_or(again, |(_, hint)| hint)
                .replace("HOST", &first.host),
        )
    }
}

/// Messages of modules and ssh, and hints for them.
const HINTS: [(&[&str], &str); 8] = [
    (
        &[
            "REMOTE HOST IDENTIFICATION HAS CHANGED",
            "Host key verification failed",
        ],
        "the host key of HOST is not the known one: ask its administrator, then put the right key into the site's known-hosts file (`ssh-keygen -R HOST`, `ssh.known_hosts`)",
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
        &[
            "Could not get lock",
            "Failed to lock apt",
            "is held by process",
        ],
        "another package manager is running on HOST: wait for it, then repeat the command",
    ),
    (
        &["No space left on device"],
        "the disk of HOST is full: make room, then repeat the command",
    ),
    (
        &[
            "Temporary failure resolving",
            "Failed to fetch",
            "Cannot download",
            "Failed to download metadata",
            "Unable to fetch some archives",
        ],
        "HOST cannot reach its package mirrors: fix its network or its list of repositories",
    ),
    (
        &[
            "Could not resolve hostname",
            "Connection timed out",
            "No route to host",
            "Connection refused",
            "cannot be reached",
        ],
        "HOST does not answer: check that it is switched on and that its name or address is right (`ssh HOST`)",
    ),
    (
        &["; hint: "],
        "do as the message says, then repeat the command: finished work is not repeated",
    ),
];

impl fmt::Display for InstallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // hosts with the same failure are named together
        let mut groups: Vec<FailedTask> = Vec::new();
        for task in &self.failed {
            let same_failure = |g: &&mut FailedTask| {
                FailedTask {
                    host: String::new(),
                    ..(**g).clone()
                } == FailedTask {
                    host: String::new(),
                    ..task.clone()
                }
            };
            match groups.iter_mut().find(same_failure) {
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
        let done: Vec<&str> = self
            .hosts
            .iter()
            .filter(|(_, r)| r.is_done())
            .map(|(h, _)| h.as_str())
            .collect();
        if done.is_empty() {
            Ok(())
        } else {
            write!(f, "\n  the other hosts are done: {}", done.join(", "))
        }
    }
}

impl fmt::Display for FailedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unreachable {
            write!(f, "{} cannot be reached: {}", self.host, self.msg)?;
            return if self.task.is_empty() {
                Ok(())
            } else {
                write!(f, "\n  at the task `{}`", self.task)
            };
        }
        write!(
            f,
            "{}: the task `{}` failed: {}",
            self.host, self.task, self.msg
        )?;
        if let Some(rc) = self.rc {
            write!(f, " (exit code {rc})")?;
        }
        for line in self
            .stderr
            .lines()
            .filter(|l| !l.trim().is_empty() && !self.msg.contains(l.trim()))
        {
            write!(f, "\n  stderr: {line}")?;
        }
        if self.at.is_empty() {
            Ok(())
        } else {
            write!(f, "\n  in {}", self.at)
        }
    }
}
