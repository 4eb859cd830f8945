//! Reads inventories by `ansible-inventory --list` that only Ansible can read.

use super::{
    error::InventoryError,
    groups::{self, ALL, Groups, UNGROUPED, Vars},
};
use crate::{environment::withheld_variables, hosts::HostEntry};
use camino::Utf8PathBuf;
use serde_json::Value;
use std::{
    fs,
    io::Read,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Maximum time for a dynamic inventory, which may ask a cloud or a database.
const LIMIT: Duration = Duration::from_secs(60);

/// The reason of an inventory that is a program.
pub const IS_PROGRAM: &str = "is a program";

/// The reason why this one cannot be read here, if it cannot.
pub(super) fn reason(path: &Path) -> Result<Option<&'static str>, InventoryError> {
    let meta = fs::metadata(path).map_err(|source| InventoryError::Read {
        path: path.to_owned(),
        source,
    })?;
    let beside = |name: &str| path.parent().unwrap_or(Path::new("")).join(name).is_dir();
    if meta.is_dir() {
        return Ok(Some("is a directory"));
    }
    if meta.is_file() && meta.permissions().mode() & 0o111 != 0 && starts_as_program(path) {
        return Ok(Some(IS_PROGRAM));
    }
    if beside("group_vars") || beside("host_vars") {
        return Ok(Some("has group_vars or host_vars beside it"));
    }
    let is_plugin = matches!(
        path.extension().and_then(|e| e.to_str()),
        Some("yml" | "yaml")
    ) && read_regular(path)
        .is_ok_and(|text| text.lines().any(|l| l.starts_with("plugin:")));
    Ok(is_plugin.then_some("is for a plugin"))
}

/// The text of an inventory.
pub(super) fn read_regular(path: &Path) -> std::io::Result<String> {
    String::from_utf8(crate::source::read_regular(path)?)
        .map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidData, e.utf8_error()))
}

/// Files on shared folders of other systems may all be executable; a program begins as one.
fn starts_as_program(path: &Path) -> bool {
    let mut begin = [0u8; 4];
    let read = fs::File::open(path)
        .and_then(|mut f| f.read(&mut begin))
        .unwrap_or(0);
    begin[..read].starts_with(b"#!") || begin[..read].starts_with(b"\x7fELF")
}

/// Asks ansible-inventory.
pub(super) fn list(
    path: &Path,
    reason: &'static str,
    group: &str,
) -> Result<Vec<HostEntry>, InventoryError> {
    let program = find().ok_or_else(|| InventoryError::NeedsAnsible {
        path: path.to_owned(),
        reason,
    })?;
    let failed = |message: String| InventoryError::Ansible {
        path: path.to_owned(),
        message,
    };
    let mut command = Command::new(program);
    // what the inventory starts is the work of whoever wrote it
    for name in withheld_variables() {
        command.env_remove(name);
    }
    let out = ask(command.arg("-i").arg(path).arg("--list"))
        .map_err(|error| failed(error.to_string()))?;
    parse_answer(path, &out, group)
}

/// The hosts of a group in the answer of `ansible-inventory --list`.
///
/// # Errors
/// When the answer cannot be understood, or the group has no host.
pub fn parse_answer(
    path: &Path,
    answer: &str,
    group: &str,
) -> Result<Vec<HostEntry>, InventoryError> {
    let failed = |message: String| InventoryError::Ansible {
        path: path.to_owned(),
        message,
    };
    let value: Value =
        serde_json::from_str(answer).map_err(|e| failed(format!("its answer is not JSON: {e}")))?;
    groups::entries(path, Ok(groups_of(&value)), group).map_err(|error| match error {
        // the answer has no lines to point at
        InventoryError::Line { problem, .. } => failed(problem),
        other => other,
    })
}

/// On PATH, or in the private environment that `cvc install` makes.
fn find() -> Option<Utf8PathBuf> {
    let own = fs::read_dir(crate::paths::cache())
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path());
    let own = own.filter(|p| {
        p.file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with("ansible-"))
    });
    let own = own
        .filter_map(|p| Utf8PathBuf::from_path_buf(p.join("bin/ansible-inventory")).ok())
        .find(|p| p.is_file());
    crate::paths::on_path(
        &["ansible-inventory"],
        &std::env::var("PATH").unwrap_or_default(),
    )
    .or(own)
}

/// Why `ansible-inventory` gave no answer.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("cannot start it: {0}")]
    Start(std::io::Error),
    #[error("it did not end within {} s", LIMIT.as_secs())]
    Timeout,
    /// The last lines that it wrote.
    #[error("{0}")]
    Failed(String),
}

/// Runs it to its end, or ends it with all that it started.
fn ask(command: &mut Command) -> Result<String, AskError> {
    let unable = AskError::Start;
    let (out, err) = (
        tempfile::tempfile().map_err(unable)?,
        tempfile::tempfile().map_err(unable)?,
    );
    let (mut out_read, mut err_read) = (
        out.try_clone().map_err(unable)?,
        err.try_clone().map_err(unable)?,
    );
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .map_err(unable)?;
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().map_err(unable)? {
            Some(status) => break status,
            None if begin.elapsed() > LIMIT => {
                let group =
                    nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
                let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
                let _ = child.wait();
                return Err(AskError::Timeout);
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let text = |file: &mut fs::File| {
        let mut text = Vec::new();
        let _ = std::io::Seek::rewind(file).and_then(|()| file.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    };
    let message = text(&mut err_read);
    // it only warns of what it cannot parse, and prints an inventory without hosts
    let unparsed = message.lines().any(|l| l.contains("Unable to parse"));
    if status.success() && !unparsed {
        return Ok(text(&mut out_read));
    }
    let lines: Vec<&str> = message
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    Err(AskError::Failed(
        lines[lines.len().saturating_sub(4)..].join("; "),
    ))
}

/// Groups and hosts of its answer; variables are merged already, so groups have none.
fn groups_of(value: &Value) -> Groups {
    let mut groups = Groups::default();
    groups.group(ALL);
    groups.group(UNGROUPED);
    let texts = |value: &Value, key: &str| -> Vec<String> {
        value
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    for (name, group) in value
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "_meta")
    {
        for host in texts(group, "hosts") {
            let vars: Vars = value
                .pointer("/_meta/hostvars")
                .and_then(|all| all.get(&host))
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| {
                    let text = match value {
                        Value::String(text) => text.clone(),
                        Value::Number(number) => number.to_string(),
                        _ => return None,
                    };
                    Some((key.clone(), (text, 0)))
                })
                .collect();
            // a limit of hosts was the reader's own
            let _ = groups.add(name, (vec![host], None), &vars, 0);
        }
        for child in texts(group, "children") {
            let _ = groups.nest(name, &child, 0);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_are_part_of_themselves_are_read_without_the_circle() {
        let answer = r#"{ "all": { "children": ["a"] }, "a": { "hosts": ["n1"], "children": ["b", "a"] }, "b": { "hosts": ["n2"], "children": ["a"] } }"#;
        let hosts = parse_answer(Path::new("inventory"), answer, "a").expect("hosts");
        assert_eq!(
            hosts.iter().map(|h| h.name.as_str()).collect::<Vec<_>>(),
            ["n1", "n2"]
        );
    }
}
