//! Logs of Darshan 3: counters of every file, and with DXT every read and write.
//!
//! The format is that of Darshan's own `darshan-util` (`darshan-logutils.c`, `darshan-*-log-format.h`): a header, followed by regions that are
//! compressed separately. Regions are decompressed as a stream, so memory use does not depend on the size of the log.

mod counters;
mod dxt;
mod events;
mod header;
mod heatmap;
mod job;
mod layout;
mod log;
mod lustre;
mod module;
mod name_table;
mod names;
mod records;
mod region;
mod summary;
mod visitor;

pub use events::{read_dxt, read_dxt_after, read_dxt_of};
pub use header::{DarshanCompression, DarshanHeader, DarshanModuleInfo};
pub use job::{DarshanJob, DarshanMount};
pub use log::DarshanLog;
pub(crate) use log::version_2;
pub use module::DarshanModule;
pub use summary::{
    Common, DarshanSummary, DarshanSums, EachRecord, FileSums, HeatGrid, LayerTotal, ModuleReading,
    ModuleSummary, RankTime, RankTotal, RecordSums, summarize, summarize_each,
};
pub use visitor::{
    DarshanCounters, DarshanHeatmap, DarshanLustre, DarshanLustreComponent, DarshanRecordId,
    DarshanVisitor, DxtRecord, DxtSegment,
};
