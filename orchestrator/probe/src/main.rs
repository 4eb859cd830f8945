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
    /// Answer questions about this node on standard input and output (used by cvc itself).
    #[command(hide = true)]
    Sentinel {
        /// Seconds between beats, until the other end says another time.
        #[arg(long, default_value_t = 1.0)]
        beat_s: f64,
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
        Command::Sentinel { beat_s } => match cvc_probe::sentinel::main(beat_s) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: sentinel: {error}");
                ExitCode::FAILURE
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
