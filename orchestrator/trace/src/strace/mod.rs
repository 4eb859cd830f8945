//! Reads text of `strace -f -ttt -T -y`, in one file or in one for each task (`-ff`).
//!
//! Files of one run are merged by the times of their lines, so that inherited descriptors are known before a process uses them. A file is open only
//! while its task exists, and one block of each open file is in memory.

pub(crate) mod calls;
mod descriptors;
mod effects;
mod merge;
mod reader;
mod run;
mod state;
pub(crate) mod syntax;

pub use merge::{read_strace, read_strace_files};
