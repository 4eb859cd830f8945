//! Changes between two checkpoints of the same processes, as files from which each checkpoint is restored byte for byte.
//!
//! A checkpoint (a *state*) is a directory with the images of all ranks, or one file. Its content is divided into blocks. Blocks of DMTCP images
//! are identified by their **address** in the process: when a page is touched for the first time, everything after it moves in the file, but not in
//! memory. Blocks of other files, and all blocks with the published method, are identified by their **index** in the file. A state is compared with
//! the hashes ([`Signature`]) of an earlier state; the data of the earlier state are not needed.
//!
//! A [`Series`] is a directory with the states of one run. Its [`Method`] decides which states are stored in full and which as changes since
//! another state, the base.

mod codec;
mod content;
mod diff;
mod error;
mod file;
mod frame;
mod hash;
mod layout;
mod link;
mod make;
mod matrix;
mod new_dir;
pub mod parity;
mod partner;
mod restore;
mod same;
mod series;
mod signature;
mod source;
mod taken;
mod whole;

pub use cvc_delta_rules::{Addressing, BlockSize, Codec, Method, Threshold, Transform, Volumes};
pub use diff::{Change, PageChanges, PartChange, Parts, changed_by_part, changes, sign_with_parts};
pub use error::{DeltaError, DeltaErrorKind};
pub use file::{DeltaSummary, ImageEntry, StateFile};
pub use hash::Hash;
pub use matrix::{Matrix, MatrixChoice};
pub use partner::changed_bytes;
pub use restore::Chain;
pub use same::require_same;
pub use series::{KeptHashes, Series, SeriesOptions, StateRecord, Verified};
pub use signature::{ImageSignature, Signature, sign};
pub use source::{FileVersion, Source, SourceFile};
pub use taken::TimeSource;
