//! Ansible inventories, as far as a site needs them: the hosts of a group and how to reach them.
//!
//! `ansible-inventory --list` reads them, which is not called here: loading a campaign starts nothing. An inventory is inspected with the campaign
//! file; a step of its own asks for the hosts.

mod answer;
mod error;
mod source;
mod ssh_args;

pub use answer::parse_answer;
pub use error::{HostProblem, InventoryError};
pub use source::{Inventory, InventoryKind, inspect};
pub use ssh_args::SshArgsError;
pub(crate) use ssh_args::checked as checked_ssh_option;
