//! Developer commands, run by `cargo xtask`. They have few dependencies, so that they compile quickly.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for developers, which holds nothing that a broken pipe could leave behind"
)]

mod dist;
mod interrupt;
mod layers;
mod node;
mod reference;
#[cfg(test)]
mod setup;
mod simulate;
mod suite;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  test [ARGS]   run all tests (ARGS go to `cargo test`), then name those that were skipped and count all
  layers [CRATE]
                print which modules of each crate import which; fail on import cycles and forbidden dependencies
  node [--release]
                build cvc-node statically; print its path
  dist [--quick]
                pack static programs as a tarball, a wheel and a Debian package, with recipes for Spack and containers; print their paths;
                `--quick` to try the packages: not optimised, without EC2, with this machine's C library
  reference     write the generated pages and schemas again
  simulate [--schedules N] [--from SEED] | --seed SEED
                carry out campaigns in a simulation in which much goes wrong; `--seed` tells the story of one
  calibrate [--samples N] [--page DIRECTORY] [--from TABLE] [--write-table FILE] [--json]
                measure how often the intervals that cvc prints hold";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    let arguments: Vec<String> = arguments.collect();
    let result = match command.as_deref() {
        Some("test") => suite::run(&arguments).map(code),
        Some("layers") => layers::run(&arguments).map(code),
        Some("node") => node::run(&arguments).map(|()| ExitCode::SUCCESS),
        Some("dist") => dist::run(&arguments).map(|()| ExitCode::SUCCESS),
        Some("reference") => reference::write().map(|()| ExitCode::SUCCESS),
        Some("simulate") => simulate::run(&[], &arguments).map(code),
        Some("calibrate") => simulate::run(&["calibrate"], &arguments).map(code),
        _ => Err(USAGE.into()),
    };
    result.unwrap_or_else(|problem| {
        eprintln!("{problem}");
        ExitCode::from(2)
    })
}

fn code(success: bool) -> ExitCode {
    if success {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
