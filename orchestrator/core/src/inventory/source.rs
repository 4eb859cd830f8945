//! The inventory that a campaign file names, as far as it can be known without starting a program.

use super::error::{INSTALL, InventoryError};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// An inventory and the group whose hosts a site has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// The file or directory.
    pub path: PathBuf,
    /// The group.
    pub group: String,
    /// What is there.
    pub kind: InventoryKind,
}

/// Kinds of inventories, by what Ansible starts to read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InventoryKind {
    /// A text in INI, YAML or TOML: Ansible starts nothing for it.
    Text,
    /// A directory, which may have inventories of all kinds.
    Directory,
    /// A program that prints the hosts.
    Program,
    /// The settings of a plugin of Ansible, which may ask a cloud or start programs.
    Plugin,
}

impl InventoryKind {
    /// Describes it, as in "the inventory x is a directory".
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
    /// Says why a command that starts nothing does not know its hosts, as in "the inventory x is a program, …".
    pub fn why_unknown(&self) -> String {
        match self.kind {
            InventoryKind::Text => "needs ansible-inventory, which is not installed".into(),
            kind => format!(
                "{}, which only `cvc run`, `cvc doctor` and `cvc install` ask",
                kind.describe()
            ),
        }
    }

    /// Says what makes its hosts known to all commands.
    pub fn hint(&self) -> String {
        match self.kind {
            InventoryKind::Text => INSTALL.into(),
            _ => format!(
                "write its hosts to a file, and name that in the campaign file: ansible-inventory -i {} --list --yaml --output hosts.yml",
                self.path.display()
            ),
        }
    }
}

/// Inspects the inventory at a path without starting anything.
///
/// # Errors
/// When there is none, or it is no file of a reasonable size.
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
        // files on shared folders of other systems may all be executable; a program begins as one
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
