//! How many findings of each severity there are.

use crate::document::ShownFinding;

/// The numbers of findings by severity, most severe first, such as `7 critical, 1 warning, 2 good`.
#[must_use]
pub fn severities(findings: &[ShownFinding]) -> String {
    let of = |word: &str| findings.iter().filter(|f| f.severity == word).count();
    let warnings = of("warning");
    let mut text = format!(
        "{} critical, {warnings} {}, {} good",
        of("critical"),
        if warnings == 1 { "warning" } else { "warnings" },
        of("good")
    );
    if of("info") > 0 {
        text += &format!(", {} to know", of("info"));
    }
    text
}
