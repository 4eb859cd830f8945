//! Exports events and records for other programs: CSV, and Perfetto.

pub(crate) mod csv_events;
mod csv_records;
mod perfetto;

pub use csv_events::CsvEvents;
pub use csv_records::CsvRecords;
pub use perfetto::Perfetto;
