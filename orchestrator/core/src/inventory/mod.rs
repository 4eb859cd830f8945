//! Ansible inventories, as far as a site needs them: which hosts a group has and how they are reached.
//!
//! Files in INI and YAML are read here. What only Ansible itself can tell (directories, programs, plugins, `group_vars` and `host_vars` beside
//! the file) is asked of `ansible-inventory`, where that is installed.

mod groups;
mod ini;
mod program;
mod ranges;
mod yaml;

use crate::hosts::HostEntry;
use groups::Groups;
use std::path::{Path, PathBuf};

/// An inventory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// The file.
    #[error("cannot read the inventory {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
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
    /// It has no such group.
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
    #[error("the inventory {} {reason}, which only ansible-inventory can read, and that is not installed", path.display())]
    NeedsAnsible {
        /// Which.
        path: PathBuf,
        /// What it is.
        reason: &'static str,
    },
    /// Ansible cannot read it either.
    #[error("ansible-inventory cannot read {}: {said}", path.display())]
    Ansible {
        /// Which.
        path: PathBuf,
        /// Its last words.
        said: String,
    },
}

impl InventoryError {
    /// how to fix it.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { .. } => "give the path of an inventory; relative ones are relative to this file".into(),
            Self::Line { .. } => "correct the line, or see what `ansible-inventory --list` says of it".into(),
            Self::NoGroup { known, .. } => format!("its groups are {}", known.join(", ")),
            Self::Empty { .. } => "give another `group`, or add hosts to it".into(),
            Self::NeedsAnsible { path, .. } => format!(
                "install ansible-core (Debian, Ubuntu: apt-get install ansible-core), or write what it says into a file: ansible-inventory -i {} --list --yaml --output hosts.yml",
                path.display()
            ),
            Self::Ansible { path, .. } => format!("see ansible-inventory -i {} --list", path.display()),
        }
    }
}

/// A complaint about a line, before it is known of which file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Complaint {
    line: usize,
    problem: String,
}

fn complain<T>(line: usize, problem: impl Into<String>) -> Result<T, Complaint> {
    Err(Complaint { line, problem: problem.into() })
}

/// The hosts of a group, in the order in which the file names them first.
///
/// # Errors
/// When the file cannot be read or understood, or the group has no host.
pub fn read(path: &Path, group: &str) -> Result<Vec<HostEntry>, InventoryError> {
    if let Some(reason) = program::reason(path)? {
        return program::list(path, reason, group);
    }
    let text = std::fs::read_to_string(path).map_err(|source| InventoryError::Read { path: path.to_owned(), source })?;
    let is_yaml = matches!(path.extension().and_then(|e| e.to_str()), Some("yml" | "yaml" | "json"));
    let groups = if is_yaml { yaml::read(&text) } else { ini::read(&text) };
    entries(path, groups, group)
}

fn entries(path: &Path, groups: Result<Groups, Complaint>, group: &str) -> Result<Vec<HostEntry>, InventoryError> {
    let line = |complaint: Complaint| InventoryError::Line { path: path.to_owned(), line: complaint.line, problem: complaint.problem };
    let groups = groups.map_err(line)?;
    if !groups.has(group) {
        return Err(InventoryError::NoGroup { path: path.to_owned(), group: group.to_owned(), known: groups.names() });
    }
    let hosts = groups.entries(group).map_err(line)?;
    if hosts.is_empty() {
        return Err(InventoryError::Empty { path: path.to_owned(), group: group.to_owned() });
    }
    Ok(hosts)
}
