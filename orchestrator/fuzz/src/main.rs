//! `cargo xtask fuzz` calls this: gives inputs to targets on all processors, and shows how far it is.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for developers, which holds nothing that a broken pipe could leave behind"
)]

use cvc_fuzz::{Campaign, Progress, TARGETS, Target, fuzz, target, work};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

const USAGE: &str = "\
usage: cargo xtask fuzz TARGET [--inputs N] [--seed S] [--workers W]
       cargo xtask fuzz TARGET --input FILE
  TARGET   one of the targets below, or `all`
  N        number of inputs for each target [default: 1000000]
  S        number of the run: another one has other inputs [default: 1]
  W        processes at once [default: one for each processor]
  FILE     one input, as a failure has left it";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

fn usage() -> String {
    format!("{USAGE}\ntargets: {}", TARGETS.iter().map(|t| t.name).collect::<Vec<_>>().join(" "))
}

fn number(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("`{text}` is not a number\n{}", usage()))
}

/// Returns whether no reader failed.
fn run(arguments: &[String]) -> Result<bool, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["work", name, run, first, step, end, progress] = *words {
        let target = target(name).ok_or_else(usage)?;
        return work(target, number(run)?, (number(first)?, number(step)?, number(end)?), Path::new(progress)).map(|()| true);
    }
    let (name, mut rest) = words.split_first().ok_or_else(usage)?;
    let targets: Vec<&'static Target> = if *name == "all" { TARGETS.iter().collect() } else { vec![target(name).ok_or_else(usage)?] };
    let (mut inputs, mut run) = (1_000_000, 1);
    let mut workers = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    while let [option, value, more @ ..] = rest {
        match *option {
            "--inputs" => inputs = number(value)?,
            "--seed" => run = number(value)?,
            "--workers" => workers = number(value)?.max(1),
            "--input" => {
                let bytes = std::fs::read(value).map_err(|error| format!("{value}: {error}"))?;
                targets.iter().for_each(|target| (target.check)(&bytes));
                return Ok(true);
            }
            _ => return Err(usage()),
        }
        rest = more;
    }
    if !rest.is_empty() {
        return Err(usage());
    }
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    // beside the program, in cargo's directory
    let dir = program.parent().map_or_else(|| PathBuf::from("."), |parent| parent.join("fuzz"));
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut sound = true;
    for target in targets {
        let tell = |Progress { inputs, took }| {
            let rate = inputs as f64 / took.as_secs_f64().max(1e-3);
            println!("{:<16} {inputs:>11} inputs {:>7.1} s {rate:>9.0} inputs/s", target.name, took.as_secs_f64());
        };
        let campaign = Campaign { program: &program, target, run, inputs, workers, dir: &dir };
        if let Some(failure) = fuzz(&campaign, Duration::from_secs(2), tell)? {
            println!("{}: {failure}", target.name);
            sound = false;
        }
    }
    Ok(sound)
}
