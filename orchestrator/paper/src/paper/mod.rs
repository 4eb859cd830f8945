//! Published works and their printed tables: what is printed, what comes out of the paper's own inputs, what was measured here.
//!
//! A work is a folder: `paper.toml` says what its tables are, `tables/*.csv` hold what is printed, `anomalies.csv` the cells that are wrong or
//! doubtful in print ([`load`]). Every cell is judged ([`judge`]): the number in print, [`Printed`], beside the number that comes out of the
//! paper's own inputs by a [rule](rules), [`Recomputed`], and beside what was measured here, [`MeasuredHere`]. The three are types of their
//! own; nothing makes one of them into another.

mod agreement;
mod cell;
mod cells;
mod definition;
pub mod embedded;
mod judge;
mod load;
mod measured;
mod misprints;
mod modelled;
mod printed;
mod published;
mod report;
pub mod rules;
mod verdict_words;

pub use cell::{Cell, Misprint, PrintedTable};
pub use definition::{
    Anomaly, AnomalyCells, ColumnDefinition, Effect, Kind, Likely, TableDefinition,
};
pub use judge::{
    Corrected, Counts, Deviation, JudgedCell, JudgedMeasurement, JudgedTable, Reproduction,
    Verdict, judge,
};
pub use load::{find, known, load};
pub use measured::{Agreement, CellKey, MeasuredHere, Measurements, Reason, agreement};
pub use misprints::{FoundMisprint, misprints};
pub use modelled::Modelled;
pub use printed::{Digits, Printed, Recomputed};
pub use published::Paper;
pub use report::report;
