//! Reads traces of DFTracer: lines of JSON in `.pfw` and `.pfw.gz`, one file for each process.
//!
//! Limits of the format: a call names the file but not the descriptor, so positions are unknown if a process opens a file more than once. Calls on
//! descriptors from `dup` are not recorded. Version 2 does not record whether an `open` failed.

mod calls;
mod line;
mod reader;
mod state;

pub use reader::{read_dftracer, read_dftracer_files};
