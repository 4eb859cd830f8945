//! Reads traces of I/O: logs of Darshan (with DXT), text of strace, and lines of DFTracer.
//!
//! A reader processes a trace once, in bounded memory, and passes its contents to a [`Sink`]: processes, files and events, in the same form for all
//! tracers. It never panics on its input: the readable parts of a damaged trace are passed on, and missing parts are reported as [`Missing`]. All
//! types are `Send`, there is no async code, and this crate does not depend on the rest of cvc.

mod darshan;
mod dftracer;
pub mod document;
mod event;
mod export;
mod files;
pub mod findings;
pub mod jobs;
mod lines;
pub mod metadata_operations;
mod overlay;
pub mod phases;
pub mod profile;
mod read;
mod sequences;
mod sink;
mod spread;
mod strace;
mod zones;

pub use darshan::{
    Common, DarshanCompression, DarshanCounters, DarshanHeader, DarshanHeatmap, DarshanJob,
    DarshanLog, DarshanLustre, DarshanLustreComponent, DarshanModule, DarshanModuleInfo,
    DarshanMount, DarshanRecordId, DarshanSummary, DarshanSums, DarshanVisitor, DxtRecord,
    DxtSegment, EachRecord, FileSums, HeatGrid, LayerTotal, ModuleReading, ModuleSummary, RankTime,
    RankTotal, RecordSums, read_dxt, read_dxt_after, read_dxt_of, summarize, summarize_each,
};
pub use dftracer::{read_dftracer, read_dftracer_files};
pub use event::{Api, Event, FileId, Op, ProcessId};
pub use export::{CsvEvents, CsvRecords, Perfetto};
pub use overlay::{Overlay, PartTime, TimeBySize};
pub use read::{TraceKind, TraceOrigin, has_events, kind_of, read_trace};
pub use sequences::{OperationOrder, OrderSink, Orders, Repetition, Step};
pub use sink::{All, Missing, Process, Sink, TextSummary, TraceError};
pub use strace::{read_strace, read_strace_files};
pub use zones::{ZoneLine, ZoneSink, ZoneTime, ZoneTimes};
