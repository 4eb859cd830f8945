//! Texts of verdicts.

use super::{judge::CellVerdict, printed::Digits};
use cvc_show::Mark;

/// Returns a verdict as a mark and a text.
pub(super) fn describe_verdict(verdict: &CellVerdict) -> (Mark, String) {
    let with = |corrected: &[String]| {
        if corrected.is_empty() {
            String::new()
        } else {
            format!(", with {} corrected", corrected.join(" and "))
        }
    };
    match verdict {
        CellVerdict::Empty | CellVerdict::Label => (Mark::Label, String::new()),
        CellVerdict::Equal {
            digits: Digits::Rounded,
            corrected,
        } => (
            Mark::Equal,
            format!("equal to the printed digits{}", with(&corrected.0)),
        ),
        CellVerdict::Equal {
            digits: Digits::Cut,
            corrected,
        } => (
            Mark::Equal,
            format!(
                "equal to the printed digits, which are cut off{}",
                with(&corrected.0)
            ),
        ),
        CellVerdict::Inferred {
            constant,
            corrected,
            ..
        } => {
            let text = format!(
                "fitted: matches only because a constant was fitted to these same cells ({constant}){}",
                with(&corrected.0)
            );
            (Mark::Inferred, text)
        }
        CellVerdict::Within {
            tolerance,
            because,
            corrected,
        } => (
            Mark::Within,
            format!(
                "within {}: {because}{}",
                significant(*tolerance),
                with(&corrected.0)
            ),
        ),
        CellVerdict::Differs => (Mark::Differs, "differs".to_owned()),
        CellVerdict::PrintedWrong {
            anomaly,
            likely,
            why,
            confidence,
            ..
        } => (
            Mark::Wrong,
            format!(
                "misprint ({anomaly}, confidence {}), probably {likely}: {why}",
                confidence.word()
            ),
        ),
        CellVerdict::Cannot { because } => (Mark::Cannot, format!("not checkable: {because}")),
    }
}

/// Formats a tolerance with two significant digits.
fn significant(value: f64) -> String {
    let decimals = if value > 0.0 {
        (1 - value.log10().floor() as i32).clamp(0, 12) as usize
    } else {
        0
    };
    format!("{value:.decimals$}")
}
