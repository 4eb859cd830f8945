//! Results for continuous integration: JUnit XML, and a summary in Markdown.

use crate::{args::CiArgs, exit_status::ExitStatus, failure::Failure};
use camino::Utf8Path;
use cvc_core::store::{StoreError, write_output};
use cvc_core::units::counted;
use cvc_show::escape_markdown;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::{fs::OpenOptions, io::Write, time::Duration};

/// Maximum number of failures that a summary lists; the XML has all.
const MAX_LISTED: usize = 50;

/// Outcome of a check.
pub enum CheckResult {
    Passed,
    Failed { message: String, detail: String },
    Skipped { why: String },
}

/// One check: of a run, a compared quantity, or a table.
pub struct Check {
    /// Name of the check's group.
    pub group: String,
    pub name: String,
    /// Duration of the checked run, seconds.
    pub time_s: Option<f64>,
    pub result: CheckResult,
}

/// The checks of one command.
pub struct CheckList {
    /// The command with its argument, such as `cvc run quickstart`.
    pub title: String,
    pub checks: Vec<Check>,
}

impl CiArgs {
    /// Checks that the requested files are writable, before hours of runs.
    ///
    /// # Errors
    /// A path is a directory, or its parent directory is missing or not writable.
    pub fn check_places(&self) -> Result<(), Failure> {
        let files = [("--junit", &self.junit), ("--summary", &self.summary)];
        for (option, file) in files {
            let Some(file) = file.as_deref() else {
                continue;
            };
            let parent = file.parent().filter(|parent| !parent.as_str().is_empty());
            let writable = match file.is_dir() {
                true => Err(std::io::ErrorKind::IsADirectory.into()),
                false if file.exists() => Ok(()),
                false => tempfile::tempfile_in(parent.unwrap_or(Utf8Path::new("."))).map(drop),
            };
            writable.map_err(|error| Failure::Other {
                status: ExitStatus::Usage,
                message: format!("{option}: cannot write {file}: {error}"),
                hint: Some("give a file in an existing directory; nothing was started".into()),
            })?;
        }
        Ok(())
    }
}

impl CheckList {
    /// Writes the files that the user requested.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, to: &CiArgs) -> Result<(), Failure> {
        if let Some(path) = &to.junit {
            let xml = self.junit().to_string().map_err(|error| Failure::Other {
                status: ExitStatus::Internal,
                message: format!("cannot write {path}: {error}"),
                hint: None,
            })?;
            write_output(path, xml.as_bytes())?;
        }
        match &to.summary {
            Some(path) => append(path, &self.markdown()).map_err(Failure::Store),
            None => Ok(()),
        }
    }

    fn junit(&self) -> Report {
        let mut suite = TestSuite::new(self.title.as_str());
        for check in &self.checks {
            let mut status = match &check.result {
                CheckResult::Passed => TestCaseStatus::success(),
                CheckResult::Failed { .. } => TestCaseStatus::non_success(NonSuccessKind::Failure),
                CheckResult::Skipped { .. } => TestCaseStatus::skipped(),
            };
            match &check.result {
                CheckResult::Passed => {}
                CheckResult::Failed { message, detail } => {
                    status
                        .set_message(message.as_str())
                        .set_description(detail.as_str());
                }
                CheckResult::Skipped { why } => {
                    status.set_message(why.as_str());
                }
            }
            let mut case = TestCase::new(check.name.as_str(), status);
            case.set_classname(check.group.as_str());
            if let Some(time) = check
                .time_s
                .and_then(|time_s| Duration::try_from_secs_f64(time_s).ok())
            {
                case.set_time(time);
            }
            suite.add_test_case(case);
        }
        let mut report = Report::new("cvc");
        report.add_test_suite(suite);
        report
    }

    fn markdown(&self) -> String {
        let count =
            |is: fn(&CheckResult) -> bool| self.checks.iter().filter(|c| is(&c.result)).count();
        let passed = count(|result| matches!(result, CheckResult::Passed));
        let skipped = count(|result| matches!(result, CheckResult::Skipped { .. }));
        let failures: Vec<(&Check, &str)> = self
            .checks
            .iter()
            .filter_map(|check| match &check.result {
                CheckResult::Failed { message, .. } => Some((check, message.as_str())),
                _ => None,
            })
            .collect();
        let mut text = format!(
            "## {}\n\n{passed} passed, {} failed, {skipped} skipped\n",
            cell(&self.title),
            failures.len()
        );
        if !failures.is_empty() {
            text.push_str("\n| item | failed because |\n| --- | --- |\n");
        }
        for (check, message) in failures.iter().take(MAX_LISTED) {
            text.push_str(&format!(
                "| {}: {} | {} |\n",
                cell(&check.group),
                cell(&check.name),
                cell(message)
            ));
        }
        if let Some(more) = failures.len().checked_sub(MAX_LISTED).filter(|n| *n > 0) {
            text.push_str(&format!("\nand {}\n", counted(more, "more failure")));
        }
        text.push('\n');
        text
    }
}

/// Escapes a text, which may have several lines, for a cell of a Markdown table.
fn cell(text: &str) -> String {
    escape_markdown(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Appends to a file that several commands may write to, such as `$GITHUB_STEP_SUMMARY`.
fn append(path: &Utf8Path, text: &str) -> Result<(), StoreError> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(StoreError::io("write", path))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn list() -> CheckList {
        let check = |name: &str, result| Check {
            group: "app=\"a\" & b".into(),
            name: name.into(),
            time_s: Some(1.5),
            result,
        };
        CheckList {
            title: "cvc run x".into(),
            checks: vec![
                check("repeat 1", CheckResult::Passed),
                check(
                    "repeat 2",
                    CheckResult::Failed {
                        message: "exit code 1 | <b>".into(),
                        detail: "a\u{1b}[1mbold\nline".into(),
                    },
                ),
                check(
                    "repeat 3",
                    CheckResult::Skipped {
                        why: "no mpich".into(),
                    },
                ),
            ],
        }
    }

    #[test]
    fn junit_counts_and_escapes() {
        let xml = list().junit().to_string().unwrap();
        for part in [
            "tests=\"3\"",
            "failures=\"1\"",
            "skipped=\"1\"",
            "classname=\"app=&quot;a&quot; &amp; b\"",
            "time=\"1.500\"",
            "message=\"exit code 1 | &lt;b&gt;\"",
        ] {
            assert!(xml.contains(part), "{part}: {xml}");
        }
        assert!(!xml.contains('\u{1b}'), "{xml}");
    }

    #[test]
    fn summaries_are_appended_and_list_what_failed() {
        let directory = tempfile::tempdir().unwrap();
        let path = camino::Utf8PathBuf::from_path_buf(directory.path().join("s.md")).unwrap();
        let to = CiArgs {
            junit: None,
            summary: Some(path.clone()),
        };
        list().write(&to).unwrap();
        list().write(&to).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("## cvc run x").count(), 2, "{text}");
        assert!(text.contains("1 passed, 1 failed, 1 skipped"), "{text}");
        assert!(
            text.contains("repeat 2 | exit code 1 \\| &lt;b&gt; |"),
            "{text}"
        );
    }
}
