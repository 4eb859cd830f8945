//! The summary at the end of a test run.

use super::job::{Outcome, Report};
use std::{collections::BTreeMap, time::Duration};

/// Number of slowest tests shown.
const SLOWEST: usize = 20;

/// Counts and names of finished tests.
#[derive(Debug, Default)]
pub struct Tally {
    passed: u64,
    failed: Vec<String>,
    skipped: BTreeMap<String, Vec<String>>,
    ignored: Vec<String>,
    took: Vec<(Duration, String)>,
}

impl Tally {
    /// Adds a finished job.
    pub fn add(&mut self, report: &Report) {
        self.took.push((report.took, report.name.clone()));
        match &report.outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(reason) if reason == "failed" => self.failed.push(report.name.clone()),
            Outcome::Failed(reason) => self.failed.push(format!("{} ({reason})", report.name)),
            Outcome::Skipped(needs) => _ = self.skipped.insert(report.name.clone(), needs.clone()),
            Outcome::Documentation {
                passed,
                failed,
                ignored,
            } => {
                self.passed += passed;
                self.failed.extend(failed.iter().cloned());
                self.ignored.extend(ignored.iter().cloned());
            }
        }
    }

    /// Adds a test marked `#[ignore]`.
    pub fn ignore(&mut self, name: String) {
        self.ignored.push(name);
    }

    /// Adds a failure outside of tests.
    pub fn fail(&mut self, what: String) {
        self.failed.push(what);
    }

    /// Tells whether nothing failed.
    pub fn succeeded(&self) -> bool {
        self.failed.is_empty()
    }

    /// Formats the summary; its last line contains the counts.
    pub fn summary(&self) -> String {
        let mut lines = vec![String::new()];
        let mut slowest: Vec<&(Duration, String)> = self.took.iter().collect();
        slowest.sort_by(|a, b| b.cmp(a));
        if slowest.len() > 1 {
            lines.push("slowest:".into());
            lines.extend(
                slowest
                    .iter()
                    .take(SLOWEST)
                    .map(|(took, name)| format!("  {:7.2} s  {name}", took.as_secs_f64())),
            );
        }
        if !self.failed.is_empty() {
            lines.push("failed:".into());
            lines.extend(self.failed.iter().map(|f| format!("  {f}")));
        }
        if !self.skipped.is_empty() || !self.ignored.is_empty() {
            lines.push("skipped on this machine:".into());
            lines.extend(
                self.skipped
                    .iter()
                    .map(|(test, needs)| format!("  {test}: needs {}", needs.join(" and "))),
            );
            lines.extend(self.ignored.iter().map(|test| format!("  {test}: ignored")));
            let mut tools: BTreeMap<&str, usize> = BTreeMap::new();
            for tool in self.skipped.values().flatten() {
                *tools.entry(tool).or_default() += 1;
            }
            lines.extend(
                tools
                    .iter()
                    .map(|(tool, tests)| format!("  {tests} for want of {tool}")),
            );
        }
        let skipped = self.skipped.len() + self.ignored.len();
        lines.push(format!(
            "{} passed, {} failed, {skipped} skipped",
            self.passed,
            self.failed.len()
        ));
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &str, seconds: u64, outcome: Outcome) -> Report {
        Report {
            name: name.into(),
            outcome,
            took: Duration::from_secs(seconds),
            output: String::new(),
        }
    }

    #[test]
    fn a_skipped_test_does_not_count_as_passed() {
        let mut tally = Tally::default();
        let documentation = Outcome::Documentation {
            passed: 4,
            failed: vec!["src/a.rs - a".into()],
            ignored: vec!["src/a.rs - b".into()],
        };
        for report in [
            report("p a::one", 1, Outcome::Passed),
            report("p a::two", 7, Outcome::Failed("failed".into())),
            report(
                "p hung",
                900,
                Outcome::Failed("hung: killed after 900 s".into()),
            ),
            report(
                "p b",
                0,
                Outcome::Skipped(vec!["DMTCP".into(), "strace".into()]),
            ),
            report("p c", 0, Outcome::Skipped(vec!["DMTCP".into()])),
            report("documentation", 2, documentation),
        ] {
            tally.add(&report);
        }
        tally.ignore("p slow".into());
        let summary = tally.summary();
        assert!(
            summary.ends_with("\n5 passed, 3 failed, 4 skipped\n"),
            "{summary}"
        );
        let lines = [
            "   900.00 s  p hung",
            "  p a::two",
            "  p hung (hung: killed after 900 s)",
            "  src/a.rs - a",
            "  p b: needs DMTCP and strace",
            "  p slow: ignored",
            "  2 for want of DMTCP",
        ];
        for line in lines {
            assert!(summary.lines().any(|l| l == line), "{line}: {summary}");
        }
        assert!(!tally.succeeded());
    }

    #[test]
    fn without_failures_and_skips_only_durations_and_counts_are_shown() {
        let mut tally = Tally::default();
        (0..30).for_each(|n| tally.add(&report(&format!("p t{n}"), n, Outcome::Passed)));
        let summary = tally.summary();
        assert_eq!(summary.lines().count(), 1 + 1 + SLOWEST + 1, "{summary}");
        assert!(
            summary.starts_with("\nslowest:\n    29.00 s  p t29\n")
                && summary.ends_with("\n30 passed, 0 failed, 0 skipped\n"),
            "{summary}"
        );
        assert_eq!(
            Tally::default().summary(),
            "\n0 passed, 0 failed, 0 skipped\n"
        );
    }
}
