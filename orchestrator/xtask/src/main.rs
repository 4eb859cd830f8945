//! Developer commands, by `cargo xtask`: few dependencies, so that they are compiled in a moment.

mod layers;
mod reference;
mod suite;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  test [ARGS]   run all tests (ARGS go to `cargo test`), then name those that were skipped and count all
  layers [CRATE] [--all]
                print the module graph of each crate; fail on import cycles and forbidden dependencies
  reference     write the generated pages and schemas again";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let done = match arguments.next().as_deref() {
        Some("test") => suite::run(&arguments.collect::<Vec<_>>()),
        Some("layers") => layers::run(&arguments.collect::<Vec<_>>()),
        Some("reference") => reference::write().map(|()| true),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}
