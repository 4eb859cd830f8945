//! Reads an inventory in whichever form it is written.

use super::{error::InventoryError, groups, ini, program, yaml};
use crate::hosts::HostEntry;
use std::path::{Path, PathBuf};

/// What an inventory is, as far as can be told without starting a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inventory {
    /// A text with these hosts, in the order in which it names them first.
    Hosts(Vec<HostEntry>),
    /// Something that only `ansible-inventory` can read, which may start programs for it.
    Program(InventoryProgram),
}

/// An inventory that only `ansible-inventory` can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryProgram {
    /// The file or directory.
    pub path: PathBuf,
    /// The group that is asked for.
    pub group: String,
    /// Why it cannot be read here, as in `is a program`.
    pub reason: &'static str,
}

impl InventoryProgram {
    /// The command that writes its hosts to a file that can be read without a program.
    pub fn to_file(&self) -> String {
        super::error::to_file(&self.path)
    }

    /// Asks `ansible-inventory` for the hosts. It starts the inventory if that is a program, without variables that may hold secrets.
    ///
    /// # Errors
    /// When it is not installed, fails, or names no host of the group.
    pub fn ask(&self) -> Result<Vec<HostEntry>, InventoryError> {
        program::list(&self.path, self.reason, &self.group)
    }
}

/// Reads the hosts of a group, as far as that is possible without starting a program.
///
/// # Errors
/// When the file cannot be read or understood, or the group has no host.
pub fn read(path: &Path, group: &str) -> Result<Inventory, InventoryError> {
    if let Some(reason) = program::reason(path)? {
        return Ok(Inventory::Program(InventoryProgram {
            path: path.to_owned(),
            group: group.to_owned(),
            reason,
        }));
    }
    let text = program::read_regular(path).map_err(|source| InventoryError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse(path, &text, group).map(Inventory::Hosts)
}

/// The hosts of a group in an inventory with this text. The name of the file tells the form, INI or YAML.
///
/// # Errors
/// When the text cannot be understood, or the group has no host.
pub fn parse(path: &Path, text: &str, group: &str) -> Result<Vec<HostEntry>, InventoryError> {
    let is_yaml = matches!(
        path.extension().and_then(|e| e.to_str()),
        Some("yml" | "yaml" | "json")
    );
    let groups = if is_yaml {
        yaml::read(text)
    } else {
        ini::read(text)
    };
    groups::entries(path, groups, group)
}
