//! Programs that cvc starts on this machine.

use super::{HostError, Output};
use cvc_core::environment::withheld_variables;
use cvc_core::log::{Ended, command_event};
use std::{
    ffi::OsStr,
    fmt::Display,
    io,
    time::{Duration, Instant},
};
use tokio::{process::Command, time::error::Elapsed};

/// A command for a program of this machine without credentials for clouds and other secrets, whose messages are in English. Only cvc itself uses
/// secrets; the programs that it starts (ssh and what its configuration starts, Ansible, agents, pip) run for long, on other machines too, and may
/// log their environment. What they say is read by cvc, whatever language its user speaks.
pub fn tool(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    // a program that asks for UTF-8 besides would take this variable for its language
    command.env("LC_ALL", "C").env_remove("LANGUAGE");
    for name in withheld_variables() {
        command.env_remove(name);
    }
    command
}

/// Runs a program of this machine to its end, for at most this long, and logs it. It is killed when its time is over or nobody waits for it. Its
/// output is caught; without another standard input it has none.
///
/// # Errors
/// The outer one when its time is over, the inner one when it does not start.
pub async fn output_within(
    command: &mut Command,
    limit: Duration,
) -> Result<io::Result<std::process::Output>, Elapsed> {
    let began = Instant::now();
    let ran = tokio::time::timeout(limit, command.kill_on_drop(true).output()).await;
    log_tool(
        command,
        began,
        ran.as_ref().unwrap_or(&Err(io::ErrorKind::TimedOut.into())),
    );
    ran
}

/// Logs a command that ran on a host, or did not get that far.
pub fn log_run(on: &str, argv: &[String], began: Instant, ran: &Result<Output, HostError>) {
    let ended = match ran {
        Ok(output) if output.stderr.trim().is_empty() => Ended::Exit(output.code, &output.stdout),
        Ok(output) => Ended::Exit(output.code, &output.stderr),
        Err(error) => Ended::Failed(error),
    };
    command_event(on, argv, began.elapsed(), ended);
}

/// Logs a program of this machine that ran to its end, or did not get that far.
pub fn log_tool<E: Display>(
    command: &Command,
    began: Instant,
    ran: &Result<std::process::Output, E>,
) {
    let command = command.as_std();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let argv: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    match ran {
        Ok(output) => {
            let message = if output.stderr.is_empty() {
                &output.stdout
            } else {
                &output.stderr
            };
            command_event(
                "localhost",
                &argv,
                began.elapsed(),
                Ended::Exit(output.status.code(), &String::from_utf8_lossy(message)),
            );
        }
        Err(error) => command_event("localhost", &argv, began.elapsed(), Ended::Failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Host, LocalHost};

    /// This test runs itself once more, with secrets.
    #[tokio::test]
    async fn programs_get_no_secrets() {
        if std::env::var_os("CVC_TEST_TOKEN").is_none() {
            let again = std::process::Command::new(std::env::current_exe().expect("a path"))
                .args(["--exact", "host::tool::tests::programs_get_no_secrets"])
                .envs([
                    ("CVC_TEST_TOKEN", "x"),
                    ("AWS_PROFILE", "y"),
                    ("CVC_TEST", "z"),
                ])
                .output()
                .expect("starts");
            let told = String::from_utf8_lossy(&again.stdout);
            assert!(
                again.status.success() && told.contains("1 passed"),
                "{told}"
            );
            return;
        }
        let output = output_within(&mut tool("env"), Duration::from_secs(20))
            .await
            .expect("in time")
            .expect("starts");
        let environment = String::from_utf8_lossy(&output.stdout).into_owned();
        let has = |name: &str| environment.lines().any(|line| line.starts_with(name));
        assert!(has("CVC_TEST=") && !has("CVC_TEST_TOKEN=") && !has("AWS_PROFILE="));
    }

    #[tokio::test]
    async fn programs_speak_english_whatever_the_user_speaks() {
        let mut command = tool("sh");
        command.args(["-c", "echo \"$LC_ALL\" \"${LANGUAGE-none}\""]);
        let output = output_within(&mut command, Duration::from_secs(20))
            .await
            .expect("in time")
            .expect("starts");
        assert_eq!(output.stdout, b"C none\n");
        let argv = ["sh", "-c", "echo $LC_ALL"].map(str::to_owned);
        let ran = LocalHost
            .run(
                &argv,
                &std::collections::BTreeMap::new(),
                Duration::from_secs(20),
            )
            .await;
        assert_eq!(ran.expect("runs").stdout, "C\n");
    }
}
