//! The inventory of a site: its hosts and how Ansible reaches them. It contains no secrets, only the paths of key files.

use super::InstallError;
use camino::Utf8Path;
use cvc_core::campaign::Site;
use cvc_core::hosts::{HostEntry, HostKeys, SshSettings};
use cvc_core::paths;
use cvc_engine::render::{self, Template};
use serde_json::{Map, Value, json};

/// Name of this machine in an inventory.
pub const LOCAL: &str = "localhost";

/// Returns the hosts of a site in its order; the head node is first if it is not one of the nodes. For a local site, and for a Slurm site whose login
/// node is this machine, it is `localhost`.
pub fn hosts(site: &Site) -> Vec<String> {
    let Some(cluster) = &site.cluster else {
        return vec![LOCAL.into()];
    };
    let mut names: Vec<String> = cluster.hosts.iter().map(|h| h.name.clone()).collect();
    if let Some(head) = cluster.head.as_ref().filter(|h| !names.contains(&h.name)) {
        names.insert(0, head.name.clone());
    }
    if names.is_empty() {
        names.push(LOCAL.into());
    }
    names
}

/// Returns the inventory's text with the groups `head` and `nodes`, for `ansible-playbook -i FILE`. Relative paths refer to `base`, the directory of
/// the campaign file.
///
/// # Errors
/// A value cannot be written in ssh's configuration.
pub fn text(name: &str, site: &Site, base: &Utf8Path) -> Result<String, InstallError> {
    let names = hosts(site);
    let mut vars = Map::new();
    let mut entries = Vec::new();
    let cluster = site.cluster.as_ref();
    if let Some(cluster) = cluster {
        vars.insert(
            "ansible_ssh_common_args".into(),
            ssh_args(name, &cluster.ssh, base)?.into(),
        );
    }
    for host in &names {
        let entry = cluster.and_then(|c| c.hosts.iter().chain(&c.head).find(|h| h.name == *host));
        entries.push(
            json!({ "name": host, "vars": entry.map_or_else(local, |e| variables(e, base)) }),
        );
    }
    let head = cluster
        .and_then(|c| c.head.as_ref())
        .map_or(&names[0], |h| &h.name);
    // Slurm's nodes are unknown before they are allocated: list only the login node
    let nodes: Vec<&String> = names
        .iter()
        .filter(|n| cluster.is_none_or(|c| c.hosts.iter().any(|h| h.name == **n)))
        .collect();
    let mut groups = Map::new();
    groups.insert("head".into(), json!([head]));
    groups.insert("nodes".into(), json!(nodes));
    let values = json!({ "site": name, "vars": vars, "hosts": entries, "groups": groups });
    Ok(render::render(Template::INVENTORY, &values)?)
}

fn local() -> Map<String, Value> {
    Map::from_iter([("ansible_connection".to_owned(), json!("local"))])
}

fn variables(host: &HostEntry, base: &Utf8Path) -> Map<String, Value> {
    let mut vars = Map::new();
    let identity = host
        .identity_file
        .as_ref()
        .map(|f| paths::expand_below(base, f).into_string());
    let options = (!host.ssh_options.is_empty()).then(|| {
        let words = host
            .ssh_options
            .iter()
            .map(|option| format!("-o {}", render::shell_quote(option)));
        words.collect::<Vec<_>>().join(" ")
    });
    for (key, value) in [
        ("ansible_host", host.address.clone().map(Value::from)),
        ("ansible_user", host.user.clone().map(Value::from)),
        ("ansible_port", host.port.map(Value::from)),
        ("ansible_ssh_private_key_file", identity.map(Value::from)),
        ("ansible_ssh_extra_args", options.map(Value::from)),
    ] {
        if let Some(value) = value {
            vars.insert(key.into(), value);
        }
    }
    // a host without variables must still be a mapping, not an empty value
    if vars.is_empty() {
        vars.insert("ansible_connection".into(), json!("ssh"));
    }
    vars
}

/// Returns the options for every ssh process: trusted keys, no prompts, and a time limit for silent connections.
fn ssh_args(name: &str, ssh: &SshSettings, base: &Utf8Path) -> Result<String, InstallError> {
    let mut words: Vec<String> = Vec::new();
    if let Some(config) = &ssh.config {
        words.extend(["-F".into(), paths::expand_below(base, config).into_string()]);
    }
    // list cvc's pinned keys first, because ssh adds keys accepted at a first contact to the first file
    let known = match &ssh.pinned {
        Some(file) => vec![file.into()],
        None => {
            let mut known = vec![crate::ssh::pinned_file(name)];
            known.extend(
                ssh.known_hosts
                    .as_ref()
                    .map(|f| paths::expand_below(base, f)),
            );
            known.push(paths::expand("~/.ssh/known_hosts"));
            known
        }
    };
    let files = known
        .iter()
        .map(|f| quoted(f))
        .collect::<Result<Vec<_>, _>>()?;
    let strict = match ssh.host_keys {
        HostKeys::Strict => "yes",
        HostKeys::AcceptNew => "accept-new",
    };
    for option in [
        format!("UserKnownHostsFile={}", files.join(" ")),
        format!("StrictHostKeyChecking={strict}"),
        "BatchMode=yes".into(),
        "ConnectTimeout=15".into(),
        "ServerAliveInterval=5".into(),
        "ServerAliveCountMax=3".into(),
    ] {
        words.extend(["-o".into(), option]);
    }
    // Ansible splits this value into words like a shell
    Ok(words
        .iter()
        .map(|w| render::shell_quote(w))
        .collect::<Vec<_>>()
        .join(" "))
}

/// Returns a path quoted for ssh's configuration: in quotes, with doubled percent signs.
fn quoted(path: &Utf8Path) -> Result<String, InstallError> {
    let text = path.as_str();
    if text.contains(['"', '\n', '\\']) {
        return Err(InstallError::Path {
            path: path.to_owned(),
        });
    }
    let text = text.replace('%', "%%");
    Ok(if text.contains(char::is_whitespace) {
        format!("\"{text}\"")
    } else {
        text
    })
}
