//! Errors of inventories.

use std::path::{Path, PathBuf};

/// An inventory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// The file.
    #[error("cannot read the inventory {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A line of it.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// The group is unknown.
    #[error("the inventory {} has no group `{group}`", path.display())]
    NoGroup {
        /// Which file.
        path: PathBuf,
        /// The group.
        group: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// It has no host in this group.
    #[error("the inventory {} has no host in the group `{group}`", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
        /// The group.
        group: String,
    },
    /// Only Ansible could read it, and that is not installed.
    #[error("the inventory {} {reason}, so only ansible-inventory can read it, which is not installed", path.display())]
    NeedsAnsible {
        /// Which.
        path: PathBuf,
        /// What it is.
        reason: &'static str,
    },
    /// Ansible cannot read it either.
    #[error("ansible-inventory cannot read {}: {message}", path.display())]
    Ansible {
        /// Which.
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
            Self::Line { .. } => {
                "correct the line; `ansible-inventory --list` may tell more".into()
            }
            Self::NoGroup { known, .. } => format!("its groups are {}", known.join(", ")),
            Self::Empty { .. } => "give another `group`, or add hosts to it".into(),
            Self::NeedsAnsible { path, .. } => format!(
                "install ansible-core (Debian, Ubuntu: apt-get install ansible-core), or write its output to a file: {}",
                to_file(path)
            ),
            Self::Ansible { path, .. } => {
                format!("see ansible-inventory -i {} --list", path.display())
            }
        }
    }
}

/// The command that writes the hosts of an inventory to a file.
pub(super) fn to_file(path: &Path) -> String {
    format!(
        "ansible-inventory -i {} --list --yaml --output hosts.yml",
        path.display()
    )
}

/// The problem of a line, before the file is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    pub line: usize,
    pub problem: String,
}

/// Fails with a complaint.
pub(super) fn complain<T>(line: usize, problem: impl Into<String>) -> Result<T, Complaint> {
    Err(Complaint {
        line,
        problem: problem.into(),
    })
}
