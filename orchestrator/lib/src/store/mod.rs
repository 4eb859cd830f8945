//! What lies on disk: the layout of a campaign's directory, locks, whole files, and the index over all of it.

mod error;
pub mod index;
mod layout;
mod load;
mod lock;
mod predictions;
mod whole;

pub use error::StoreError;
pub use index::Index;
pub use layout::CampaignDir;
pub use lock::CampaignLock;
pub use whole::{copy_tree, read_text, write_whole};
