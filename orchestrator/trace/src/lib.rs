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
pub mod jobs;
mod lines;
mod overlay;
pub mod profile;
mod read;
mod sink;
mod spread;
mod strace;

pub use darshan::{
    Common, DarshanCompression, DarshanCounters, DarshanHeader, DarshanHeatmap, DarshanJob,
    DarshanLog, DarshanLustre, DarshanLustreComponent, DarshanModule, DarshanModuleInfo,
    DarshanMount, DarshanRecordId, DarshanSummary, DarshanSums, DarshanVisitor, DxtRecord,
    DxtSegment, EachRecord, FileSums, HeatGrid, LayerTotal, ModuleReading, ModuleSummary, RankTime,
    RankTotal, RecordSums, read_dxt, read_dxt_after, read_dxt_of, summarize, summarize_each,
};
pub use dftracer::{read_dftracer, read_dftracer_files};
pub use event::{Api, Event, FileId, Op, ProcessId};
pub use overlay::{Overlay, PartTime};
pub use read::{TraceKind, TraceOrigin, has_events, kind_of, read_trace};
pub use sink::{Missing, Process, Sink, TextSummary, TraceError};
pub use strace::{read_strace, read_strace_files};
