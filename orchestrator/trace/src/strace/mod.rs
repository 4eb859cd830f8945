//! Text of `strace -f -ttt -T -y`, in one file or in one for each task (`-ff`).
//!
//! Files of one run are merged by the times of their lines, so that what a process inherits is known when it uses it. A file is open only while its
//! tasks live, and of each open file one block is in memory.

mod calls;
mod descriptors;
mod effects;
mod merge;
mod reader;
mod run;
mod state;
mod syntax;

pub use merge::{read_strace, read_strace_files};
