//! The list of all rules, and checks of their use in `paper.toml`.

use super::{
    asynchronous, cloud, delegation, example, general, io, io_phase, models,
    rule::{ModelRule, Rule},
    sizes, text,
};
use crate::paper::definition::{RuleUse, TableDefinition};
use cvc_core::source::suggestion;

/// All rules.
pub static RULES: &[&dyn Rule] = &[
    &general::SumRule,
    &general::Product,
    &general::PercentChange,
    &general::PercentDifference,
    &general::PercentError,
    &general::DifferenceRule,
    &general::Mean,
    &general::PopulationDeviation,
    &general::VariationCoefficient,
    &general::Quotient,
    &sizes::DataPowerLaw,
    &sizes::LibraryZone,
    &sizes::SharedMemoryZone,
    &sizes::SharedMemoryOfFour,
    &sizes::StoredRule,
    &sizes::GridRule,
    &sizes::CollectiveReads,
    &sizes::FileCountRule,
    &sizes::StoredInTheCloud,
    &sizes::MemoryArea,
    &example::Checkpoints,
    &io::Algorithm1,
    &cloud::CloudTime,
    &text::FittedEquation,
    &text::TextFact,
    &io_phase::RequestSize,
    &io_phase::PhaseTime,
    &io_phase::PhaseErrorRule,
    &asynchronous::AsynchronousOverhead,
    &asynchronous::AsynchronousShare,
    &delegation::MetadataOperations,
    &delegation::MetadataClaim,
    &delegation::LayoutOperationsRule,
];

/// All rules of models. To add one, write a type that implements [`ModelRule`], and list it here.
pub static MODELS: &[&dyn ModelRule] = &[&models::ZonesRule, &models::IoFiles];

/// Returns a rule by its name.
pub fn rule(name: &str) -> Option<&'static dyn Rule> {
    RULES.iter().copied().find(|r| r.name() == name)
}

/// Returns a model's rule by its name.
pub fn model(name: &str) -> Option<&'static dyn ModelRule> {
    MODELS.iter().copied().find(|r| r.name() == name)
}

/// An incorrect use of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongUse {
    /// The problem.
    pub message: String,
    /// How to correct it.
    pub hint: String,
}

/// Checks that a rule exists and that its arguments are valid.
pub(in crate::paper) fn check(used: &RuleUse, table: &TableDefinition) -> Result<(), WrongUse> {
    let name = used.name();
    let Some(rule) = rule(name) else {
        let hint = suggestion(name, "rules", RULES.iter().map(|r| r.name()));
        return Err(WrongUse {
            message: format!("unknown rule `{name}`"),
            hint,
        });
    };
    if used.of().len() < rule.needs() {
        let message = format!(
            "the rule `{name}` needs {} names in `of`, and there are {}",
            rule.needs(),
            used.of().len()
        );
        return Err(WrongUse {
            message,
            hint: format!(
                "write {{ name = \"{name}\", of = [...] }} with {}",
                rule.arguments()
            ),
        });
    }
    for column in used.of().iter().take(rule.columns()) {
        if !table.columns.iter().any(|c| c.id == *column) {
            let hint = suggestion(
                column,
                "columns",
                table.columns.iter().map(|c| c.id.as_str()),
            );
            return Err(WrongUse {
                message: format!("table {} has no column `{column}`", table.id),
                hint,
            });
        }
    }
    Ok(())
}

/// Checks that a model's rule exists.
pub(in crate::paper) fn check_model(used: &RuleUse) -> Result<(), WrongUse> {
    match model(used.name()) {
        Some(_) => Ok(()),
        None => {
            let hint = suggestion(used.name(), "models", MODELS.iter().map(|r| r.name()));
            Err(WrongUse {
                message: format!("unknown model `{}`", used.name()),
                hint,
            })
        }
    }
}
