//! Files of a campaign: the layout of its directory, locks, atomic writing.

mod aside;
mod atomic_file;
mod claim;
mod error;
mod kept_checkpoint;
mod layout;
pub mod line_file;
mod lock;
mod manifest;
mod outcome_file;
mod temporary;

pub use cvc_os::{beneath::Beneath, regular, tree::exchange};
pub use error::StoreError;

pub use aside::free_name;
pub use aside::put_aside;
pub use atomic_file::{
    copy_tree, read_text, remove_all, write_output, write_output_by, write_whole,
};
pub use claim::{claim, claimed_lineage};
pub use kept_checkpoint::{KEPT, KeptCheckpoint, KeptPlace, NoticeUse};
pub use layout::CampaignDir;
pub use line_file::LineFile;
pub use lock::{CampaignLock, SILENCE};
pub use manifest::{MANIFEST, ManifestProblem, check_manifest, write_manifest};
pub use outcome_file::{OUTCOME, OutcomeFile, read_outcome, remove_torn, sealed_outcome};
pub use temporary::{abandoned, own_prefix, remove_abandoned, remove_half_written};
