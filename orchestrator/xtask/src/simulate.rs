//! `cargo xtask simulate` and `cargo xtask calibrate`: run the simulations with the optimization of a release build, and with all checks.

use std::process::Stdio;

/// Runs a simulation with these arguments; returns whether nothing failed.
///
/// # Errors
/// Cargo cannot be started, or the arguments are invalid.
pub fn run(command: &[&str], arguments: &[String]) -> Result<bool, String> {
    let status = crate::workspace::cargo()
        .args([
            "run",
            "--quiet",
            "--locked",
            "--profile",
            "simulation",
            "--package",
            "cvc-simulation",
            "--",
        ])
        .args(command)
        .args(arguments)
        .current_dir(crate::workspace::root()?)
        .stdin(Stdio::null())
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(format!(
            "the program could not do its work ({status}): its message is above"
        )),
    }
}
