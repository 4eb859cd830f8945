//! Traces for people and programs.
//!
//! | file | what |
//! | --- | --- |
//! | `document.rs` | everything that is said of a trace: what `--json` prints, and what tables and pages are made of |
//! | `counted.rs` | the forms of counters in documents |
//! | `counters.rs` | what the counters of Darshan logs add up to, for documents |
//! | `csv_events.rs` | every event as a line of CSV, as it is read |
//! | `csv_records.rs` | every record of counters as a line of CSV, as it is read |
//! | `perfetto.rs` | the events for ui.perfetto.dev |
//! | `compare.rs` | what differs between two traces |
//! | `page/` | a trace as one self-contained page with plots |
//! | `zones.rs` | time per zone: writes of images laid over what the images are made of |
//! | `jobs.rs` | several Darshan logs as CSV and JSON |
//! | `severities.rs` | how many findings of each severity there are |
//! | `sinks.rs` | several sinks for one reading |

mod compare;
mod counted;
mod counters;
mod csv_events;
mod csv_records;
mod document;
mod jobs;
mod page;
mod perfetto;
mod severities;
mod sinks;
mod zones;

pub use compare::{Difference, TraceComparison, compare};
pub use counted::{ShownCounts, ShownLayer, ShownLog, ShownModule, ShownRank, ShownRecord};
pub use counters::Records;
pub use csv_events::CsvEvents;
pub use csv_records::CsvRecords;
pub use document::{
    BurstKind, ShownBurst, ShownFile, ShownFinding, ShownProcess, ShownRates, ShownStream,
    TraceDocument, TraceHead, document,
};
pub use jobs::{JobSum, JobsDocument, ModuleTotal, write_files_csv, write_jobs_csv};
pub use page::{PageError, PlotSink, Plots, page};
pub use perfetto::Perfetto;
pub use severities::severities;
pub use sinks::All;
pub use zones::{ZoneSink, ZoneTime, ZoneTimes};
