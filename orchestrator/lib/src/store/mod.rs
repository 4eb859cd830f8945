//! What lies on disk: the layout of a campaign's directory, locks, whole files.

mod error;
mod layout;
mod lock;
mod whole;

pub use error::StoreError;
pub use layout::CampaignDir;
pub use lock::CampaignLock;
pub use whole::{read_text, write_whole};
