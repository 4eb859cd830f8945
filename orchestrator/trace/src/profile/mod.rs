//! What follows from the events of a trace: files and how they are used, patterns of places, bursts, rates, who writes.
//!
//! | file | what |
//! | --- | --- |
//! | `profiler.rs` | takes events, in memory that grows with files and processes and not with events |
//! | `file_use.rs` | one file: who used it, how, in which pattern |
//! | `stream.rs`, `sizes.rs` | the reads or writes of one process on one file |
//! | `intervals.rs` | disjoint intervals: bursts and extents |
//! | `rates.rs` | bytes over time |

mod file_use;
mod intervals;
mod profiler;
mod rates;
mod sizes;
mod stream;

pub use file_use::{FileUse, Metadata, Usage, role_of};
pub use intervals::{IntervalSum, Intervals};
pub use profiler::{Burst, Profile, Profiler, usual_gap_ns};
pub use rates::Rates;
pub use sizes::SizeBins;
pub use stream::{SpatialPattern, Stream};
