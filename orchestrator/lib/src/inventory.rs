//! Ansible inventories, as far as a site needs them: which hosts a group has and how they are reached.

use crate::spec::HostEntry;
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
    /// It has no host in this group.
    #[error("the inventory {} has no host in the group `{group}`", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
        /// The group.
        group: String,
    },
}

impl InventoryError {
    /// How to mend it.
    pub fn mend(&self) -> &'static str {
        match self {
            Self::Read { .. } => "give the path of an inventory; relative ones are relative to this file",
            Self::Line { .. } => "mend the line, or see what `ansible-inventory --list` says of it",
            Self::Empty { .. } => "give another `group`, or add hosts to it",
        }
    }
}

/// The hosts of a group, in the order of the file.
///
/// # Errors
/// When the file cannot be read or understood, or the group has no host.
pub fn read(path: &Path, group: &str) -> Result<Vec<HostEntry>, InventoryError> {
    let text = std::fs::read_to_string(path).map_err(|source| InventoryError::Read { path: path.to_owned(), source })?;
    let mut section = "ungrouped".to_owned();
    let mut hosts: Vec<HostEntry> = Vec::new();
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = name.to_owned();
            continue;
        }
        if section.contains(':') || (group != "all" && section != group) {
            continue;
        }
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let mut host = HostEntry::named(name);
        for (key, value) in words.filter_map(|w| w.split_once('=')) {
            match key {
                "ansible_host" => host.address = Some(value.to_owned()),
                "ansible_user" => host.user = Some(value.to_owned()),
                "ansible_port" => host.port = value.parse().ok(),
                "ansible_ssh_private_key_file" => host.identity_file = Some(value.to_owned()),
                _ => {}
            }
        }
        if !hosts.iter().any(|h| h.name == host.name) {
            hosts.push(host);
        }
    }
    if hosts.is_empty() {
        return Err(InventoryError::Empty { path: path.to_owned(), group: group.to_owned() });
    }
    Ok(hosts)
}
