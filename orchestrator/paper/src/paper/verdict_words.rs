//! Verdicts as readers see them.

use super::{judge::Verdict, printed::Digits};
use cvc_show::Mark;

/// A verdict as a mark and in words.
pub(super) fn words(verdict: &Verdict) -> (Mark, String) {
    let with = |corrected: &[String]| {
        if corrected.is_empty() {
            String::new()
        } else {
            format!(", with {} corrected", corrected.join(" and "))
        }
    };
    match verdict {
        Verdict::Empty | Verdict::Label => (Mark::Label, String::new()),
        Verdict::Equal {
            digits: Digits::Rounded,
            corrected,
        } => (
            Mark::Equal,
            format!("equal to the printed digits{}", with(&corrected.0)),
        ),
        Verdict::Equal {
            digits: Digits::Cut,
            corrected,
        } => (
            Mark::Equal,
            format!(
                "equal to the printed digits, which are cut off{}",
                with(&corrected.0)
            ),
        ),
        Verdict::Inferred {
            constant,
            corrected,
            ..
        } => {
            let text = format!(
                "equal to the printed digits by a constant that was inferred from them ({constant}){}",
                with(&corrected.0)
            );
            (Mark::Inferred, text)
        }
        Verdict::Within {
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
        Verdict::Differs => (Mark::Differs, "differs".to_owned()),
        Verdict::PrintedWrong {
            anomaly,
            likely,
            why,
            confidence,
            ..
        } => (
            Mark::Wrong,
            format!(
                "wrong in print ({anomaly}, confidence {}), probably {likely}: {why}",
                confidence.word()
            ),
        ),
        Verdict::Cannot { because } => (Mark::Cannot, format!("cannot be recomputed: {because}")),
    }
}

/// A tolerance with two significant digits.
fn significant(value: f64) -> String {
    let decimals = if value > 0.0 {
        (1 - value.log10().floor() as i32).clamp(0, 12) as usize
    } else {
        0
    };
    format!("{value:.decimals$}")
}
