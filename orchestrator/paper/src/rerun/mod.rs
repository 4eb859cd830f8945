//! Reruns of a paper's measurements: campaigns beside its folder measure on today's machines, and what they measured is put beside the
//! printed cells.
//!
//! `measured.toml` in the folder says which runs a row of a table is about, and which records belong into which column ([`Definition`]);
//! [`CampaignMeasurements`] holds what campaigns left, and [`join`] puts both together. A new paper needs no Rust.

mod definition;
mod join;
mod measured;
mod runs;
mod select;
mod series;
mod show;

pub use definition::{
    Campaign, Definition, FILE, PrintedSwitch, SeriesClaim, SeriesDefinition, load,
};
pub use join::{
    Joined, JoinedCell, JoinedDifferences, JoinedTable, SeriesStep, UnmeasuredRow, join, programs,
};
pub use measured::MeasuredSeries;
pub use runs::CampaignMeasurements;
pub use series::{JoinedSeries, JudgedClaim, StoredFiles, SwitchRange, switch_ranges, told};
pub use show::{Tally, sections, tally};
