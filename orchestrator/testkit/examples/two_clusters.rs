//! Runs a program, or a shell if none is given, on the laptop of a lab with four nodes. The nodes are reached by ssh, and Slurm allocates them too:
//! `cargo run -p cvc-testkit --example two_clusters [PROGRAM [ARGUMENTS]]`. `./two-clusters` calls it.

use cvc_testkit::{Lab, Tool};
use std::process::ExitCode;

/// cvc's exit code for machines that cannot be used.
const NO_LAB: u8 = 4;

#[expect(clippy::print_stderr, reason = "a tool for the terminal")]
fn main() -> ExitCode {
    for tool in [Tool::Lab, Tool::Slurm] {
        if let Some(why) = tool.reason() {
            eprintln!(
                "error: no nodes can be made on this machine: {why}\nhint: it needs root, and a kernel that gives namespaces and overlays"
            );
            return ExitCode::from(NO_LAB);
        }
    }
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments
        .next()
        .or_else(|| std::env::var_os("SHELL"))
        .unwrap_or_else(|| "/bin/sh".into());
    eprintln!("== starting nodes n1 to n4, a login node, sshd and Slurm on this machine");
    let lab = Lab::builder().nodes(4).login(true).build();
    lab.slurm().wait_idle(4);
    let ended = lab.command(&program).args(arguments).status();
    match ended.map(|status| status.code()) {
        Ok(Some(code)) => u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from),
        Ok(None) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: cannot start {}: {error}", program.display());
            ExitCode::FAILURE
        }
    }
}
