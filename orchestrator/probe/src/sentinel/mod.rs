//! The sentinel: one small process on every node of a site. It answers the agent's requests, ends processes on request, and sends heartbeats.
//!
//! The protocol is JSON lines on standard input and output, over any connection (ssh, srun, a pipe). A request is `{"id":1,"do":"clock"}`, its answer
//! `{"id":1,"ok":{…}}` or `{"id":1,"error":"…"}`. Between the answers there are heartbeats, `{"beat":7,"at_ns":…}`. When the connection closes, or
//! the agent is silent for longer than agreed, the sentinel ends the processes that it guards, and exits.

mod answer;
mod conditions;
mod copy;
mod deltas;
mod end;
mod error;
mod facts;
mod files;
mod levels;
mod make;
mod metadata;
mod mounts;
mod ranks;
mod remove;
mod request;
mod series;
mod serve;
mod storage;

pub use answer::{Sentinel, answer};
pub use conditions::{Conditions, NodeActivity, NodeSettings, doubt};
pub use deltas::{DeltaDone, DeltaOptions, DeltaProblem, DeltaWork, StoredFigures};
pub use end::{EndedProcess, EndedProcesses};
pub use error::SentinelError;
pub use facts::{CpuFacts, Interface, NodeFacts, cpu_here, memory_bytes_here};
pub use files::{Digested, FileContent, FileFound, FilePart, ListedEntry, ListingFound, Tail};
pub use levels::{
    FileTable, Flow, FlowSource, FlowTarget, KeptKind, KeptPart, KeptPath, LevelDone,
    LevelManifest, LevelProblem, LevelWork, Movement, Piece, PortRequest, StreamLink, StreamTarget,
    StreamToken,
};
pub use make::NewFile;
pub use metadata::{InstanceFacts, METADATA, MetadataError, MetadataNotice};
pub use mounts::{Mount, MountPlace, MountSpace, file_system_type, read_mounts};
pub use ranks::RankProcess;
pub use remove::removable;
pub use request::{SentinelAnswer, SentinelRequest};
pub use series::{CheckpointFiles, SeriesState};
pub use serve::{
    AgentHello, AgentMessage, Hello, PROTOCOL, SentinelMessage, main, read_agent_line, serve,
};
pub use storage::{CounterText, ServersFound, ServersOf};
