//! Errors of inventories.

use super::ssh_args::SshArgsError;
use std::path::PathBuf;

/// Hint: how to read inventories on a machine without Ansible.
pub(super) const INSTALL: &str = "install ansible-core (Debian, Ubuntu: apt-get install ansible-core; elsewhere: pipx install ansible-core), or write the hosts into the campaign file: hosts = [\"NAME\", ...]";

/// Why an inventory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// The file cannot be read.
    #[error("cannot read the inventory {}: {source}", path.display())]
    Read {
        /// The inventory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A host's connection settings are unsupported.
    #[error("the inventory {}: {}{problem}", path.display(), named(host, problem))]
    Host {
        /// The inventory.
        path: PathBuf,
        /// The host.
        host: String,
        /// The reason.
        problem: HostProblem,
    },
    /// The group is unknown.
    #[error("the inventory {} has no group `{group}`", path.display())]
    NoGroup {
        /// The inventory.
        path: PathBuf,
        /// The group.
        group: String,
        /// Groups of the inventory.
        known: Vec<String>,
    },
    /// The group has no host.
    #[error("the inventory {} has no host in the group `{group}`", path.display())]
    Empty {
        /// The inventory.
        path: PathBuf,
        /// The group.
        group: String,
    },
    /// Ansible is not installed.
    #[error("the inventory {} cannot be read without ansible-inventory, which is not installed", path.display())]
    NeedsAnsible {
        /// The inventory.
        path: PathBuf,
    },
    /// Ansible cannot parse a file. Its messages are not shown, because they quote the file, and a campaign file from elsewhere can name any file.
    #[error("ansible-inventory cannot parse {} as INI, YAML or TOML", path.display())]
    Unparsed {
        /// The inventory.
        path: PathBuf,
    },
    /// Ansible does not print a usable answer.
    #[error("ansible-inventory cannot read {}: {message}", path.display())]
    Ansible {
        /// The inventory.
        path: PathBuf,
        /// The end of Ansible's output.
        message: String,
    },
}

impl InventoryError {
    /// Returns how to fix the problem.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { .. } => {
                "give the path of an inventory; relative ones are relative to this file".into()
            }
            Self::Host { .. } => "correct the inventory, or use a group without this host".into(),
            Self::NoGroup { known, .. } => format!("its groups are {}", known.join(", ")),
            Self::Empty { .. } => "give another `group`, or add hosts to it".into(),
            Self::NeedsAnsible { .. } => INSTALL.into(),
            Self::Unparsed { path } | Self::Ansible { path, .. } => {
                format!("run ansible-inventory -i {} --list", path.display())
            }
        }
    }
}

/// Returns the name of the host as a prefix for a problem; empty if the name is the problem.
fn named(host: &str, problem: &HostProblem) -> String {
    match problem {
        HostProblem::Name => String::new(),
        _ => format!("host `{host}`: "),
    }
}

/// Why a host of an inventory cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostProblem {
    /// The name of the host is invalid. The name is not shown, because any line of any file could be read as a name.
    #[error("the name of a host is not usable by ssh")]
    Name,
    /// A variable has a list or table as its value, or a value from a vault.
    #[error("{0} is encrypted, or neither text nor a number")]
    Structured(&'static str),
    /// A variable has a template, which Ansible would evaluate.
    #[error("{0} `{1}` is a template, which only Ansible can evaluate")]
    Template(&'static str, String),
    /// A variable has an unusable value.
    #[error("{0} `{1}` {2}")]
    Value(&'static str, String, &'static str),
    /// A variable has arguments of ssh that cvc does not pass on.
    #[error("{0} `{1}`: {2}")]
    Arguments(&'static str, String, SshArgsError),
}
