//! Reruns of a paper's measurements: campaigns next to the paper's folder measure on the machines available here, and the results are compared with
//! the printed cells.
//!
//! `measured.toml` in the folder defines the runs of a table row, and the records of each column ([`Definition`]). [`CampaignMeasurements`]
//! contains the results of campaigns, and [`join`] combines both. A new paper needs no Rust code.

mod claims;
mod counts;
mod definition;
mod join;
mod measured;
mod runs;
mod select;
mod series;
mod show;

pub use claims::claims;
pub use definition::{
    Campaign, Definition, FILE, PrintedSwitch, SeriesClaim, SeriesDefinition, StepComparison, load,
};
pub use join::{
    Joined, JoinedCell, JoinedDifferences, JoinedTable, SeriesStep, UnmeasuredRow, join, programs,
};
pub use measured::MeasuredSeries;
pub use runs::CampaignMeasurements;
pub use series::{
    JoinedSeries, JudgedClaim, StoredFiles, SwitchRange, describe_series, switch_ranges,
};
pub use show::{VerdictTally, sections, tally};
