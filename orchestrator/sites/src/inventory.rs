//! Reads the hosts of inventories with `ansible-inventory --list`.

use crate::install::ansible;
use camino::Utf8Path;
use cvc_core::{
    environment::withheld_variables,
    hosts::HostEntry,
    inventory::{self, Inventory, InventoryError, InventoryKind},
};
use std::{
    fs::{self, File},
    io::{self, Read, Seek},
    os::unix::process::CommandExt,
    path::{self, Path},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Time limit: a dynamic inventory may query a cloud or a database.
const LIMIT: Duration = Duration::from_secs(60);
/// Runs a program with at most 4 GiB of memory and 256 MiB of output, because a mistyped range can expand to a huge number of hosts.
const BOUNDED: &str = r#"ulimit -v 4194304; ulimit -f 524288; exec "$0" "$@""#;

/// Returns the hosts of an inventory. If the inventory is a text file, Ansible starts no programs. Otherwise Ansible starts the programs that the
/// inventory names, without environment variables that may contain secrets.
///
/// # Errors
/// Ansible is not installed, fails, takes longer than a minute, or lists no usable host of the group.
pub fn ask(inventory: &Inventory) -> Result<Vec<HostEntry>, InventoryError> {
    let path = &inventory.path;
    let failed = |error: io::Error| InventoryError::Ansible {
        path: path.clone(),
        message: error.to_string(),
    };
    let program = ansible::find_inventory_program()
        .ok_or_else(|| InventoryError::NeedsAnsible { path: path.clone() })?;
    let scratch = tempfile::tempdir().map_err(failed)?;
    let is_text = inventory.kind == InventoryKind::Text;
    let mut command = if is_text {
        static_reader(&program, path, scratch.path()).map_err(failed)?
    } else {
        Command::new(program)
    };
    // the inventory's author decides which programs it starts: withhold secrets from them
    for name in withheld_variables() {
        command.env_remove(name);
    }
    let path = path::absolute(path).map_err(failed)?;
    command.arg("-i").arg(&path).arg("--list");
    let answer = run(command, scratch.path()).map_err(|error| match error {
        // Ansible's messages quote the file
        RunError::Failed(_) if is_text => InventoryError::Unparsed {
            path: inventory.path.clone(),
        },
        error => failed(io::Error::other(error)),
    })?;
    inventory::parse_answer(&inventory.path, &answer, &inventory.group)
}

/// Returns `ansible-inventory`, set up to start nothing: with an empty configuration, outside directories with plugins, and with plugins for text
/// files only. The suffix of a file name determines its format; a file without suffix is tried as YAML, then as INI.
fn static_reader(program: &Utf8Path, path: &Path, scratch: &Path) -> io::Result<Command> {
    let plugins = match path.extension().and_then(|e| e.to_str()) {
        Some("yml" | "yaml" | "json") => "yaml",
        Some("toml") => "toml",
        Some(_) => "ini",
        None => "yaml,ini",
    };
    let configuration = scratch.join("ansible.cfg");
    fs::write(&configuration, "")?;
    let mut command = Command::new("sh");
    command.args(["-c", BOUNDED, program.as_str()]);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"ANSIBLE_") {
            command.env_remove(name);
        }
    }
    command
        .current_dir(scratch)
        .env("ANSIBLE_CONFIG", configuration)
        .env("ANSIBLE_INVENTORY_ENABLED", plugins)
        .env("ANSIBLE_INVENTORY_UNPARSED_FAILED", "true");
    Ok(command)
}

/// The reason why `ansible-inventory` returned no hosts.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("cannot start it: {0}")]
    Start(#[from] io::Error),
    #[error("it did not end within {} s", LIMIT.as_secs())]
    Timeout,
    /// The program failed; these are its last lines of output.
    #[error("{0}")]
    Failed(String),
}

/// Runs the command to its end and returns its output. On timeout, ends it with all processes that it started.
fn run(mut command: Command, scratch: &Path) -> Result<String, RunError> {
    let create = |name: &str| File::create_new(scratch.join(name));
    let (mut out, mut err) = (create("out")?, create("err")?);
    let mut child = command
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(err.try_clone()?)
        .process_group(0)
        .spawn()?;
    let begin = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if begin.elapsed() > LIMIT => {
                let group =
                    nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
                let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
                let _ = child.wait();
                return Err(RunError::Timeout);
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let message = text(&mut err);
    // for text that it cannot parse, Ansible only prints a warning, and an inventory without hosts
    let unparsed = message.lines().any(|l| l.contains("Unable to parse"));
    if status.success() && !unparsed {
        return Ok(text(&mut out));
    }
    let lines: Vec<&str> = message
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    Err(RunError::Failed(
        lines[lines.len().saturating_sub(4)..].join("; "),
    ))
}

fn text(file: &mut File) -> String {
    let mut text = Vec::new();
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}
