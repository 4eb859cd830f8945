//! Errors of inventories.

use super::ssh_args::SshArgsError;
use std::path::PathBuf;

/// How to read inventories on a machine without Ansible.
pub(super) const INSTALL: &str = "install ansible-core (Debian, Ubuntu: apt-get install ansible-core; elsewhere: pipx install ansible-core), or write the hosts into the campaign file: hosts = [\"NAME\", ...]";

/// An inventory cannot be used.
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
    /// A host cannot be reached as the inventory says.
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
        /// Those that it has.
        known: Vec<String>,
    },
    /// It has no host in this group.
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
    /// Ansible cannot parse a file. Its messages quote the file, which a campaign file from elsewhere may name whatever it is, so they are not shown.
    #[error("ansible-inventory cannot parse {} as INI, YAML or TOML", path.display())]
    Unparsed {
        /// The inventory.
        path: PathBuf,
    },
    /// Ansible gives no usable answer.
    #[error("ansible-inventory cannot read {}: {message}", path.display())]
    Ansible {
        /// The inventory.
        path: PathBuf,
        /// The end of its output.
        message: String,
    },
}

impl InventoryError {
    /// How to fix it.
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

/// The host in front of a problem, unless its name is the problem.
fn named(host: &str, problem: &HostProblem) -> String {
    match problem {
        HostProblem::Name => String::new(),
        _ => format!("host `{host}`: "),
    }
}

/// The reason why a host of an inventory cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostProblem {
    /// Its name, which is not shown: any line of any file is such a name.
    #[error("ssh cannot take the name of a host")]
    Name,
    /// A variable with a value for playbooks, or from a vault.
    #[error("{0} is encrypted, or neither text nor a number")]
    Structured(&'static str),
    /// A variable that Ansible would evaluate.
    #[error("{0} `{1}` is a template, which only Ansible can evaluate")]
    Template(&'static str, String),
    /// A variable with an unusable value.
    #[error("{0} `{1}` {2}")]
    Value(&'static str, String, &'static str),
    /// Arguments of ssh that cvc does not pass on.
    #[error("{0} `{1}`: {2}")]
    Arguments(&'static str, String, SshArgsError),
}
