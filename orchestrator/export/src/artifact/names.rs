//! Finds the names in the files of a campaign (hosts, users, accounts) and secrets.

use super::patterns::{
    ARN_ACCOUNT, HOME, QUOTED_ACCOUNT, USER_AT_HOST, is_secret_everywhere, matches, pairs,
};
use cvc_core::{environment, nodelist, paths};
use serde_json::Value;
use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

/// Kind of a name. Replacement words differ between kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NameKind {
    Host,
    Domain,
    User,
    Account,
    Address,
    Card,
    CloudId,
    Key,
}

impl NameKind {
    fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Domain => "domain",
            Self::User => "user",
            Self::Account => "account",
            Self::Address => "ip",
            Self::Card => "mac",
            Self::CloudId => "cloud-id",
            Self::Key => "key",
        }
    }
}

/// Generic names, which identify no person or machine.
const GENERIC: [&str; 22] = [
    "localhost",
    "local",
    "root",
    "ubuntu",
    "debian",
    "admin",
    "ec2-user",
    "rocky",
    "centos",
    "fedora",
    "almalinux",
    "cloud-user",
    "nobody",
    "unknown",
    "host",
    "user",
    "git",
    "localdomain",
    "none",
    "default",
    "runner",
    "user-1",
];

/// Ordinary words of cvc's files that may also be the name of a host or user. Such a name is replaced only where nothing but a name can occur, such
/// as in the value of `USER`.
const WORDS: [&str; 96] = [
    "address",
    "app",
    "at",
    "attempt",
    "baseline",
    "budget",
    "by",
    "campaign",
    "cause",
    "checkpoint",
    "ckpt",
    "class",
    "cloud",
    "cluster",
    "code",
    "compute",
    "cost",
    "csv",
    "cvc",
    "data",
    "detail",
    "dmtcp",
    "ec2",
    "end",
    "event",
    "failed",
    "false",
    "file",
    "files",
    "hosts",
    "head",
    "home",
    "id",
    "image",
    "index",
    "instance",
    "instances",
    "job",
    "journal",
    "kernel",
    "key",
    "kind",
    "launch",
    "lease",
    "level",
    "log",
    "login",
    "lock",
    "mapping",
    "master",
    "matrix",
    "max",
    "measured",
    "memory",
    "min",
    "mpi",
    "mpich",
    "name",
    "nodes",
    "node",
    "openmpi",
    "order",
    "outcome",
    "path",
    "pid",
    "place",
    "plan",
    "point",
    "points",
    "predict",
    "price",
    "processes",
    "rank",
    "record",
    "records",
    "repeat",
    "repeats",
    "report",
    "result",
    "role",
    "run",
    "runs",
    "seq",
    "set",
    "site",
    "sites",
    "slurm",
    "state",
    "storage",
    "succeeded",
    "sum",
    "test",
    "time",
    "true",
    "value",
    "warmup",
];

/// Domains that identify no organisation.
const PUBLIC: [&str; 12] = [
    "amazonaws.com",
    "compute.amazonaws.com",
    "compute.internal",
    "ec2.internal",
    "ac.uk",
    "co.uk",
    "com.br",
    "edu.au",
    "ac.jp",
    "edu.cn",
    "github.com",
    "localhost.localdomain",
];

/// Returns whether the name is generic.
pub(super) fn is_generic(name: &str) -> bool {
    GENERIC
        .iter()
        .any(|generic| generic.eq_ignore_ascii_case(name))
}

/// The names found, and their replacements.
#[derive(Default)]
pub(super) struct ArtifactNames {
    words: HashMap<(NameKind, String), String>,
    counts: HashMap<NameKind, usize>,
    /// Kinds and names in the order in which they were found.
    order: Vec<(NameKind, String)>,
    secrets: BTreeSet<String>,
}

