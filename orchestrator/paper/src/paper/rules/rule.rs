//! Rules, which recompute cells or return the values of a model for them.

use super::{because::NotRecomputable, locator::CellContext};
use crate::paper::{modelled::Modelled, printed::Recomputed};

/// Recomputes the cells of a column.
pub trait Rule: Sync {
    /// Returns the name in `paper.toml`.
    fn name(&self) -> &'static str;

    /// Returns the formula with its source, which is shown below the table.
    fn about(&self) -> &'static str;

    /// Returns a text about the arguments in `of`.
    fn arguments(&self) -> &'static str {
        "names of columns"
    }

    /// Returns the minimum number of words in `of`. The first [`Rule::columns`] of them are names of columns of the table.
    fn needs(&self) -> usize {
        0
    }

    /// Returns the number of words in `of` that are names of columns of the same table.
    fn columns(&self) -> usize {
        self.needs()
    }

    /// Returns the number for one cell.
    ///
    /// # Errors
    /// The reason why there is none.
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable>;
}

/// Returns the values of another model for the cells of a column. They are neither printed nor recomputed numbers.
pub trait ModelRule: Sync {
    /// Returns the name in `paper.toml`.
    fn name(&self) -> &'static str;

    /// Returns the value of the model for one cell.
    ///
    /// # Errors
    /// The reason why there is none.
    fn cell(&self, at: &CellContext<'_>) -> Result<Modelled, NotRecomputable>;
}
