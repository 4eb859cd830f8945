//! The program behind `cargo xtask simulate` and `cargo xtask calibrate`. `simulate` carries out schedules on all processors, and prints the story of
//! a schedule with a violation.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for developers, which holds nothing that a broken pipe could leave behind"
)]

use cvc_simulation::{calibration, directory, simulate};
use std::{
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

const USAGE: &str = "\
usage: cargo xtask simulate [--schedules N] [--from SEED]
       cargo xtask simulate --seed SEED
  N     number of schedules, each with the next seed [default: 100000]
  SEED  first seed [default: 1]; with --seed the only one, whose story is printed";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((first, rest)) if first == "calibrate" => {
            let progress = |part, parts, what: &str| eprintln!("{part} of {parts}: {what}");
            calibration::command::run(rest, progress).map(|text| {
                println!("{text}");
                true
            })
        }
        _ => run(&arguments),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

/// Carries out the command; returns whether there was no violation.
fn run(arguments: &[String]) -> Result<bool, String> {
    let (mut schedules, mut from, mut only) = (100_000, 1, None);
    let mut words = arguments.iter();
    while let Some(option) = words.next() {
        let value = words.next().ok_or(USAGE)?;
        let value: u64 = value
            .replace('_', "")
            .parse()
            .map_err(|_| format!("`{value}` is not a number\n{USAGE}"))?;
        match option.as_str() {
            "--schedules" => schedules = value,
            "--from" => from = value,
            "--seed" => only = Some(value),
            _ => return Err(USAGE.to_owned()),
        }
    }
    if let Some(seed) = only {
        return Ok(tell(seed));
    }
    let (next, found, begun) = (AtomicU64::new(from), AtomicBool::new(false), Instant::now());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from.saturating_add(schedules) || found.load(Ordering::Relaxed) {
                        return;
                    }
                    for wrong in wrong(seed) {
                        found.store(true, Ordering::Relaxed);
                        println!("seed {seed}: {wrong}");
                    }
                    let done = seed - from + 1;
                    if done.is_multiple_of(1000) {
                        println!(
                            "{done} schedules, {:.0} each second",
                            done as f64 / begun.elapsed().as_secs_f64()
                        );
                    }
                }
            });
        }
    });
    let found = found.load(Ordering::Relaxed);
    if found {
        println!("the story of a seed: cargo xtask simulate --seed SEED");
    }
    Ok(!found)
}

/// Returns the violations in the schedule of a seed.
fn wrong(seed: u64) -> Vec<String> {
    let (_made, dir) = directory();
    simulate(seed, &dir).wrong
}

/// Prints the story of a seed's schedule; returns whether there was no violation.
fn tell(seed: u64) -> bool {
    let (_made, dir) = directory();
    let story = simulate(seed, &dir);
    story.lines.iter().for_each(|line| println!("{line}"));
    story.wrong.is_empty()
}
