//! Programs that cvc starts on this machine.

use std::ffi::OsStr;
use tokio::process::Command;

/// How variables begin that say who asks a cloud, and with which secret.
const OF_CLOUDS: &[u8] = b"AWS_";

/// A program of this machine, without the variables with which clouds are asked: cvc alone speaks to them, and what it starts (ssh and what the
/// user's configuration of it starts, Ansible, agents, pip) goes on for long, on other machines too, and may write down what it was given.
pub fn tool(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(OF_CLOUDS) {
            command.env_remove(name);
        }
    }
    command
}