impl ArtifactNames {
    /// Returns the replacement word for a name, and creates one if there is none yet.
    pub(super) fn word(&mut self, kind: NameKind, name: &str) -> String {
        let name = name.to_lowercase();
        if let Some(word) = self.words.get(&(kind, name.clone())) {
            return word.clone();
        }
        // hosts with the same first label are the same host
        let first = match kind {
            NameKind::Host => name.split_once('.').map(|(first, _)| first),
            _ => None,
        };
        let word = match first {
            Some(first) => self.word(kind, first),
            None => {
                let count = self.counts.entry(kind).or_default();
                *count += 1;
                format!("{}-{count}", kind.word())
            }
        };
        self.words.insert((kind, name.clone()), word.clone());
        self.order.push((kind, name));
        word
    }

    pub(super) fn has_host(&self, name: &str) -> bool {
        self.words
            .contains_key(&(NameKind::Host, name.to_lowercase()))
    }

    /// Returns whether a name of this kind was found, even if it is also an ordinary word. For places where nothing but a name can occur.
    pub(super) fn is_in_context(&self, kind: NameKind, name: &str) -> bool {
        let name = name.to_lowercase();
        self.words.contains_key(&(kind, name))
    }

    /// Returns the names to replace everywhere, with their replacements. Names that are also ordinary words are not among them.
    pub(super) fn known(&self) -> Vec<(String, String)> {
        self.order
            .iter()
            .filter(|(_, name)| !WORDS.contains(&name.as_str()))
            .filter_map(|key| Some((key.1.clone(), self.words.get(key)?.clone())))
            // case is ignored only for ASCII letters
            .flat_map(|(name, word)| {
                let upper = (!name.is_ascii()).then(|| (name.to_uppercase(), word.clone()));
                [(name, word)].into_iter().chain(upper)
            })
            .collect()
    }

    /// Returns the prefixes of numbered host names that are long enough to be specific; `None` if there are none.
    pub(super) fn host_prefixes(&self) -> Option<BTreeSet<&str>> {
        let prefixes: BTreeSet<&str> = self
            .order
            .iter()
            .filter(|(kind, _)| *kind == NameKind::Host)
            .map(|(_, name)| (name.trim_end_matches(|c: char| c.is_ascii_digit()), name))
            .filter(|(prefix, name)| prefix.len() < name.len() && prefix.len() >= 3)
            .map(|(prefix, _)| prefix)
            .collect();
        (!prefixes.is_empty()).then_some(prefixes)
    }

    /// Returns the secrets, which must not appear anywhere.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(String::as_str)
    }

    fn secret(&mut self, text: &str) {
        // shorter texts would match everywhere
        if text.len() >= 8 && text != super::patterns::WITHHELD {
            self.secrets.insert(text.to_owned());
        }
    }
}

/// Finds names in the files of a campaign.
#[derive(Default)]
pub(super) struct NameFinder {
    names: ArtifactNames,
}

impl NameFinder {
    /// Returns the names found.
    pub(super) fn found(self) -> ArtifactNames {
        self.names
    }

    /// Finds names in any kind of text.
    pub(super) fn text(&mut self, text: &str) {
        for found in matches(&HOME, text) {
            self.add(NameKind::User, found.get(1).map_or("", |m| m.as_str()));
        }
        for found in matches(&USER_AT_HOST, text) {
            let part = |at| found.get(at).map_or("", |m| m.as_str());
            // `mpich@main` in Spack is a version, not a user and host
            if !["main", "master", "develop", "latest", "head"].contains(&part(2)) {
                self.add(NameKind::User, part(1));
                self.host(part(2));
            }
        }
        for pattern in [&ARN_ACCOUNT, &QUOTED_ACCOUNT] {
            for found in matches(pattern, text) {
                self.add(NameKind::Account, found.get(1).map_or("", |m| m.as_str()));
            }
        }
        for (name, value) in pairs(text) {
            let value = value.as_str().trim_matches(['"', '\'', '\\']);
            match name.as_str() {
                "USER" | "LOGNAME" | "USERNAME" => self.add(NameKind::User, value),
                "HOST" | "HOSTNAME" => self.host(value),
                name if is_secret_everywhere(name) => self.names.secret(value),
                _ => {}
            }
        }
    }

