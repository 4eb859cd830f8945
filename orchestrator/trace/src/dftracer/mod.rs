//! Traces of DFTracer: lines of JSON in `.pfw` and `.pfw.gz`, one file for each process.
//!
//! What the format cannot tell: calls are recorded with the file, not the descriptor, so that of a file which a process has open twice no positions
//! are known; calls on descriptors that `dup` made are not recorded, and neither is, by version 2, whether an `open` failed.

mod calls;
mod line;
mod reader;
mod state;

pub use reader::{read_dftracer, read_dftracer_files};
