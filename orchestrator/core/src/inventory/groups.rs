//! Groups, their hosts and variables, and the merged variables of a host.

use super::{
    error::{Complaint, InventoryError, complain},
    ssh_args,
};
use crate::hosts::HostEntry;
use indexmap::{IndexMap, IndexSet};
use std::path::Path;

/// The group of all hosts.
pub(super) const ALL: &str = "all";
/// The group of hosts that are in no other.
pub(super) const UNGROUPED: &str = "ungrouped";
/// Maximum number of hosts; more are a mistyped range.
pub(super) const MAX_HOSTS: usize = 100_000;

/// Variables with the line that gave each.
pub(super) type Vars = IndexMap<String, (String, usize)>;

/// One group.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    pub(super) hosts: IndexSet<String>,
    pub(super) children: IndexSet<String>,
    pub(super) vars: Vars,
    /// Its `ansible_group_priority`.
    pub(super) priority: i64,
}

/// An inventory that was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    pub(super) groups: IndexMap<String, Group>,
    /// Hosts in the order of the file, with their own variables.
    pub(super) hosts: IndexMap<String, Vars>,
    /// Where each host was named first.
    pub(super) lines: IndexMap<String, usize>,
}

impl Groups {
    pub(super) fn group(&mut self, name: &str) -> &mut Group {
        self.groups.entry(name.to_owned()).or_default()
    }

    /// Adds hosts to a group, with variables. The port of a pattern counts where a host is named first, as with Ansible.
    pub(super) fn add(
        &mut self,
        group: &str,
        (names, port): (Vec<String>, Option<u16>),
        vars: &Vars,
        line: usize,
    ) -> Result<(), Complaint> {
        if self.hosts.len() + names.len() > MAX_HOSTS {
            return complain(line, format!("more than {MAX_HOSTS} hosts"));
        }
        for name in names {
            if !self.hosts.contains_key(&name) {
                self.lines.insert(name.clone(), line);
                let port = port.map(|port| ("ansible_port".to_owned(), (port.to_string(), line)));
                self.hosts.insert(name.clone(), port.into_iter().collect());
            }
            self.hosts
                .entry(name.clone())
                .or_default()
                .extend(vars.clone());
            self.group(group).hosts.insert(name);
        }
        Ok(())
    }

    /// Makes a group part of another.
    pub(super) fn nest(&mut self, parent: &str, child: &str, line: usize) -> Result<(), Complaint> {
        self.group(child);
        self.group(parent);
        // before it is: what follows relies on groups without circles
        if self.below(child).contains(parent) {
            return complain(
                line,
                format!("the group `{child}` is part of itself, by way of `{parent}`"),
            );
        }
        self.group(parent).children.insert(child.to_owned());
        Ok(())
    }

    pub(super) fn has(&self, group: &str) -> bool {
        matches!(group, ALL | UNGROUPED) || self.groups.contains_key(group)
    }

    pub(super) fn names(&self) -> Vec<String> {
        let own = self
            .groups
            .keys()
            .filter(|n| !matches!(n.as_str(), ALL | UNGROUPED))
            .cloned();
        std::iter::once(ALL.to_owned()).chain(own).collect()
    }

    /// A group and all below it.
    fn below<'a>(&'a self, group: &'a str) -> IndexSet<&'a str> {
        let (mut found, mut open) = (IndexSet::new(), vec![group]);
        while let Some(name) = open.pop() {
            if found.insert(name) {
                open.extend(
                    self.groups
                        .get(name)
                        .into_iter()
                        .flat_map(|g| g.children.iter().map(String::as_str)),
                );
            }
        }
        found
    }

    /// The distance of each group from `all`, by the longest path.
    fn depths(&self) -> IndexMap<&str, usize> {
        let mut depths: IndexMap<&str, usize> = self
            .groups
            .keys()
            .map(|n| (n.as_str(), usize::from(n != ALL)))
            .collect();
        // no group is part of itself, so this ends
        let mut changed = true;
        while changed {
            changed = false;
            for (name, group) in &self.groups {
                let below = depths.get(name.as_str()).copied().unwrap_or(0) + 1;
                for child in &group.children {
                    if let Some(depth) = depths.get_mut(child.as_str()).filter(|d| **d < below) {
                        *depth = below;
                        changed = true;
                    }
                }
            }
        }
        depths
    }

