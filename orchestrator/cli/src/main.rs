//! cvc: the cloud-versus-cluster experiment orchestrator. Parses, calls, shows.

mod args;
mod command;
mod display;
mod failure;
mod quantity;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match command::run(args::Arguments::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.report(),
    }
}
