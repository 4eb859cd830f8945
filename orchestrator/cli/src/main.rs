//! cvc: experiments that compare cloud and cluster. This program parses the command line, calls the library and prints the results.

mod args;
mod ci;
mod command;
mod complete;
mod display;
mod exit_status;
mod failure;
mod help;
mod image_error;
mod internal_error;
mod machine;
mod output;
mod paint;
mod session_log;
mod signals;
mod text;
mod vocabulary;

use crate::{exit_status::ExitStatus, failure::Failure};
use clap::FromArgMatches;
use std::{ffi::OsString, process::ExitCode};

/// The allocator of static programs: with musl's own one, threads wait for each other.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let _failpoints = cvc_os::disk::failpoints();
    complete::answer_shell(help::command);
    cvc_os::proc::reset_child_signal();
    let arguments = match arguments() {
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

/// Parses the command line.
fn arguments() -> Result<args::Arguments, clap::Error> {
    let words: Vec<OsString> = std::env::args_os().collect();
    // every run starts a shepherd, and the full parser takes milliseconds
    if matches!(&words[..], [_, word] if word == "shepherd") {
        return Ok(args::Arguments {
            log: args::LogLevel::Off,
            command: Some(args::Command::Shepherd),
        });
    }
    args::Arguments::from_arg_matches(&help::parse(words)?)
}

/// Prints the help, the version, or an error of the command line; returns the exit code.
fn show_usage(usage: &clap::Error) -> ExitCode {
    match output::show_usage(usage) {
        // if the error cannot be written, the exit code still reports it
        Ok(()) | Err(_) if usage.use_stderr() => ExitStatus::Usage.into(),
        Ok(()) => ExitStatus::Done.into(),
        Err(error) => Failure::from(error).report(),
    }
}
