//! Published works and their printed tables: printed numbers, numbers recomputed from the paper's own inputs, and measurements made here.
//!
//! A work is a folder. `paper.toml` defines its tables, `tables/*.csv` contain the printed cells, `anomalies.csv` lists the cells that are wrong or
//! doubtful in print, and `claims.toml` the claims of the work about its numbers ([`load`]). Every cell is judged ([`judge`]): the printed number,
//! [`Printed`], is compared with the number that a [rule](rules) computes from the paper's own inputs, [`Recomputed`], and with the measurement
//! made here, [`MeasuredHere`]. These are separate types without conversions.

mod agreement;
mod cell;
mod cells;
mod claim;
mod claims;
mod definition;
pub mod embedded;
mod figures;
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
pub use claim::{Claim, Test};
pub use claims::{
    ClaimCounts, ClaimOutcome, ClaimVerdict, Item, SideOutcome, TestOutcome, check as check_test,
    evaluate as judge_claims,
};
pub use definition::{
    Anomaly, AnomalyCells, CellValues, ColumnDefinition, Effect, FigureDefinition, Kind, Likely,
    TableDefinition,
};
pub use judge::{
    CellCounts, CellVerdict, Corrected, Deviation, JudgedCell, JudgedMeasurement, JudgedTable,
    ProbableFault, Reproduction, judge,
};
pub use load::{find, known, load};
pub use measured::{Agreement, CellKey, MeasuredHere, Measurements, UnmeasuredReason, agreement};
pub use misprints::{FoundMisprint, misprints};
pub use modelled::Modelled;
pub use printed::{Digits, Printed, Recomputed};
pub use published::Paper;
pub use report::report;
