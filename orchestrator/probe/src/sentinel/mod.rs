//! The sentinel: one small process on every node of a site, that answers the agent's questions, ends what it is told to, and says all the
//! time that it is alive.
//!
//! It speaks JSON lines on standard input and output, whatever carries them (ssh, srun, a pipe). A request is `{"id":1,"do":"clock"}`, its
//! answer `{"id":1,"ok":{…}}` or `{"id":1,"error":"…"}`, and between them there are beats, `{"beat":7,"at_ns":…}`. When the line closes, or
//! the other end is silent for longer than was agreed, the sentinel ends what it was told to guard, and goes.

mod answer;
mod conditions;
mod copy;
mod deltas;
mod end;
mod error;
mod facts;
mod files;
mod make;
mod metadata;
mod mounts;
mod ranks;
mod remove;
mod request;
mod series;
mod serve;

pub use answer::{Sentinel, answer};
pub use conditions::{Conditions, NodeActivity, NodeSettings, doubt};
pub use deltas::{DeltaDone, DeltaOptions, DeltaProblem, DeltaWork, StoredFigures};
pub use end::{Ended, EndedProcess};
pub use error::SentinelError;
pub use facts::{CpuFacts, Facts, Interface};
pub use files::{Content, Digested, Entry, FileFound, ListingFound, Part, Tail};
pub use make::NewFile;
pub use metadata::{InstanceFacts, METADATA, MetadataError, Notice};
pub use mounts::{Mount, Place, Space, read_mounts};
pub use ranks::RankProcess;
pub use remove::removable;
pub use request::{Answer, Request};
pub use series::{CheckpointFiles, SeriesState};
pub use serve::{
    AgentHello, AgentMessage, Hello, PROTOCOL, SentinelMessage, main, read_agent_line, serve,
};
