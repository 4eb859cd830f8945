//! Sums of the counters of a log.
//!
//! | file | contents |
//! | --- | --- |
//! | `sums.rs` | the counters of a record, or the sum of several records |
//! | `common.rs` | the most common sizes and strides |
//! | `heat.rs` | bytes of ranks over time |
//! | `layers.rs` | selects the sums of the lowest interface |
//! | `log.rs` | a log: its job, modules, files |

mod common;
mod heat;
mod layers;
mod log;
mod sums;

pub use common::Common;
pub use heat::HeatGrid;
pub use layers::LayerTotal;
pub use log::{
    DarshanSummary, EachRecord, FileSums, ModuleReading, ModuleSummary, RankTotal, RecordSums,
    summarize, summarize_each,
};
pub use sums::{DarshanSums, RankTime};
