//! `cargo xtask test`: every test in a process of its own, side by side, and at the end what a reader wants to know.
//!
//! A process for each test says how long it took and what it printed, and cannot disturb another, nor hang for ever. Tests wait far more
//! than they compute, for nodes to boot and for time limits to pass: more of them run than the machine has processors, as long as those
//! are idle.

mod arguments;
mod history;
mod job;
mod load;
mod pool;
mod program;
mod summary;

use crate::{interrupt::Interrupts, workspace};
use arguments::{Arguments, Doc};
use history::History;
use job::{Job, LIMIT, Outcome, Report};
use load::Load;
use std::{cmp::Ordering, fs, io::Write, path::PathBuf, time::Instant};
use summary::Tally;

/// Runs them; whether all passed.
pub fn run(arguments: &[String]) -> Result<bool, String> {
    let arguments = Arguments::parse(arguments)?;
    let interrupts = Interrupts::listen()?;
    let mut tally = Tally::default();
    match program::compile(&arguments, &interrupts)? {
        None => tally.fail("cargo: what does not compile stands above".into()),
        Some(compiled) => {
            let jobs = jobs(&compiled, &arguments, &mut tally)?;
            run_jobs(jobs, arguments, &interrupts, &mut tally)?;
        }
    }
    if interrupts.interrupted() {
        return Err("interrupted".into());
    }
    say(&tally.summary());
    Ok(tally.succeeded())
}

/// Everything there is to run, each with its number in its program.
fn jobs(compiled: &program::Compiled, arguments: &Arguments, tally: &mut Tally) -> Result<Vec<(usize, Job)>, String> {
    let mut jobs = Vec::new();
    if arguments.doc != Doc::No && !compiled.libraries.is_empty() {
        jobs.push((0, Job::Doc { packages: compiled.libraries.iter().cloned().collect() }));
    }
    for program in compiled.programs.iter().filter(|_| arguments.doc != Doc::Only) {
        let (tests, ignored) = program.list(arguments)?;
        ignored.into_iter().for_each(|name| tally.ignore(format!("{} {name}", program.name)));
        jobs.extend(tests.into_iter().enumerate().map(|(number, name)| (number, Job::Test { program: program.clone(), name })));
    }
    Ok(jobs)
}

fn run_jobs(mut jobs: Vec<(usize, Job)>, arguments: Arguments, interrupts: &Interrupts, tally: &mut Tally) -> Result<(), String> {
    let target = target()?;
    let scratch = target.join(format!("tests-{}", std::process::id()));
    let mut history = History::read(target.join("test-durations.tsv"));
    jobs.sort_by(|a, b| order(a, b, &history));
    let (count, width, show) = (jobs.len(), pool::Width::new(arguments.threads), arguments.show_output);
    say(&format!("running {count} tests, {} to {} at once\n", width.least, width.most));
    let (begin, all, mut load) = (Instant::now(), Load::watch(), Load::watch());
    let (interrupted, at_work) = (interrupts.clone(), interrupts.clone());
    let numbered: Vec<(usize, Job)> = jobs.into_iter().map(|(_, job)| job).enumerate().collect();
    let directory = scratch.clone();
    let work = move |(number, job): &(usize, Job)| job.run(&arguments, &directory.join(number.to_string()), LIMIT, &at_work);
    let work = std::sync::Arc::new(work);
    let mut trouble = None;
    let most = pool::run(
        numbered,
        width,
        move || load.is_low(),
        move |job| work(job),
        |ended: Result<Report, String>| {
            match ended {
                Ok(_) if interrupted.interrupted() => {}
                Ok(report) => {
                    say(&told(&report, show));
                    history.note(&report.name, report.took);
                    tally.add(&report);
                }
                Err(problem) => trouble = Some(problem),
            }
            trouble.is_none() && !interrupted.interrupted()
        },
    )?;
    let _ = fs::remove_dir_all(&scratch);
    history.write();
    if let Some(problem) = trouble {
        return Err(problem);
    }
    let busy = all.busy().map(|share| format!(", processors {:.0} % busy", share * 100.0)).unwrap_or_default();
    let seconds = begin.elapsed().as_secs();
    say(&format!("\nran {count} tests in {} min {:02} s, at most {most} at once{busy}\n", seconds / 60, seconds % 60));
    Ok(())
}

