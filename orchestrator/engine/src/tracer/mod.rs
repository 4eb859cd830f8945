//! Tracers: what records the I/O of a run.
//!
//! To add one: a file here that implements [`Tracer`], and its line in `cvc_core::registry`.

mod contract;
mod darshan;
mod none;
mod registry;
mod strace;

pub use contract::{Instrumentation, NODE, TraceError, Tracer, files_of};
pub use registry::{all, tracer};
