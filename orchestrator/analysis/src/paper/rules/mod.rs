//! Recompute rules: how a cell comes out of the paper's own inputs. One file for each family of tables.
//!
//! A rule reads other cells through [`At`] and gives the number without rounding; comparing it with print is not its business. Which inputs a
//! rule reads is noted, so that [`judge`](super::judge) can tell how far the rounding of the printed inputs reaches, and can try again with
//! inputs corrected that are known to be misprints.
//!
//! To add a rule: a file here with a type that implements [`Rule`], and a line in [`RULES`]. `paper.toml` then names it.

mod asynchronous;
mod cloud;
mod delegation;
mod example;
mod general;
mod io;
mod io_phase;
mod locator;
mod models;
mod sizes;
mod text;

pub use locator::At;
pub(super) use locator::Reads;

use super::{
    definition::{RuleUse, TableDefinition},
    judge::Modelled,
    printed::Recomputed,
};
use cvc_core::source::suggestion;
use cvc_model::FitError;

/// Why a cell cannot be recomputed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Because {
    /// It was measured.
    #[error("a measurement")]
    Measurement,
    /// The authors chose it: an input of the calculation.
    #[error("chosen by the authors: an input of the calculation")]
    Input,
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

impl From<FitError> for Because {
    fn from(refusal: FitError) -> Self {
        Self::Other(refusal.to_string())
    }
}

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

    /// How many words of `of` it needs, at least; those before [`Rule::columns`] are names of columns of the table.
    fn needs(&self) -> usize {
        0
    }

    /// How many of the words of `of` are names of columns of the same table.
    fn columns(&self) -> usize {
        self.needs()
    }

    /// The number of one cell.
    ///
    /// # Errors
    /// Why there is none.
    fn cell(&self, at: &At<'_>) -> Result<Recomputed, Because>;
}

/// Gives what another model says of the cells of a column. It is neither print nor a recomputation.
pub trait ModelRule: Sync {
    /// Name in `paper.toml`.
    fn name(&self) -> &'static str;

    /// What the model says of one cell.
    ///
    /// # Errors
    /// Why it says nothing.
    fn cell(&self, at: &At<'_>) -> Result<Modelled, Because>;
}

/// All rules.
pub static RULES: &[&dyn Rule] = &[
    &general::Sum,
    &general::Product,
    &general::PercentChange,
    &general::PercentDifference,
    &general::PercentError,
    &general::Difference,
    &general::Mean,
    &general::PopulationDeviation,
    &general::Quotient,
    &sizes::DataPowerLaw,
    &sizes::LibraryZone,
    &sizes::SharedMemoryZone,
    &sizes::SharedMemoryOfFour,
    &sizes::Stored,
    &sizes::Grid,
    &sizes::FileCount,
    &sizes::StoredInTheCloud,
    &sizes::MemoryArea,
    &example::Checkpoints,
    &io::Algorithm1,
    &cloud::CloudTime,
    &text::FittedEquation,
    &text::TextFact,
    &io_phase::RequestSize,
    &io_phase::PhaseTime,
    &io_phase::PhaseError,
    &asynchronous::AsynchronousOverhead,
    &asynchronous::AsynchronousShare,
    &delegation::MetadataOperations,
    &delegation::MetadataClaim,
];

/// All rules of models. To add one: a type that implements [`ModelRule`], and its name here.
pub static MODELS: &[&dyn ModelRule] = &[&models::Zones, &models::IoFiles];

/// A rule by its name.
pub fn rule(name: &str) -> Option<&'static dyn Rule> {
    RULES.iter().copied().find(|r| r.name() == name)
}

/// A rule of a model by its name.
pub fn model(name: &str) -> Option<&'static dyn ModelRule> {
    MODELS.iter().copied().find(|r| r.name() == name)
}

/// What is wrong with the use of a rule.
pub(super) struct WrongUse {
    pub message: String,
    pub hint: String,
}

/// Checks that a rule exists and has what it needs.
pub(super) fn check(used: &RuleUse, table: &TableDefinition) -> Result<(), WrongUse> {
    let name = used.name();
    let Some(rule) = rule(name) else {
        let hint = suggestion(name, "rules", RULES.iter().map(|r| r.name()));
        return Err(WrongUse { message: format!("there is no rule `{name}`"), hint });
    };
    if used.of().len() < rule.needs() {
        let message = format!("the rule `{name}` needs {} names in `of`, and there are {}", rule.needs(), used.of().len());
        return Err(WrongUse { message, hint: format!("write {{ name = \"{name}\", of = [...] }} with {}", rule.arguments()) });
    }
    for column in used.of().iter().take(rule.columns()) {
        if !table.columns.iter().any(|c| c.id == *column) {
            let hint = suggestion(column, "columns", table.columns.iter().map(|c| c.id.as_str()));
            return Err(WrongUse { message: format!("table {} has no column `{column}`", table.id), hint });
        }
    }
    Ok(())
}

/// Checks that a rule of a model exists.
pub(super) fn check_model(used: &RuleUse) -> Result<(), WrongUse> {
    match model(used.name()) {
        Some(_) => Ok(()),
        None => {
            let hint = suggestion(used.name(), "models", MODELS.iter().map(|r| r.name()));
            Err(WrongUse { message: format!("there is no model `{}`", used.name()), hint })
        }
    }
}