/// The longest first; of those that never ran, whole programs before tests of the insides, which are short. Tests of one program are apart:
/// some wait for each other.
fn order(a: &(usize, Job), b: &(usize, Job), history: &History) -> Ordering {
    let guess = |job: &Job| match job {
        Job::Doc { .. } => 60.0,
        Job::Test { program, .. } if program.kind == "test" => 20.0,
        Job::Test { .. } => 0.1,
    };
    let expected = |job: &Job| history.of(&job.name()).unwrap_or_else(|| guess(job));
    expected(&b.1).total_cmp(&expected(&a.1)).then(a.0.cmp(&b.0))
}

/// One line, and for a failure all that the test printed.
fn told(report: &Report, show: bool) -> String {
    let seconds = format!("({:.2} s)", report.took.as_secs_f64());
    let line = match &report.outcome {
        Outcome::Passed => format!("test {} ... ok {seconds}\n", report.name),
        Outcome::Failed(reason) => format!("test {} ... FAILED: {reason} {seconds}\n", report.name),
        Outcome::Skipped(needs) => format!("test {} ... skipped: needs {}\n", report.name, needs.join(" and ")),
        Outcome::Documentation { passed, failed, .. } => {
            format!("test {} ... {passed} ok, {} FAILED {seconds}\n", report.name, failed.len())
        }
    };
    let failed = match &report.outcome {
        Outcome::Failed(_) => true,
        Outcome::Documentation { failed, .. } => !failed.is_empty(),
        Outcome::Passed | Outcome::Skipped(_) => false,
    };
    if (failed || show) && !report.output.is_empty() {
        format!("{line}---- output of {} ----\n{}\n---- end of {} ----\n", report.name, report.output.trim_end(), report.name)
    } else {
        line
    }
}

/// Where cargo puts what it compiles.
fn target() -> Result<PathBuf, String> {
    let root = workspace::root()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
    fs::create_dir_all(&target).map_err(|e| format!("{}: {e}", target.display()))?;
    Ok(target)
}

/// Prints; a reader that has gone does not stop the tests.
fn say(text: &str) {
    let mut output = std::io::stdout();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_a_failing_test_shows_what_it_printed() {
        let report = |outcome| Report { name: "p a".into(), outcome, took: Duration::from_millis(1500), output: "panicked\n".into() };
        assert_eq!(told(&report(Outcome::Passed), false), "test p a ... ok (1.50 s)\n");
        let failed = told(&report(Outcome::Failed("failed".into())), false);
        assert_eq!(failed, "test p a ... FAILED: failed (1.50 s)\n---- output of p a ----\npanicked\n---- end of p a ----\n");
        assert!(told(&report(Outcome::Passed), true).contains("panicked"));
        assert_eq!(told(&report(Outcome::Skipped(vec!["DMTCP".into()])), false), "test p a ... skipped: needs DMTCP\n");
    }

    #[test]
    fn the_longest_start_first_and_unknown_whole_programs_before_unknown_insides() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut history = History::read(dir.path().join("none"));
        let job = |number: usize, kind: &str, name: &str| {
            let program = program::Program::stand_in("p", kind, dir.path().into(), dir.path().into());
            (number, Job::Test { program, name: name.into() })
        };
        history.note("p long", Duration::from_secs(200));
        history.note("p short", Duration::from_millis(20));
        let mut jobs =
            [job(1, "test", "second"), job(0, "lib", "inside"), job(0, "test", "short"), job(0, "test", "whole"), job(0, "lib", "long")];
        jobs.sort_by(|a, b| order(a, b, &history));
        let names: Vec<String> = jobs.iter().map(|(_, job)| job.name()).collect();
        assert_eq!(names, ["p long", "p whole", "p second", "p inside", "p short"]);
    }
}
