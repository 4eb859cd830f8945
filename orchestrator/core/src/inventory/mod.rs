//! Ansible inventories, as far as a site needs them: which hosts a group has and how they are reached.
//!
//! Files in INI and YAML are read here. What only Ansible itself can tell (directories, programs, plugins, `group_vars` and `host_vars` beside
//! the file) is asked of `ansible-inventory`, where that is installed.

mod error;
mod groups;
mod ini;
mod program;
mod ranges;
mod read;
mod yaml;

pub use error::InventoryError;
pub use read::read;
