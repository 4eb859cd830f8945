//! How states of a series are stored as deltas: methods, codecs, and what is stored against what. No file is read or written here: the engine,
//! the models and the campaign file share these rules.

mod block;
mod chains;
mod codec;
mod method;
mod threshold;

pub use block::{Addressing, BlockSize, Transform};
pub use chains::{Chains, Stored};
pub use codec::Codec;
pub use method::{Base, Decision, Method, MethodName};
pub use threshold::{InvalidRule, Threshold, Volumes};
