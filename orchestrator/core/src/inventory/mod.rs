//! Ansible inventories, as far as a site needs them: the hosts of a group and how to reach them.
//!
//! Files in INI and YAML are read here. For directories, programs, plugins, and `group_vars` and `host_vars` beside the file, cvc asks
//! `ansible-inventory`, if installed, but only in commands that may start what a campaign file names.

mod error;
mod groups;
mod ini;
mod program;
mod ranges;
mod read;
mod ssh_args;
mod yaml;

pub use error::InventoryError;
pub use program::{IS_PROGRAM, parse_answer};
pub use read::{Inventory, InventoryProgram, parse, read};
pub(crate) use ssh_args::checked as checked_ssh_option;
