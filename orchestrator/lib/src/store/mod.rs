//! What is kept of a campaign, and the index over it.

mod error;
mod fold;
pub mod index;
mod load;

pub use error::StoreError;
pub use fold::{Attempt, Campaign, RunState, fold};
pub use index::Index;
