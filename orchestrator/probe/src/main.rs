//! `cvc-probe`: the part of cvc that runs on nodes.

use clap::Parser;
use std::{path::PathBuf, process::ExitCode};

/// The part of cvc that runs on nodes.
#[derive(Parser)]
#[command(version)]
enum Command {
    Image(cvc_probe::image::command::ImageArgs),
    /// Start and watch the processes of one run (used by cvc itself).
    #[command(hide = true)]
    Shepherd {
        /// The job, as JSON.
        job: PathBuf,
    },
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Image(args) => match cvc_probe::image::command::run(&args, &mut std::io::stdout().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(error.exit_code())
            }
        },
        Command::Shepherd { job } => match cvc_probe::shepherd::main(&job) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {}: {error}", job.display());
                ExitCode::FAILURE
            }
        },
    }
}
