//! Runs one test in a separate process, with a time limit.

use super::{
    arguments::Arguments,
    program::{Program, without_our_own},
};
use crate::{
    interrupt::{Ended, Interrupts},
    workspace,
};
use std::{
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// Time limit of a test. It is longer than the limits that tests set themselves, and than the longest tests, which take minutes on two busy cores.
pub const LIMIT: Duration = Duration::from_secs(45 * 60);

/// Environment variable naming the file to which a skipped test writes its requirements.
const SKIPPED_LOG: &str = "CVC_SKIPPED_LOG";

/// Environment variable with the number of damaged inputs on which the fuzz tests try each reader of files. The next constant is its value without
/// `--all`.
const FUZZ_INPUTS: &str = "CVC_FUZZ_INPUTS";
const FEW_FUZZ_INPUTS: &str = "500";

/// A unit of work of the test pool.
#[derive(Clone, Debug)]
pub enum Job {
    /// A test of a program.
    Test {
        /// The test program.
        program: Program,
        /// Path of the test in the program.
        name: String,
    },
    /// The documentation tests of some packages.
    Doc {
        /// Names of the packages.
        packages: Vec<String>,
    },
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The test passed.
    Passed,
    /// The test failed, with the reason.
    Failed(String),
    /// The test was skipped, with its requirements.
    Skipped(Vec<String>),
    /// The documentation tests ran.
    Documentation {
        /// Number of tests that passed.
        passed: u64,
        /// Names of tests that failed.
        failed: Vec<String>,
        /// Names of ignored tests.
        ignored: Vec<String>,
    },
}

/// A finished job.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the job.
    pub name: String,
    /// Result of the job.
    pub outcome: Outcome,
    /// Duration of the job.
    pub took: Duration,
    /// Standard output and standard error of the job.
    pub output: String,
}

impl Job {
    /// Returns the name of the job for the user.
    pub fn name(&self) -> String {
        match self {
            Self::Test { program, name } => format!("{} {name}", program.name),
            Self::Doc { .. } => "documentation".into(),
        }
    }

    /// Runs the job. Creates the directory `scratch` for it and removes it afterwards.
    pub fn run(
        &self,
        arguments: &Arguments,
        scratch: &Path,
        limit: Duration,
        interrupts: &Interrupts,
    ) -> Result<Report, String> {
        let io = |e: std::io::Error| format!("{}: {e}", scratch.display());
        fs::create_dir_all(scratch).map_err(io)?;
        // a file rather than a pipe, because a process that outlives the test would keep a pipe open
        let (printed, skipped) = (scratch.join("output"), scratch.join("skipped"));
        let output = File::create(&printed).map_err(io)?;
        let mut command = self.command(arguments)?;
        command
            .env(SKIPPED_LOG, &skipped)
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(io)?)
            .stderr(output);
        let begin = Instant::now();
        let ended = interrupts.run_for(limit, &mut command)?;
        let took = begin.elapsed();
        let output = String::from_utf8_lossy(&fs::read(&printed).map_err(io)?).into_owned();
        let needs = needs(&fs::read_to_string(&skipped).unwrap_or_default());
        fs::remove_dir_all(scratch).map_err(io)?;
        Ok(Report {
            name: self.name(),
            outcome: self.outcome(ended, needs, limit, &output),
            took,
            output,
        })
    }

    fn command(&self, arguments: &Arguments) -> Result<Command, String> {
        Ok(match self {
            Self::Test { program, name } => {
                let mut command = program.command();
                command.args(["--exact", name, "--nocapture", "--include-ignored"]);
                if !arguments.all && std::env::var_os(FUZZ_INPUTS).is_none() {
                    command.env(FUZZ_INPUTS, FEW_FUZZ_INPUTS);
                }
                command
            }
            Self::Doc { packages } => {
                let mut command = workspace::cargo();
                without_our_own(&mut command);
                command
                    .args(["test", "--doc", "--locked", "--no-fail-fast"])
                    .args(options_for_doc(&arguments.cargo));
                if arguments.chooses_packages() {
                    command.args(packages.iter().flat_map(|p| ["--package", p]));
                } else {
                    // the same package selection as in the preceding `cargo test`: another one would unify features differently and recompile
                    // everything
                    command.args(arguments.selection());
                }
                command.args(["--"]).args(&arguments.filters);
                command.current_dir(workspace::root()?);
                command
            }
        })
    }

    fn outcome(&self, ended: Ended, needs: Vec<String>, limit: Duration, output: &str) -> Outcome {
        match (ended, self) {
            (Ended::Late, _) => {
                Outcome::Failed(format!("hung: killed after {} s", limit.as_secs()))
            }
            (Ended::Exited(status), Self::Doc { .. }) => documentation(status, output),
            (Ended::Exited(status), Self::Test { .. }) if !status.success() => {
                Outcome::Failed(describe(status))
            }
            (Ended::Exited(_), Self::Test { .. }) if needs.is_empty() => Outcome::Passed,
            (Ended::Exited(_), Self::Test { .. }) => Outcome::Skipped(needs),
        }
    }
}

/// Returns the cargo arguments that also apply to documentation tests: all except the package selection.
fn options_for_doc(cargo: &[String]) -> Vec<String> {
    let mut options = Vec::new();
    let mut rest = cargo.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "-p" | "--package" | "--exclude" => _ = rest.next(),
            "--workspace" => {}
            other
                if ["-p", "--package=", "--exclude="]
                    .iter()
                    .any(|p| other.starts_with(p)) => {}
            _ => options.push(option.clone()),
        }
    }
    options
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        // libtest's exit code for a failed test
        (Some(101), _) => "failed".into(),
        (Some(code), _) => format!("exit code {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => "failed".into(),
    }
}

