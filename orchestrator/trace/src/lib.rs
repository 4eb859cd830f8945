//! Traces of I/O: the logs of Darshan (with DXT), the text of strace, the lines of DFTracer.
//!
//! A reader goes through a trace once, in bounded memory, and hands what it finds to a [`Sink`]: processes, files and events of one model, whoever
//! recorded them. It never panics on what it reads: what a damaged trace still has is handed over, and what is missing is told as [`Missing`].
//! Everything here is `Send` and free of async code, and knows nothing of cvc.

mod darshan;
mod dftracer;
mod event;
mod files;
pub mod findings;
mod lines;
pub mod profile;
mod sink;
mod strace;

pub use darshan::{
    DarshanCompression, DarshanCounters, DarshanHeader, DarshanHeatmap, DarshanJob, DarshanLog,
    DarshanLustre, DarshanLustreComponent, DarshanModule, DarshanModuleInfo, DarshanMount,
    DarshanRecordId, DarshanVisitor, DxtRecord, DxtSegment, read_dxt, read_dxt_of,
};
pub use dftracer::{read_dftracer, read_dftracer_files};
pub use event::{Api, Event, FileId, Op, ProcessId};
pub use sink::{Missing, Process, Sink, TextSummary, TraceError};
pub use strace::{read_strace, read_strace_files};
