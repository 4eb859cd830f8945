//! Tracers: what records the I/O of a run.
//!
//! To add one: a file here that implements [`Tracer`], and its line in `cvc_core::registry`.

mod contract;
mod darshan;
mod dftracer;
mod none;
mod places;
mod records;
mod registry;
mod strace;
mod totals;

pub use contract::{Instrumentation, NODE, TraceError, Tracer, files_of};
pub use places::Places;
pub use registry::{all, tracer};
pub use totals::{Moved, Totals};