    /// The hosts of a group as a site has them.
    pub(super) fn entries(&self, group: &str) -> Result<Vec<HostEntry>, Complaint> {
        let depths = self.depths();
        let mut order: Vec<&str> = self.groups.keys().map(String::as_str).collect();
        order.sort_by_key(|n| {
            (
                depths.get(n).copied().unwrap_or(0),
                self.groups.get(*n).map_or(1, |g| g.priority),
                *n,
            )
        });
        let of_group = |name: &str| -> IndexSet<&str> {
            self.below(name)
                .into_iter()
                .flat_map(|g| {
                    self.groups
                        .get(g)
                        .into_iter()
                        .flat_map(|g| g.hosts.iter().map(String::as_str))
                })
                .collect()
        };
        let members: IndexMap<&str, IndexSet<&str>> =
            order.iter().map(|n| (*n, of_group(n))).collect();
        let grouped: IndexSet<&str> = members
            .iter()
            .filter(|(n, _)| !matches!(**n, ALL | UNGROUPED))
            .flat_map(|(_, hosts)| hosts.iter().copied())
            .collect();
        let is_in = |host: &str, group: &str| match group {
            ALL => true,
            UNGROUPED => !grouped.contains(host),
            _ => members.get(group).is_some_and(|m| m.contains(host)),
        };
        let mut entries = Vec::new();
        for (name, own) in self.hosts.iter().filter(|(name, _)| is_in(name, group)) {
            let mut vars = Vars::new();
            for group in order.iter().filter(|g| is_in(name, g)) {
                vars.extend(
                    self.groups
                        .get(*group)
                        .map(|g| g.vars.clone())
                        .unwrap_or_default(),
                );
            }
            vars.extend(own.clone());
            entries.push(entry(
                name,
                self.lines.get(name).copied().unwrap_or(1),
                &vars,
            )?);
        }
        Ok(entries)
    }
}

/// A host, from the variables that Ansible's ssh looks at; the later name of each counts more.
fn entry(name: &str, line: usize, vars: &Vars) -> Result<HostEntry, Complaint> {
    let of = |names: [&str; 2]| {
        names.into_iter().rev().find_map(|n| {
            vars.get(n)
                .map(|(value, line)| (n.to_owned(), value.clone(), *line))
        })
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    // not shown: any line of any file is such a name
    if name.is_empty() || name.starts_with('-') || !name.chars().all(fits) {
        let template = if name.contains("{{") {
            ": a template, which only Ansible can evaluate"
        } else {
            ""
        };
        return complain(
            line,
            format!("ssh cannot take the name of the host here{template}"),
        );
    }
    let plain = |what: &str, text: &str, line: usize| {
        if text.contains("{{") {
            return complain(
                line,
                format!("{what} `{text}` is a template, which only Ansible can evaluate"),
            );
        }
        if text.is_empty() || text.starts_with('-') || !text.chars().all(fits) {
            return complain(line, format!("ssh cannot take {what} `{text}`"));
        }
        Ok(())
    };
    let mut entry = HostEntry::named(name);
    if let Some((key, address, line)) = of(["ansible_host", "ansible_ssh_host"]) {
        plain(&key, &address, line)?;
        entry.address = Some(address).filter(|a| a != name);
    }
    if let Some((key, user, line)) = of(["ansible_user", "ansible_ssh_user"]) {
        plain(&key, &user, line)?;
        entry.user = Some(user);
    }
    if let Some((key, port, line)) = of(["ansible_port", "ansible_ssh_port"]) {
        match port.parse::<u16>() {
            Ok(number @ 1..) => entry.port = Some(number),
            Ok(0) | Err(_) => return complain(line, format!("{key} `{port}` is not a valid port")),
        }
    }
    if let Some((key, file, line)) =
        of(["ansible_private_key_file", "ansible_ssh_private_key_file"])
    {
        if file.contains("{{") || file.trim().is_empty() || file.contains(char::is_control) {
            return complain(line, format!("{key} `{file}` is not a valid path"));
        }
        entry.identity_file = Some(file);
    }
    connection(vars)?;
    for key in [
        "ansible_ssh_args",
        "ansible_ssh_common_args",
        "ansible_ssh_extra_args",
    ] {
        if let Some((text, line)) = vars.get(key) {
            match ssh_args::read(text) {
                Ok(options) => entry.ssh_options.extend(options),
                Err(problem) => return complain(*line, format!("{key} `{text}`: {problem}")),
            }
        }
    }
    Ok(entry)
}

/// Whether a host is reached by ssh, as its variable says.
fn connection(vars: &Vars) -> Result<(), Complaint> {
    let Some((connection, line)) = vars.get("ansible_connection") else {
        return Ok(());
    };
    let plain = connection.rsplit('.').next().unwrap_or(connection);
    match plain {
        "ssh" | "smart" | "paramiko" | "paramiko_ssh" | "libssh" => Ok(()),
        "local" => complain(
            *line,
            "ansible_connection `local`: the host is this machine, which is not reached by ssh; use a group without it, or a site of kind `local`",
        ),
        _ => complain(
            *line,
            format!(
                "ansible_connection `{connection}`: cvc reaches hosts by ssh alone; use a group without this host"
            ),
        ),
    }
}

/// The hosts of a group, or what is wrong with the file.
pub(super) fn entries(
    path: &Path,
    groups: Result<Groups, Complaint>,
    group: &str,
) -> Result<Vec<HostEntry>, InventoryError> {
    let line = |complaint: Complaint| InventoryError::Line {
        path: path.to_owned(),
        line: complaint.line,
        problem: complaint.problem,
    };
    let groups = groups.map_err(line)?;
    if !groups.has(group) {
        return Err(InventoryError::NoGroup {
            path: path.to_owned(),
            group: group.to_owned(),
            known: groups.names(),
        });
    }
    let hosts = groups.entries(group).map_err(line)?;
    if hosts.is_empty() {
        return Err(InventoryError::Empty {
            path: path.to_owned(),
            group: group.to_owned(),
        });
    }
    Ok(hosts)
}
