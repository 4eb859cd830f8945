//! Counts findings by severity.

use crate::findings::{Finding, Severity};

/// Returns the number of findings by severity, most severe first, such as `7 critical, 1 warning, 2 good`.
#[must_use]
pub fn severities(findings: &[Finding]) -> String {
    let of = |severity| findings.iter().filter(|f| f.severity == severity).count();
    let warnings = match of(Severity::Warning) {
        1 => "1 warning".to_owned(),
        n => format!("{n} warnings"),
    };
    let (high, good) = (of(Severity::High), of(Severity::Good));
    match of(Severity::Info) {
        0 => format!("{high} critical, {warnings}, {good} good"),
        n => format!("{high} critical, {warnings}, {good} good, {n} to know"),
    }
}
