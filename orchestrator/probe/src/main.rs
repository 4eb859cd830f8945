//! `cvc-probe`: the readers as a small binary for the nodes.

use clap::Parser;
use std::process::ExitCode;

/// Reads checkpoint images where they lie.
#[derive(Parser)]
#[command(version)]
enum Command {
    Image(cvc_probe::image::command::ImageArgs),
}

fn main() -> ExitCode {
    let Command::Image(args) = Command::parse();
    match cvc_probe::image::command::run(&args, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
