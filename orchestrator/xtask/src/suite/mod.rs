//! `cargo xtask test`: runs all tests in parallel, each in a separate process, and prints a summary.
//!
//! In a separate process, a test has its own duration and output, is isolated from other tests, and can be killed if it hangs. Most tests wait for
//! nodes to boot or for time limits to pass, so more tests run at the same time than the machine has processors, as long as processors are idle.

mod arguments;
mod history;
mod job;
mod load;
mod pool;
mod program;
mod summary;
mod tiers;

use crate::{interrupt::Interrupts, workspace};
use arguments::{Arguments, Doc};
use history::History;
use job::{Job, LIMIT, Outcome, Report};
use load::Load;
use std::{cmp::Ordering, fs, io::Write, path::PathBuf, sync::Arc, time::Instant};
use summary::Tally;
use tiers::Tiers;

/// Tests that run before all others, one at a time: their programs have more ranks than there are processors, and the ranks spin while they wait for
/// each other. Together with other tests they would take ten times as long and most of the processors.
const ALONE: [&str; 1] =
    ["cvc::it quickstart::the_main_job_runs_to_its_end_and_ends_with_a_report"];

/// Runs the tests; returns whether all passed.
pub fn run(arguments: &[String]) -> Result<bool, String> {
    let (arguments, tiers) = (Arguments::parse(arguments)?, Tiers::read()?);
    let interrupts = Interrupts::listen()?;
    let mut tally = Tally::default();
    let compile_only = arguments.compile_only;
    match program::compile(&arguments, &interrupts)? {
        None => tally.fail("cargo: compilation failed, see above".into()),
        Some(_) if compile_only => {}
        Some(compiled) => {
            let jobs = jobs(&compiled, &arguments, &tiers, &mut tally)?;
            run_jobs(jobs, arguments, &interrupts, &mut tally)?;
        }
    }
    if interrupts.interrupted() {
        return Err("interrupted".into());
    }
    if !compile_only {
        print(&tally.summary(&tiers));
    }
    Ok(tally.succeeded())
}

/// Returns the jobs, each with its number within its program.
fn jobs(
    compiled: &program::Compiled,
    arguments: &Arguments,
    tiers: &Tiers,
    tally: &mut Tally,
) -> Result<Vec<(usize, Job)>, String> {
    let mut jobs = Vec::new();
    if arguments.doc != Doc::No && !compiled.libraries.is_empty() {
        jobs.push((
            0,
            Job::Doc {
                packages: compiled.libraries.iter().cloned().collect(),
            },
        ));
    }
    for program in compiled
        .programs
        .iter()
        .filter(|_| arguments.doc != Doc::Only)
    {
        let (tests, ignored) = program.list(arguments)?;
        ignored
            .into_iter()
            .for_each(|name| tally.ignore(format!("{} {name}", program.name)));
        jobs.extend(tests.into_iter().enumerate().map(|(number, name)| {
            (
                number,
                Job::Test {
                    program: program.clone(),
                    name,
                },
            )
        }));
    }
    if arguments.is_everything() {
        let names: Vec<String> = jobs.iter().map(|(_, job)| job.name()).collect();
        for stale in tiers.stale(&names) {
            tally.fail(format!("slow-tests.txt: no test begins with `{stale}`"));
        }
    }
    if !arguments.all && !arguments.chooses_packages() {
        jobs.retain(|(_, job)| match tiers.family_left_out(&job.name()) {
            None => true,
            Some(family) => {
                tally.leave_out(family);
                false
            }
        });
    }
    Ok(jobs)
}

fn run_jobs(
    mut jobs: Vec<(usize, Job)>,
    arguments: Arguments,
    interrupts: &Interrupts,
    tally: &mut Tally,
) -> Result<(), String> {
    let target = target()?;
    let scratch = target.join(format!("tests-{}", std::process::id()));
    let mut history = History::read(target.join("test-durations.tsv"));
    jobs.sort_by(|a, b| order(a, b, &history));
    let (count, width, show) = (
        jobs.len(),
        pool::Width::new(arguments.threads),
        arguments.show_output,
    );
    let tests = if count == 1 {
        "1 test".to_owned()
    } else {
        format!("{count} tests")
    };
    print(&format!(
        "running {tests}, {} to {} at once\n",
        width.least, width.most
    ));
    let (begin, all) = (Instant::now(), Load::watch());
    let at_work = interrupts.clone();
    let numbered: Vec<(usize, Job)> = jobs.into_iter().map(|(_, job)| job).enumerate().collect();
    let directory = scratch.clone();
    let work = move |(number, job): &(usize, Job)| {
        job.run(
            &arguments,
            &directory.join(number.to_string()),
            LIMIT,
            &at_work,
        )
    };
    let work = Arc::new(work);
    let (alone, beside) = numbered
        .into_iter()
        .partition(|(_, job)| ALONE.contains(&job.name().as_str()));
    let (mut problem, mut most) = (None, 0);
    for (jobs, width) in [(alone, pool::Width::new(Some(1))), (beside, width)] {
        let (mut load, work) = (Load::watch(), Arc::clone(&work));
        let ended = |ended: Result<Report, String>| {
            match ended {
                Ok(_) if interrupts.interrupted() => {}
                Ok(report) => {
                    print(&format_report(&report, show));
                    history.note(&report.name, report.took);
                    tally.add(&report);
                }
                Err(e) => problem = Some(e),
            }
            problem.is_none() && !interrupts.interrupted()
        };
        most = most.max(pool::run(
            jobs,
            width,
            move || load.is_low(),
            move |job| work(job),
            ended,
        )?);
        if problem.is_some() || interrupts.interrupted() {
            break;
        }
    }
    let _ = fs::remove_dir_all(&scratch);
    history.write();
    if let Some(problem) = problem {
        return Err(problem);
    }
    let busy = all
        .busy()
        .map(|share| format!(", processors {:.0} % busy", share * 100.0))
        .unwrap_or_default();
    let seconds = begin.elapsed().as_secs();
    print(&format!(
        "\nran {tests} in {} min {:02} s, at most {most} at once{busy}\n",
        seconds / 60,
        seconds % 60
    ));
    Ok(())
}

