//! From observed checkpoints to those of any mapping, process count or class.
//!
//! | file | what |
//! | --- | --- |
//! | [`observation`] | what was observed at a point: quantities by name and unit |
//! | [`index`], [`csv`] | where observations come from: a campaign, a table |
//!
//! Nothing here is invented: a quantity without data or model is a line that says why there is no prediction.

mod csv;
mod error;
mod index;
mod observation;

pub use csv::from_csv;
pub use error::PredictError;
pub(crate) use index::TAKEN;
pub use index::from_index;
pub use observation::{Observation, Quantity, mpi_kind_of_fact, mpi_kind_of_name};
