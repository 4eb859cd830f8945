//! cvc: the cloud-versus-cluster experiment orchestrator. Parses, calls, shows.

mod args;
mod campaigns;
mod command;
mod display;
mod exit_status;
mod failure;
mod machine;
mod session_log;
mod text;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let _failpoints = cvc_probe::disk::failpoints();
    let arguments = args::Arguments::parse();
    cvc_core::log::start(arguments.log.into());
    match command::dispatch(arguments) {
        Ok(status) => status.into(),
        Err(failure) => failure.report(),
    }
}
