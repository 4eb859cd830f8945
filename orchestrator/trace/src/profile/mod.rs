//! Analyses the events of a trace: files and how they are used, patterns of offsets, bursts, rates, writers.
//!
//! | file | contents |
//! | --- | --- |
//! | `profiler.rs` | receives events; memory use grows with files and processes, not with events |
//! | `file_use.rs` | one file: which processes used it, how, and in which pattern |
//! | `stream.rs`, `sizes.rs` | the reads or writes of one process on one file |
//! | `intervals.rs` | disjoint intervals: bursts and extents |
//! | `rates.rs` | bytes over time |

mod file_use;
mod intervals;
mod profiler;
mod rates;
mod sizes;
mod stream;

pub(crate) use file_use::is_of_run;
pub use file_use::{FileUse, Metadata, Usage, role_of};
pub use intervals::{IntervalSum, Intervals};
pub use profiler::{Burst, Profile, Profiler, usual_gap_ns};
pub use rates::Rates;
pub use sizes::SizeBins;
pub use stream::{SpatialPattern, Stream};
