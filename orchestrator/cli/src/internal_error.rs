//! Handles panics, which are bugs of cvc: prints the message, and which files to send with a report.

use crate::{exit_status::ExitStatus, failure::Failure, output, session_log};
use cvc_core::panics::panic_text;
use std::{
    backtrace::Backtrace,
    panic::{self, AssertUnwindSafe, catch_unwind},
};

/// Reports each panic on standard error and in the session log, even panics of tasks that are never awaited.
pub fn tell_panics() {
    panic::set_hook(Box::new(|panic| {
        let text = panic_text(panic.payload());
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        output::note(format_args!("cvc panicked at {place}: {text}"));
        tracing::error!(place, backtrace = %Backtrace::force_capture(), "panic: {text}");
    }));
}

/// Runs a command; a panic is returned as an error.
///
/// # Errors
/// The command fails or panics.
pub fn guard(command: impl FnOnce() -> Result<ExitStatus, Failure>) -> Result<ExitStatus, Failure> {
    catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|panic| {
        Err(Failure::Other {
            status: ExitStatus::Internal,
            message: format!(
                "internal error (please report): {}",
                panic_text(panic.as_ref())
            ),
            hint: Some(session_log::how_to_report()),
        })
    })
}
