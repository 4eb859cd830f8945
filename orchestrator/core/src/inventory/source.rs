//! The inventory that a campaign file names, and what can be found out about it without starting a program.

use super::error::{INSTALL, InventoryError};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// An inventory, and the group that has the site's hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// Path of the inventory, a file or a directory.
    pub path: PathBuf,
    /// Name of the group.
    pub group: String,
    /// Kind of the inventory.
    pub kind: InventoryKind,
}

/// Kinds of inventories, by the programs that Ansible starts to read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InventoryKind {
    /// A text file in INI, YAML or TOML, for which Ansible starts no program.
    Text,
    /// A directory, which may contain inventories of all kinds.
    Directory,
    /// A program that prints the hosts of the inventory.
    Program,
    /// A file with the settings of an Ansible plugin; the plugin may query a cloud or start programs.
    Plugin,
}

impl InventoryKind {
    /// Returns a description, as in "the inventory x is a directory".
    pub fn describe(self) -> &'static str {
        match self {
            Self::Text => "is a text",
            Self::Directory => "is a directory",
            Self::Program => "is a program",
            Self::Plugin => "is for a plugin",
        }
    }
}

impl Inventory {
    /// Explains why the hosts are unknown to commands that start no program.
    pub fn why_unknown(&self) -> String {
        match self.kind {
            InventoryKind::Text => "needs ansible-inventory, which is not installed".into(),
            kind => format!(
                "{}, queried only by `cvc run`, `cvc doctor` and `cvc install`",
                kind.describe()
            ),
        }
    }

    /// Describes how to make the hosts known to all commands.
    pub fn hint(&self) -> String {
        match self.kind {
            InventoryKind::Text => INSTALL.into(),
            _ => format!(
                "write its hosts to a file, and use that in the campaign file: ansible-inventory -i {} --list --yaml --output hosts.yml",
                self.path.display()
            ),
        }
    }
}

/// Inspects the inventory at a path, without starting a program.
///
/// # Errors
/// There is no inventory, or it is not a file of a reasonable size.
pub fn inspect(path: &Path, group: &str) -> Result<Inventory, InventoryError> {
    let unreadable = |source| InventoryError::Read {
        path: path.to_owned(),
        source,
    };
    let meta = fs::metadata(path).map_err(unreadable)?;
    let kind = if meta.is_dir() {
        InventoryKind::Directory
    } else {
        let text = crate::source::read_regular(path).map_err(unreadable)?;
        // on shares of other systems all files may be executable, so the beginning of the file decides whether it is a program
        let begins_as_program = text.starts_with(b"#!") || text.starts_with(b"\x7fELF");
        let names_plugin = text
            .split(|byte| *byte == b'\n')
            .any(|line| line.starts_with(b"plugin:"));
        match path.extension().and_then(|e| e.to_str()) {
            _ if begins_as_program && meta.permissions().mode() & 0o111 != 0 => {
                InventoryKind::Program
            }
            Some("yml" | "yaml") if names_plugin => InventoryKind::Plugin,
            _ => InventoryKind::Text,
        }
    };
    Ok(Inventory {
        path: path.to_owned(),
        group: group.to_owned(),
        kind,
    })
}
