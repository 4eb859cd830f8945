//! Published works and their printed tables: what is printed, what comes out of the paper's own inputs, what was measured here.
//!
//! A work is a folder: `paper.toml` says what its tables are, `tables/*.csv` hold what is printed, `anomalies.csv` the cells that are wrong or
//! doubtful in print ([`load`]). Every cell is judged ([`judge`]): the number in print, [`Printed`], beside the number that comes out of the
//! paper's own inputs by a [rule](rules), [`Recomputed`], and beside what was measured here, [`MeasuredHere`]. The three are types of their
//! own; nothing makes one of them into another.

mod cell;
mod csv;
mod definition;
pub mod embedded;
mod judge;
mod load;
mod measured;
mod printed;
mod report;
pub mod rules;

pub use cell::{Cell, Misprint, PrintedTable};
pub use definition::{Anomaly, AnomalyCells, ColumnDefinition, Effect, Kind, Likely, TableDefinition};
pub use judge::{Corrected, Counts, Deviation, JudgedCell, JudgedMeasurement, JudgedTable, Modelled, Reproduction, Verdict, judge};
pub use load::{Paper, find, known, load};
pub use measured::{Agreement, CellKey, MeasuredHere, Measurements, Reason, agreement};
pub use printed::{Digits, Printed, Recomputed};
pub use report::report;
