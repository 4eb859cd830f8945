//! Rules for storing the states of a series as deltas: methods, codecs and bases. This crate does no input or output; the engine, the models and
//! the campaign file use the same rules.

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
