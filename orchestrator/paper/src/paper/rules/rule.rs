//! What a rule is: it recomputes cells, or gives what a model says of them.

use super::{because::NotRecomputable, locator::CellContext};
use crate::paper::{modelled::Modelled, printed::Recomputed};

/// Recomputes the cells of a column.
pub trait Rule: Sync {
    /// Name in `paper.toml`.
    fn name(&self) -> &'static str;

    /// The formula, with its source, for the foot of the table.
    fn about(&self) -> &'static str;

    /// What belongs into `of`, in words.
    fn arguments(&self) -> &'static str {
        "names of columns"
    }

    /// Minimum number of words in `of`; those before [`Rule::columns`] are names of columns of the table.
    fn needs(&self) -> usize {
        0
    }

    /// Number of words in `of` that are names of columns of the same table.
    fn columns(&self) -> usize {
        self.needs()
    }

    /// The number of one cell.
    ///
    /// # Errors
    /// Why there is none.
    fn cell(&self, at: &CellContext<'_>) -> Result<Recomputed, NotRecomputable>;
}

/// Gives what another model says of the cells of a column. It is neither print nor a recomputation.
pub trait ModelRule: Sync {
    /// Name in `paper.toml`.
    fn name(&self) -> &'static str;

    /// What the model says of one cell.
    ///
    /// # Errors
    /// Why it says nothing.
    fn cell(&self, at: &CellContext<'_>) -> Result<Modelled, NotRecomputable>;
}