    /// Finds names in JSON and in other data with keys and values. The parser limits the recursion depth.
    pub(super) fn json(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                for (key, value) in members {
                    self.member(key, value);
                    self.json(value);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.json(item)),
            Value::String(text) => {
                // some facts are JSON inside a string
                if text.starts_with(['{', '['])
                    && let Ok(inner) = serde_json::from_str::<Value>(text)
                {
                    self.json(&inner);
                }
                self.text(text);
            }
            _ => {}
        }
    }

    fn member(&mut self, key: &str, value: &Value) {
        match (key, value) {
            (_, Value::String(text)) if is_secret_everywhere(key) => self.names.secret(text),
            (
                "host" | "hostname" | "address" | "internal" | "head" | "node",
                Value::String(text),
            ) => {
                self.host(text);
            }
            ("hosts" | "node_names" | "nodes" | "names", _) => self.hosts(value),
            ("head" | "host", Value::Object(_)) => self.hosts(value),
            ("user" | "username" | "login", Value::String(text)) => self.add(NameKind::User, text),
            ("owner", Value::String(text)) if !text.contains('@') => self.add(NameKind::User, text),
            ("account" | "profile", Value::String(text)) => self.add(NameKind::Account, text),
            ("key_name", Value::String(text)) => self.add(NameKind::Key, text),
            ("ids" | "group_id" | "instance_id", Value::String(text)) => {
                for id in text.split_whitespace().filter(|id| *id != "unknown") {
                    self.add(NameKind::CloudId, id);
                }
            }
            ("instances", Value::Array(ids)) => {
                for id in ids.iter().filter_map(Value::as_str) {
                    self.add(NameKind::CloudId, id);
                }
            }
            ("endpoint", Value::String(text)) => {
                let place = text
                    .split_once("://")
                    .map_or(text.as_str(), |(_, rest)| rest);
                self.host(place.split(['/', ':']).next().unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Adds hosts from lists, strings with several hosts, and objects with a name.
    fn hosts(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                for list in text.split_whitespace() {
                    match nodelist::expand(list) {
                        Ok(nodes) => nodes.iter().for_each(|node| self.host(node)),
                        Err(_) => self.host(list),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.hosts(item)),
            Value::Object(members) => {
                if let Some(Value::String(name)) = members.get("name") {
                    self.host(name);
                }
            }
            _ => {}
        }
    }

    /// Adds a host: its full name, its short name and its domains.
    fn host(&mut self, name: &str) {
        let name = name.trim_end_matches('.');
        if name.parse::<IpAddr>().is_ok() || PUBLIC.contains(&name) {
            return;
        }
        if let Some((first, domain)) = name.split_once('.') {
            self.add(NameKind::Host, first);
            let mut domain = domain;
            while domain.contains('.') && !PUBLIC.contains(&domain) {
                self.add(NameKind::Domain, domain);
                domain = domain.split_once('.').map_or("", |(_, rest)| rest);
            }
        }
        self.add(NameKind::Host, name);
    }

    fn add(&mut self, kind: NameKind, name: &str) {
        let name = name.trim();
        let is_number = name.chars().all(|c| c.is_ascii_digit() || c == '.');
        if name.len() < 2 || is_generic(name) || (is_number && kind != NameKind::Account) {
            return;
        }
        self.names.word(kind, name);
    }

    /// Adds this machine, its user, and the secrets in its environment. They are added last, so that the words for other names do not depend on
    /// them.
    pub(super) fn this_machine(&mut self) {
        if let Some(host) = paths::host_name() {
            self.host(&host);
        }
        for name in ["USER", "LOGNAME"] {
            if let Ok(user) = std::env::var(name) {
                self.add(NameKind::User, &user);
            }
        }
        if let Some(home) = paths::home() {
            let last = home.trim_end_matches('/').rsplit('/').next();
            self.add(NameKind::User, last.unwrap_or_default());
        }
        for name in environment::withheld_variables() {
            if is_secret_everywhere(&name.to_string_lossy())
                && let Some(value) = std::env::var_os(name)
            {
                self.names.secret(&value.to_string_lossy());
            }
        }
    }
}