/// Parses the requirements of a skipped test, as written by the test kit.
fn needs(log: &str) -> Vec<String> {
    let mut needs: Vec<String> = Vec::new();
    for need in log
        .lines()
        .filter_map(|l| Some(l.strip_prefix("SKIPPED ")?.split_once(": needs ")?.1))
    {
        if !needs.iter().any(|n| n == need) {
            needs.push(need.to_owned());
        }
    }
    needs
}

/// Parses the output of `cargo test --doc`.
fn documentation(status: ExitStatus, output: &str) -> Outcome {
    let (mut passed, mut failed, mut ignored) = (0, Vec::new(), Vec::new());
    for line in output.lines() {
        if let Some(result) = line.strip_prefix("test result:") {
            let words: Vec<&str> = result.split_whitespace().collect();
            passed += words
                .iter()
                .position(|w| *w == "passed;")
                .and_then(|at| words.get(at.checked_sub(1)?)?.parse::<u64>().ok())
                .unwrap_or(0);
        } else if let Some((name, result)) = line
            .strip_prefix("test ")
            .and_then(|l| l.rsplit_once(" ... "))
        {
            match result {
                "FAILED" => failed.push(name.to_owned()),
                "ignored" => ignored.push(name.to_owned()),
                _ => {}
            }
        }
    }
    if !status.success() && failed.is_empty() {
        return Outcome::Failed(describe(status));
    }
    Outcome::Documentation {
        passed,
        failed,
        ignored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_of_a_skipped_test_are_listed_once() {
        let log = "SKIPPED a::b: needs DMTCP\nSKIPPED a::b: needs DMTCP\nSKIPPED a::b: needs strace\nnoise\n";
        assert_eq!(needs(log), ["DMTCP", "strace"]);
        assert!(needs("").is_empty());
    }

    #[test]
    fn documentation_tests_are_counted_over_all_packages() {
        let output = "test src/a.rs - a (line 3) ... ok\ntest src/a.rs - b (line 9) - compile fail ... FAILED\ntest src/a.rs - c (line 12) ... ignored\n\
            test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
            test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        let failed = vec!["src/a.rs - b (line 9) - compile fail".to_owned()];
        let expected = Outcome::Documentation {
            passed: 6,
            failed,
            ignored: vec!["src/a.rs - c (line 12)".into()],
        };
        assert_eq!(
            documentation(ExitStatus::from_raw(101 << 8), output),
            expected
        );
        assert_eq!(
            documentation(ExitStatus::from_raw(101 << 8), "error: could not compile"),
            Outcome::Failed("failed".into())
        );
    }

    #[test]
    fn documentation_tests_use_the_same_features_and_profile() {
        let cargo = [
            "-p",
            "a",
            "--features",
            "x",
            "--package=b",
            "--release",
            "--workspace",
            "--exclude",
            "c",
        ]
        .map(str::to_owned);
        assert_eq!(options_for_doc(&cargo), ["--features", "x", "--release"]);
    }

    /// Runs a shell script in place of a test program.
    fn run(script: &str, limit: Duration) -> Report {
        let dir = tempfile::tempdir().expect("a directory");
        let executable = dir.path().join("program");
        // another process writes the script: a process forked by another thread could hold a file of this one open, which then cannot be executed
        let write = [
            "-c",
            "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$0\"; chmod 755 \"$0\"",
        ];
        assert!(
            Command::new("sh")
                .args(write)
                .arg(&executable)
                .arg(script)
                .status()
                .expect("sh")
                .success()
        );
        let job = Job::Test {
            program: Program::stand_in("p", "test", executable, dir.path().into()),
            name: "a::b".into(),
        };
        let scratch = dir.path().join("scratch");
        let report = job
            .run(&Arguments::default(), &scratch, limit, &Interrupts::deaf())
            .expect("a report");
        assert!(!scratch.exists());
        report
    }

    #[test]
    fn a_test_runs_in_its_package_directory_and_its_exit_status_is_interpreted() {
        let ended = |script| run(script, LIMIT).outcome;
        let passed = run("pwd; echo $*; echo late >&2; ls scratch", LIMIT);
        assert_eq!(
            (passed.name.as_str(), &passed.outcome),
            ("p a::b", &Outcome::Passed)
        );
        assert!(
            passed
                .output
                .ends_with("\n--exact a::b --nocapture --include-ignored\nlate\noutput\n"),
            "{}",
            passed.output
        );
        assert_eq!(
            ended("echo why; exit 101"),
            Outcome::Failed("failed".into())
        );
        assert_eq!(ended("exit 3"), Outcome::Failed("exit code 3".into()));
        assert_eq!(ended("kill -SEGV $$"), Outcome::Failed("signal 11".into()));
        assert_eq!(
            ended("echo SKIPPED x: needs DMTCP >>$CVC_SKIPPED_LOG"),
            Outcome::Skipped(vec!["DMTCP".into()])
        );
    }

    #[test]
    fn a_hung_test_is_killed() {
        let hung = run("echo began; exec sleep 600", Duration::from_secs(5));
        assert_eq!(
            (hung.outcome, hung.output.as_str()),
            (Outcome::Failed("hung: killed after 5 s".into()), "began\n")
        );
    }

    #[test]
    fn a_process_that_outlives_its_test_does_not_delay_it() {
        let passed = run("setsid sleep 120 & echo $!", LIMIT);
        assert_eq!(passed.outcome, Outcome::Passed);
        assert!(passed.took < Duration::from_secs(100), "{:?}", passed.took);
        let left = nix::unistd::Pid::from_raw(passed.output.trim().parse().expect("its number"));
        nix::sys::signal::kill(left, nix::sys::signal::Signal::SIGKILL).expect("it lives");
    }
}
