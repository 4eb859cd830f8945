//! Parses the output of `ansible-inventory --list`: groups, their hosts, and the merged variables of each host.

use super::{
    error::{HostProblem, InventoryError},
    ssh_args,
};
use crate::hosts::HostEntry;
use indexmap::IndexSet;
use serde_json::{Map, Value};
use std::path::Path;

/// Maximum number of hosts; a larger number is probably a mistyped range.
const MAX_HOSTS: usize = 100_000;

/// Returns the hosts of a group: its own, followed by those of its child groups, in the order of the inventory.
///
/// # Errors
/// The output cannot be parsed, the group has no host, or the connection settings of a host are not supported.
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
    let Some(groups) = value.as_object() else {
        return Err(failed("its answer is not an object".into()));
    };
    let hosts = members(groups, group);
    if hosts.is_empty() {
        let (path, group) = (path.to_owned(), group.to_owned());
        let known = names(groups);
        return Err(match known.contains(&group) {
            true => InventoryError::Empty { path, group },
            false => InventoryError::NoGroup { path, group, known },
        });
    }
    if hosts.len() > MAX_HOSTS {
        return Err(failed(format!("more than {MAX_HOSTS} hosts")));
    }
    let all_vars = groups.get("_meta").and_then(|meta| meta.get("hostvars"));
    let vars_of = |host: &str| Vars(all_vars.and_then(|all| all.get(host)?.as_object()));
    let entries = hosts.into_iter().map(|name| {
        entry(name, &vars_of(name)).map_err(|problem| InventoryError::Host {
            path: path.to_owned(),
            host: name.to_owned(),
            problem,
        })
    });
    entries.collect()
}

/// Returns the names in a list of a group, for example its hosts.
fn listed<'a>(group: Option<&'a Value>, key: &str) -> impl DoubleEndedIterator<Item = &'a str> {
    let list = group.and_then(|g| g.get(key)).and_then(Value::as_array);
    list.map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_str)
}

/// Returns the names of all groups, including groups without hosts, which occur only as children of others.
fn names(groups: &Map<String, Value>) -> Vec<String> {
    let mut names = IndexSet::from(["all"]);
    for (name, group) in groups.iter().filter(|(name, _)| *name != "_meta") {
        names.insert(name);
        names.extend(listed(Some(group), "children"));
    }
    names.into_iter().map(str::to_owned).collect()
}

/// Returns the hosts of a group and of its child groups. Groups that contain themselves are no problem: the output of an inventory program may have
/// them.
fn members<'a>(groups: &'a Map<String, Value>, group: &'a str) -> IndexSet<&'a str> {
    let (mut hosts, mut seen, mut open) = (IndexSet::new(), IndexSet::new(), vec![group]);
    while let Some(name) = open.pop() {
        if name != "_meta" && seen.insert(name) {
            let found = groups.get(name);
            hosts.extend(listed(found, "hosts"));
            open.extend(listed(found, "children").rev());
        }
    }
    hosts
}

fn fits_ssh(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    !text.is_empty() && !text.starts_with('-') && text.chars().all(fits)
}

/// The variables of a host.
struct Vars<'a>(Option<&'a Map<String, Value>>);

impl Vars<'_> {
    /// Returns the text of a variable and the variable's name. `keys` are alternative names; if several are set, the last one takes precedence.
    fn text(&self, keys: &[&'static str]) -> Result<Option<(&'static str, String)>, HostProblem> {
        let find = |key: &&'static str| Some((*key, self.0?.get(*key)?));
        let Some((key, value)) = keys.iter().rev().find_map(find) else {
            return Ok(None);
        };
        match value {
            Value::String(text) if text.contains("{{") => {
                Err(HostProblem::Template(key, text.clone()))
            }
            Value::String(text) => Ok(Some((key, text.clone()))),
            Value::Number(number) => Ok(Some((key, number.to_string()))),
            _ => Err(HostProblem::Structured(key)),
        }
    }

    /// Like [`text`](Self::text), but only for a value that is safe as an argument of ssh.
    fn word(&self, keys: &[&'static str]) -> Result<Option<String>, HostProblem> {
        match self.text(keys)? {
            Some((key, text)) if !fits_ssh(&text) => {
                Err(HostProblem::Value(key, text, "is not usable by ssh"))
            }
            text => Ok(text.map(|(_, text)| text)),
        }
    }
}

/// Returns a host, from the variables that Ansible's ssh connection uses.
fn entry(name: &str, vars: &Vars<'_>) -> Result<HostEntry, HostProblem> {
    if !fits_ssh(name) {
        return Err(HostProblem::Name);
    }
    let mut entry = HostEntry {
        address: vars.word(&["ansible_host", "ansible_ssh_host"])?,
        user: vars.word(&["ansible_user", "ansible_ssh_user"])?,
        ..HostEntry::named(name)
    };
    entry.address.take_if(|address| address == name);
    if let Some((key, port)) = vars.text(&["ansible_port", "ansible_ssh_port"])? {
        entry.port = match port.parse() {
            Ok(number @ 1..) => Some(number),
            Ok(0) | Err(_) => return Err(HostProblem::Value(key, port, "is not a valid port")),
        };
    }
    let keys = ["ansible_private_key_file", "ansible_ssh_private_key_file"];
    if let Some((key, file)) = vars.text(&keys)? {
        if file.trim().is_empty() || file.contains(char::is_control) {
            return Err(HostProblem::Value(key, file, "is not a valid path"));
        }
        entry.identity_file = Some(file);
    }
    if let Some((key, connection)) = vars.text(&["ansible_connection"])? {
        let reason = match connection.rsplit('.').next().unwrap_or(&connection) {
            "ssh" | "smart" | "paramiko" | "paramiko_ssh" | "libssh" => None,
            "local" => Some(
                "is this machine, not reached by ssh; use a group without it, or a site of kind `local`",
            ),
            _ => Some("is not ssh, the only supported connection"),
        };
        if let Some(reason) = reason {
            return Err(HostProblem::Value(key, connection, reason));
        }
    }
    for key in [
        "ansible_ssh_args",
        "ansible_ssh_common_args",
        "ansible_ssh_extra_args",
    ] {
        if let Some((_, text)) = vars.text(&[key])? {
            let options = ssh_args::read(&text);
            let options = options.map_err(|problem| HostProblem::Arguments(key, text, problem))?;
            entry.ssh_options.extend(options);
        }
    }
    Ok(entry)
}
