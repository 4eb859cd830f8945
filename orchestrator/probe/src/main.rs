//! The part of cvc that runs on nodes.

use clap::{Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};

/// The part of cvc that runs on nodes.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start and watch the processes of one run (used by cvc itself).
    #[command(hide = true)]
    Shepherd {
        /// The job, as JSON.
        job: PathBuf,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Shepherd { job } => match cvc_probe::shepherd::main(&job) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("cvc-probe: {}: {error}", job.display());
                ExitCode::FAILURE
            }
        },
    }
}
