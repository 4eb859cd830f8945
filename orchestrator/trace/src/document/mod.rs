//! Reports on one trace or several: printed by `--json`, and the source of tables and pages.
//!
//! | file | contents |
//! | --- | --- |
//! | `model.rs` | a trace: files, processes, bursts, findings |
//! | `counted.rs`, `counters.rs` | sums of the counters of Darshan logs |
//! | `compare.rs` | differences between two traces |
//! | `jobs.rs` | several Darshan logs |
//! | `severities.rs` | number of findings of each severity |

mod compare;
mod counted;
mod counters;
mod jobs;
mod model;
mod severities;

pub use compare::{TraceComparison, TraceDifference, compare};
pub use counted::{ShownCounts, ShownLog, ShownModule, ShownRecord};
pub use counters::CounterRecords;
pub use jobs::{JobSum, JobsDocument, ModuleTotal, write_files_csv, write_jobs_csv};
pub use model::{
    BurstKind, ShownBurst, ShownFile, ShownProcess, ShownRates, ShownStream, TraceDocument,
    TraceHead, document,
};
pub use severities::severities;
