//! The checkpoints of a run that are kept on this node, with copies or parity of other nodes' checkpoints.
//!
//! Each kept checkpoint has a directory, named by its number. It contains the node's own files, copies or parity of other nodes' files, and the
//! manifest, which is written last. A directory without a manifest is ignored.

mod dirs;
mod error;
mod flow;
mod hold;
mod movement;
mod node;
mod place;
mod stream;
mod table;
mod work;

pub use flow::{Flow, FlowSource, FlowTarget, KeptPart, Piece};
pub use movement::{Movement, StreamLink};
pub(super) use node::{NodeLevels, can_run_concurrently};
pub use stream::{StreamTarget, StreamToken};
pub use table::{FileTable, KeptKind, KeptPath};
pub use work::{LevelDone, LevelManifest, LevelProblem, LevelWork, PortRequest};
