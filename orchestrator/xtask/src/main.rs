//! Developer commands, by `cargo xtask`: nothing but the standard library, so that they are compiled in a moment.

mod reference;
mod suite;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  test [ARGS]   run all tests (ARGS go to `cargo test`), then name those that were skipped and count all
  reference     write the generated pages and schemas again";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let done = match arguments.next().as_deref() {
        Some("test") => suite::run(&arguments.collect::<Vec<_>>()),
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

/// The root of the repository.
fn root() -> Result<std::path::PathBuf, String> {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../..").canonicalize().map_err(|e| format!("{}: {e}", here.display()))
}

/// The cargo that runs this.
fn cargo() -> std::process::Command {
    std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
