//! The summary at the end of a test run.

use super::{
    job::{Outcome, Report},
    tiers::Tiers,
};
use std::{collections::BTreeMap, time::Duration};

/// Number of slowest tests shown.
const SLOWEST: usize = 20;

/// Minimum total time of a package's tests from which the package is shown even without a budget, seconds.
const SHOWN_FROM_S: f64 = 20.0;

/// Counts and names of finished tests.
#[derive(Debug, Default)]
pub struct Tally {
    passed: u64,
    failed: Vec<String>,
    skipped: BTreeMap<String, Vec<String>>,
    ignored: Vec<String>,
    left_out: BTreeMap<String, u64>,
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

    /// Adds a test of a slow family, which runs only with `--all`.
    pub fn leave_out(&mut self, family: &str) {
        *self.left_out.entry(family.to_owned()).or_default() += 1;
    }

    /// Adds a failure that is not a test's.
    pub fn fail(&mut self, what: String) {
        self.failed.push(what);
    }

    /// Returns whether there was no failure.
    pub fn succeeded(&self) -> bool {
        self.failed.is_empty()
    }

    /// Formats the summary; the last line contains the counts.
    pub fn summary(&self, tiers: &Tiers) -> String {
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
        lines.extend(self.time_by_package(tiers));
        if !self.left_out.is_empty() {
            let count: u64 = self.left_out.values().sum();
            let families: Vec<String> = self
                .left_out
                .iter()
                .map(|(family, tests)| format!("{family} {tests}"))
                .collect();
            lines.push(format!(
                "left out, and all that needs the cloud's SDK; `./test --all` runs them: {count} slow tests ({})",
                families.join(", ")
            ));
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

    /// Formats the total time of each package whose tests took long, or that has a budget.
    fn time_by_package(&self, tiers: &Tiers) -> Vec<String> {
        let mut packages: BTreeMap<&str, f64> = BTreeMap::new();
        for (took, name) in &self.took {
            let package = name.split([':', ' ']).next().unwrap_or_default();
            *packages.entry(package).or_default() += took.as_secs_f64();
        }
        let mut packages: Vec<(&str, f64)> = packages
            .into_iter()
            .filter(|(package, seconds)| {
                *seconds >= SHOWN_FROM_S || tiers.budget_s(package).is_some()
            })
            .collect();
        packages.sort_by(|a, b| b.1.total_cmp(&a.1));
        let lines = packages.iter().map(|(package, seconds)| {
            let budget = match tiers.budget_s(package) {
                None => String::new(),
                Some(budget) if *seconds > budget as f64 => {
                    format!(", over its budget of {budget} s")
                }
                Some(budget) => format!(" of {budget} s"),
            };
            format!("  {seconds:7.0} s  {package}{budget}")
        });
        let title = (!packages.is_empty()).then(|| "time by package:".to_owned());
        title.into_iter().chain(lines).collect()
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
        let summary = tally.summary(&Tiers::default());
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
        let summary = tally.summary(&Tiers::default());
        assert_eq!(
            summary.lines().count(),
            1 + 1 + SLOWEST + 2 + 1,
            "{summary}"
        );
        assert!(
            summary.starts_with("\nslowest:\n    29.00 s  p t29\n")
                && summary.ends_with("\n30 passed, 0 failed, 0 skipped\n"),
            "{summary}"
        );
        assert_eq!(
            Tally::default().summary(&Tiers::default()),
            "\n0 passed, 0 failed, 0 skipped\n"
        );
    }
}
