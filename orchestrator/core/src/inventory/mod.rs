//! Ansible inventories, limited to the facts that a site needs: the hosts of a group, and how to reach them.
//!
//! Inventories are read by `ansible-inventory --list`, which is not started here, because loading a campaign file starts no program. The inventory is
//! inspected together with the campaign file; a separate step queries the hosts.

mod answer;
mod error;
mod source;
mod ssh_args;

pub use answer::parse_answer;
pub use error::{HostProblem, InventoryError};
pub use source::{Inventory, InventoryKind, inspect};
pub use ssh_args::SshArgsError;
pub(crate) use ssh_args::checked as checked_ssh_option;
