//! Reads counters of metadata operations: counts that file systems keep for their clients, and system calls, under common names.
//!
//! A counter reader processes a text line by line. All implement [`MetadataCounter`], each in its own file. Counters of file systems are
//! cumulative, so the counts of a run are the difference between after and before. If a node is lost or a server restarts, counts become unknown,
//! never too small.

mod counter;
mod difference;
mod glusterfs;
mod kind;
mod lustre;
mod moosefs;
mod nfs;
mod orangefs;
mod read;
mod registry;
mod strace;

pub use counter::{CounterLines, CounterOptions, CounterSnapshot, MetadataCounter, SourceSnapshot};
pub use difference::{
    CountedKind, MetadataCounts, NativeCount, SourceCounts, difference, since_start,
};
pub use kind::MetadataKind;
pub use read::{CounterError, read_counter_text, read_counters};
pub use registry::COUNTERS;
