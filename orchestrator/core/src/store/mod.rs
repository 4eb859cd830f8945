//! Files of a campaign: the layout of its directory, locks, atomic writing.

mod atomic_file;
mod error;
mod layout;
mod lock;

pub use error::StoreError;

pub use atomic_file::{copy_tree, read_text, remove_all, write_whole};
pub use layout::CampaignDir;
pub use lock::CampaignLock;
