//! The result of an installation on each host, as ansible-playbook reported it.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// An event of an installation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum InstallEvent {
    /// A preparatory step begins, before the first task.
    Preparing {
        /// The step.
        what: String,
    },
    /// The installation begins.
    Started {
        /// The site.
        site: String,
        /// Hosts of the site.
        hosts: Vec<String>,
        /// Whether it is a dry run.
        check: bool,
    },
    /// A task begins on all hosts that have not failed.
    Task {
        /// Name of the task, after that of its role.
        task: String,
    },
    /// A task has ended on a host.
    Host {
        /// The host.
        host: String,
        /// Name of the task.
        task: String,
        /// The outcome.
        result: TaskResult,
        /// The message, if the task failed.
        #[serde(skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// The installation has ended.
    Ended {
        /// The site.
        site: String,
        /// Counts of task outcomes, by host.
        hosts: IndexMap<String, HostReport>,
    },
}

/// The outcome of a task on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskResult {
    /// No change was necessary.
    Ok,
    /// Something was changed, or would be.
    Changed,
    /// The task failed, and the role tries another way.
    Caught,
    /// The task failed.
    Failed,
    /// The host does not answer.
    Unreachable,
}

/// Number of tasks of a host by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostReport {
    /// Number of successful tasks.
    pub ok: u32,
    /// Number of successful tasks that changed something.
    pub changed: u32,
    /// Number of failed tasks.
    #[serde(alias = "failures")]
    pub failed: u32,
    /// Number of times that the host did not answer.
    pub unreachable: u32,
}

impl HostReport {
    /// Returns whether no task failed and the host always answered.
    pub fn is_done(&self) -> bool {
        self.failed == 0 && self.unreachable == 0
    }
}

/// A task that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FailedTask {
    /// Host of the task.
    pub host: String,
    /// Name of the task, after that of its role.
    pub task: String,
    /// File and line of the task, relative to the directory of the roles.
    pub at: String,
    /// Message of the Ansible module.
    pub msg: String,
    /// End of the standard error of the task's program.
    pub stderr: String,
    /// Exit code of the task's program, if it ran one.
    pub rc: Option<i64>,
    /// Whether the host did not answer.
    pub unreachable: bool,
}

/// The software that a role found or installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Installed {
    /// Path of the software.
    pub path: String,
    /// Version that the software reports.
    #[serde(rename = "said")]
    pub version_output: String,
    /// Where the software comes from: `given` (a prefix or path of the campaign), `module`, `path`, `package`, `spack`, `kernels`.
    pub source: String,
    /// Distribution package that contains the software.
    pub package: String,
    /// Version of this package.
    pub package_version: String,
    /// Digest of the sources, for the kernels that are part of cvc.
    pub digest: String,
}

/// The result of an installation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InstallReport {
    /// The site.
    pub site: String,
    /// Whether it was a dry run.
    pub check: bool,
    /// Counts of task outcomes by host, in the site's order.
    pub hosts: IndexMap<String, HostReport>,
    /// The failed task of each host that did not finish.
    pub failed: Vec<FailedTask>,
    /// Installed software, by host and component.
    pub installed: IndexMap<String, BTreeMap<String, Installed>>,
}

impl InstallReport {
    /// Returns the remedy for the first failure, if its message is known.
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

/// Messages of modules and of ssh, with the hint for each.
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
        // list hosts with the same failure together
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
