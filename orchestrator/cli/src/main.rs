//! cvc: the cloud-versus-cluster experiment orchestrator. Parses, calls, shows.

mod args;
mod command;
mod display;
mod exit_status;
mod failure;
mod help;
mod internal_error;
mod machine;
mod output;
mod session_log;
mod signals;
mod text;

use crate::{exit_status::ExitStatus, failure::Failure};
use clap::FromArgMatches;
use std::process::ExitCode;

fn main() -> ExitCode {
    let _failpoints = cvc_os::disk::failpoints();
    cvc_os::proc::heed_children();
    let arguments = match help::command()
        .try_get_matches()
        .and_then(|matches| args::Arguments::from_arg_matches(&matches))
    {
        Ok(arguments) => arguments,
        Err(usage) => return show_usage(&usage),
    };
    cvc_core::environment::leave_job();
    cvc_core::log::start(arguments.log.into());
    internal_error::tell_panics();
    let code = match internal_error::guard(|| command::dispatch(arguments)) {
        Ok(status) => status.into(),
        Err(failure) => failure.report(),
    };
    output::warn_of_loss();
    code
}

/// Shows the help, the version, or what is wrong with the command line.
fn show_usage(usage: &clap::Error) -> ExitCode {
    match output::show_usage(usage) {
        // then the exit code says what is to be said
        Ok(()) | Err(_) if usage.use_stderr() => ExitStatus::Usage.into(),
        Ok(()) => ExitStatus::Done.into(),
        Err(error) => Failure::from(error).report(),
    }
}
