//! What lies on disk: the layout of a campaign's directory, locks, whole files, and the index over all of it.

mod atomic_file;
mod error;
mod layout;
mod lock;

pub use error::StoreError;

pub use atomic_file::{copy_tree, read_text, remove_all, write_whole};
pub use layout::CampaignDir;
pub use lock::CampaignLock;
