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

/// Returns a command for a program of this machine, without credentials for clouds and other secrets, and with messages in English. Only cvc itself
/// needs secrets. The programs that it starts (ssh and its helpers, Ansible, agents, pip) run for a long time, also on other machines, and may log
/// their environment. Messages must be in English because cvc parses them.
pub fn tool(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    // `LANGUAGE` would override the language if a program also set UTF-8
    command.env("LC_ALL", "C").env_remove("LANGUAGE");
    for name in withheld_variables() {
        command.env_remove(name);
    }
    command
}

/// Runs a program of this machine to its end, with a time limit, and logs it. The program is killed when the limit is reached or the future is
/// dropped. Its output is captured; unless the command sets standard input, the program has none.
///
/// # Errors
/// The outer error is the time limit; the inner error is that the program does not start.
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

/// Logs a command that ran on a host or could not be started.
pub fn log_run(on: &str, argv: &[String], began: Instant, ran: &Result<Output, HostError>) {
    let ended = match ran {
        Ok(output) if output.stderr.trim().is_empty() => Ended::Exit(output.code, &output.stdout),
        Ok(output) => Ended::Exit(output.code, &output.stderr),
        Err(error) => Ended::Failed(error),
    };
    command_event(on, argv, began.elapsed(), ended);
}

/// Logs a program of this machine that ran to its end or could not be started.
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

    /// Runs itself once more, in an environment with secrets.
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
            let stdout = String::from_utf8_lossy(&again.stdout);
            assert!(
                again.status.success() && stdout.contains("1 passed"),
                "{stdout}"
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
    async fn programs_speak_english_in_every_locale() {
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
