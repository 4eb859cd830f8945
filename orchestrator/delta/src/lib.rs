//! What changes between two checkpoints of the same processes, as files that restore each of them to the byte.
//!
//! A checkpoint (a *state*) is a directory with the images of all ranks, or one file. Its content is cut into blocks. Blocks of DMTCP images are known
//! by their **address** in the process: a page that was touched for the first time moves everything behind it in the file, but nothing in memory.
//! Other files, and the published method, go by the **index** of the block in the file. A state is compared with an earlier one by the hashes of
//! its blocks alone ([`Signature`]); no byte of the earlier one is needed.
//!
//! A [`Series`] is a directory with the states of one run, each stored in full or as what changed since another, its base, as its [`Method`] decides.

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
mod partner;
mod restore;
mod same;
mod series;
mod signature;
mod source;
mod taken;
mod whole;

pub use cvc_delta_rules::{Addressing, BlockSize, Codec, Method, Threshold, Transform, Volumes};
pub use diff::{Change, Changes, PartChange, Parts, changed_by_part, changes, sign_with_parts};
pub use error::{DeltaError, DeltaErrorKind};
pub use file::{ImageEntry, StateFile, Summary};
pub use hash::Hash;
pub use matrix::{Choice, Matrix};
pub use partner::changed_bytes;
pub use restore::Chain;
pub use same::require_same;
pub use series::{KeptHashes, Series, SeriesOptions, StateRecord, Verified};
pub use signature::{ImageSignature, Signature, sign};
pub use source::{FileVersion, Source, SourceFile};
pub use taken::TimeSource;
