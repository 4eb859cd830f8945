//! Tracers, which record the I/O of a run.
//!
//! To add a tracer: a file here that implements [`Tracer`], and its line in `cvc_core::registry`.

mod contract;
mod darshan;
mod dftracer;
mod mpi_io;
mod none;
mod places;
mod records;
mod registry;
mod strace;
mod totals;

pub use contract::{Instrumentation, NODE, TraceError, Tracer, files_of};
pub use mpi_io::LOGS as MPI_IO_LOGS;
pub use places::Places;
pub use registry::{all, tracer};
pub use totals::{CheckpointIo, Moved, Totals};
