//! Reads an inventory in whichever form it is written.

use super::{error::InventoryError, groups, ini, program, yaml};
use crate::hosts::HostEntry;
use std::path::Path;

/// The hosts of a group, in the order in which the file names them first.
///
/// # Errors
/// When the file cannot be read or understood, or the group has no host.
pub fn read(path: &Path, group: &str) -> Result<Vec<HostEntry>, InventoryError> {
    if let Some(reason) = program::reason(path)? {
        return program::list(path, reason, group);
    }
    let text = std::fs::read_to_string(path).map_err(|source| InventoryError::Read { path: path.to_owned(), source })?;
    parse(path, &text, group)
}

/// The hosts of a group in an inventory with this text. The name of the file tells the form, INI or YAML.
///
/// # Errors
/// When the text cannot be understood, or the group has no host.
pub fn parse(path: &Path, text: &str, group: &str) -> Result<Vec<HostEntry>, InventoryError> {
    let is_yaml = matches!(path.extension().and_then(|e| e.to_str()), Some("yml" | "yaml" | "json"));
    let groups = if is_yaml { yaml::read(text) } else { ini::read(text) };
    groups::entries(path, groups, group)
}
