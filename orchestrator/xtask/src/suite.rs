//! `cargo xtask test`: all tests, with their output as it comes, and at the end what a reader wants to know.

use crate::workspace;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

/// What the output of `cargo test` says, line by line.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    passed: u64,
    failed: u64,
    /// Tests that are marked `#[ignore]`, which count as skipped.
    ignored: Vec<String>,
    failures: Vec<String>,
}

impl Tally {
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["test", "result:", ..] => {
                self.passed += count(&words, "passed;");
                self.failed += count(&words, "failed;");
            }
            ["test", name, .., "FAILED"] => self.failures.push((*name).to_owned()),
            ["test", name, "...", "ignored" | "ignored,", ..] => self.ignored.push((*name).to_owned()),
            _ => {}
        }
    }
}

/// The number that stands before a word.
fn count(words: &[&str], word: &str) -> u64 {
    words.iter().position(|w| *w == word).and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).unwrap_or(0)
}

/// Tests that were skipped, with what each of them needs.
fn skipped(log: &str) -> BTreeMap<String, Vec<String>> {
    let mut tests: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in log.lines() {
        let Some((test, needs)) = line.strip_prefix("SKIPPED ").and_then(|l| l.split_once(": needs ")) else { continue };
        let of_test = tests.entry(test.to_owned()).or_default();
        if !of_test.iter().any(|n| n == needs) {
            of_test.push(needs.to_owned());
        }
    }
    tests
}

/// Runs them; whether all passed.
pub fn run(arguments: &[String]) -> Result<bool, String> {
    let root = workspace::root()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
    fs::create_dir_all(&target).map_err(|e| format!("{}: {e}", target.display()))?;
    let log = target.join(format!("skipped-{}.log", std::process::id()));
    fs::write(&log, "").map_err(|e| format!("{}: {e}", log.display()))?;
    let mut child = workspace::cargo()
        .args(["test", "--locked", "--no-fail-fast"])
        // all crates, unless one is named
        .args((!arguments.iter().any(|a| a.starts_with("-p") || a.starts_with("--package"))).then_some("--workspace"))
        .args(arguments)
        .current_dir(&root)
        .env("CVC_SKIPPED_LOG", &log)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    let mut tally = Tally::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line.map_err(|e| format!("cannot read what cargo says: {e}"))?;
            let line = String::from_utf8_lossy(&line);
            // a reader that has gone does not stop the tests
            let _ = writeln!(std::io::stdout(), "{line}");
            tally.line(&line);
        }
    }
    let status = child.wait().map_err(|e| format!("cannot wait for cargo: {e}"))?;
    let skipped = skipped(&fs::read_to_string(&log).map_err(|e| format!("{}: {e}", log.display()))?);
    let _ = fs::remove_file(&log);
    if !status.success() && tally.failed == 0 {
        tally.failed = 1;
        tally.failures.push(format!("cargo test itself ({status}): what does not compile, or a test program that crashed, stands above"));
    }
    let _ = write!(std::io::stdout(), "{}", summary(&tally, &skipped));
    Ok(tally.failed == 0)
}

fn summary(tally: &Tally, skipped: &BTreeMap<String, Vec<String>>) -> String {
    let mut lines = vec![String::new()];
    if !tally.failures.is_empty() {
        lines.push("failed:".into());
        lines.extend(tally.failures.iter().map(|f| format!("  {f}")));
    }
    if !skipped.is_empty() || !tally.ignored.is_empty() {
        lines.push("skipped on this machine:".into());
        lines.extend(skipped.iter().map(|(test, needs)| format!("  {test}: needs {}", needs.join(" and "))));
        lines.extend(tally.ignored.iter().map(|test| format!("  {test}: ignored")));
        let mut tools: BTreeMap<&str, usize> = BTreeMap::new();
        for tool in skipped.values().flatten() {
            *tools.entry(tool).or_default() += 1;
        }
        lines.extend(tools.iter().map(|(tool, tests)| format!("  {tests} for want of {tool}")));
    }
    // a test that was skipped ends without an error, and cargo counts it as passed
    let passed = tally.passed.saturating_sub(skipped.len() as u64);
    lines.push(format!("{passed} passed, {} failed, {} skipped", tally.failed, skipped.len() + tally.ignored.len()));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\nrunning 4 tests\ntest a::one ... ok\ntest a::two ... FAILED\ntest slow ... ignored, takes an hour\ntest b - should panic ... ok\n\n\
        test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
        test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";

    #[test]
    fn counts_are_of_all_programs_and_a_skipped_test_has_not_passed() {
        let mut tally = Tally::default();
        OUTPUT.lines().for_each(|l| tally.line(l));
        assert_eq!((tally.passed, tally.failed), (7, 1));
        assert_eq!((tally.failures.as_slice(), tally.ignored.as_slice()), (&["a::two".to_owned()][..], &["slow".to_owned()][..]));
        let skipped = skipped("SKIPPED b: needs DMTCP\nSKIPPED b: needs DMTCP\nSKIPPED c: needs strace\nnoise\n");
        let said = summary(&tally, &skipped);
        assert!(said.ends_with("\n5 passed, 1 failed, 3 skipped\n"), "{said}");
        for line in ["  a::two", "  b: needs DMTCP", "  c: needs strace", "  slow: ignored", "  1 for want of DMTCP"] {
            assert!(said.lines().any(|l| l == line), "{line}: {said}");
        }
    }

    #[test]
    fn without_failures_and_skips_there_is_one_line() {
        let tally = Tally { passed: 3, ..Tally::default() };
        assert_eq!(summary(&tally, &BTreeMap::new()), "\n3 passed, 0 failed, 0 skipped\n");
    }
}