/// Orders jobs: the longest first; without known durations, integration tests before unit tests. Tests of different programs alternate, because some
/// tests of one program wait for each other.
fn order(a: &(usize, Job), b: &(usize, Job), history: &History) -> Ordering {
    let guess = |job: &Job| match job {
        Job::Doc { .. } => 60.0,
        Job::Test { program, .. } if program.kind == "test" => 20.0,
        Job::Test { .. } => 0.1,
    };
    let expected = |job: &Job| history.of(&job.name()).unwrap_or_else(|| guess(job));
    expected(&b.1)
        .total_cmp(&expected(&a.1))
        .then(a.0.cmp(&b.0))
}

/// Formats a report: one line, and for a failed test its whole output.
fn format_report(report: &Report, show: bool) -> String {
    let seconds = format!("({:.2} s)", report.took.as_secs_f64());
    let line = match &report.outcome {
        Outcome::Passed => format!("test {} ... ok {seconds}\n", report.name),
        Outcome::Failed(reason) => format!("test {} ... FAILED: {reason} {seconds}\n", report.name),
        Outcome::Skipped(needs) => format!(
            "test {} ... skipped: needs {}\n",
            report.name,
            needs.join(" and ")
        ),
        Outcome::Documentation { passed, failed, .. } => {
            format!(
                "test {} ... {passed} ok, {} FAILED {seconds}\n",
                report.name,
                failed.len()
            )
        }
    };
    let failed = match &report.outcome {
        Outcome::Failed(_) => true,
        Outcome::Documentation { failed, .. } => !failed.is_empty(),
        Outcome::Passed | Outcome::Skipped(_) => false,
    };
    if (failed || show) && !report.output.is_empty() {
        format!(
            "{line}---- output of {} ----\n{}\n---- end of {} ----\n",
            report.name,
            report.output.trim_end(),
            report.name
        )
    } else {
        line
    }
}

/// Returns cargo's target directory.
fn target() -> Result<PathBuf, String> {
    let root = workspace::root()?;
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |dir| root.join(dir));
    fs::create_dir_all(&target).map_err(|e| format!("{}: {e}", target.display()))?;
    Ok(target)
}

/// Prints to standard output. A closed pipe does not stop the tests.
fn print(text: &str) {
    let mut output = std::io::stdout();
    let _ = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_the_output_of_a_failed_test_is_shown() {
        let report = |outcome| Report {
            name: "p a".into(),
            outcome,
            took: Duration::from_millis(1500),
            output: "panicked\n".into(),
        };
        assert_eq!(
            format_report(&report(Outcome::Passed), false),
            "test p a ... ok (1.50 s)\n"
        );
        let failed = format_report(&report(Outcome::Failed("failed".into())), false);
        assert_eq!(
            failed,
            "test p a ... FAILED: failed (1.50 s)\n---- output of p a ----\npanicked\n---- end of p a ----\n"
        );
        assert!(format_report(&report(Outcome::Passed), true).contains("panicked"));
        assert_eq!(
            format_report(&report(Outcome::Skipped(vec!["DMTCP".into()])), false),
            "test p a ... skipped: needs DMTCP\n"
        );
    }

    #[test]
    fn the_longest_tests_start_first_and_new_integration_tests_before_new_unit_tests() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut history = History::read(dir.path().join("none"));
        let job = |number: usize, kind: &str, name: &str| {
            let program =
                program::Program::stand_in("p", kind, dir.path().into(), dir.path().into());
            (
                number,
                Job::Test {
                    program,
                    name: name.into(),
                },
            )
        };
        history.note("p long", Duration::from_secs(200));
        history.note("p short", Duration::from_millis(20));
        let mut jobs = [
            job(1, "test", "second"),
            job(0, "lib", "inside"),
            job(0, "test", "short"),
            job(0, "test", "whole"),
            job(0, "lib", "long"),
        ];
        jobs.sort_by(|a, b| order(a, b, &history));
        let names: Vec<String> = jobs.iter().map(|(_, job)| job.name()).collect();
        assert_eq!(
            names,
            ["p long", "p whole", "p second", "p inside", "p short"]
        );
    }
}
