//! Converts ssh's messages to errors. Unknown messages are passed on unchanged.

use super::target::Hop;
use cvc_engine::host::{HostError, Obstacle};

/// Maximum number of lines of ssh's messages that an error contains.
const LAST: usize = 4;

/// A host key that ssh found in a known-hosts file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// The host name that ssh looked up.
    pub name: String,
    /// Known-hosts file that contains the key.
    pub file: String,
    /// Line of the key in the file, from 1.
    pub line: usize,
}

/// A changed host key, as ssh reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The host name that ssh looked up.
    pub name: String,
    /// Fingerprint of the key that the host offered.
    pub offered: String,
    /// Known-hosts file with the previous key.
    pub file: String,
    /// Line of the previous key in the file, from 1.
    pub line: usize,
}

/// Returns the known-hosts entries that ssh found for the hops, in the order of the connection.
pub fn recognised(log: &str) -> Vec<Recognised> {
    let mut found = Vec::new();
    let mut name = None;
    for line in log.lines() {
        if let Some(rest) = line.strip_prefix("debug1: Host '") {
            name = rest
                .split_once("' is known and matches")
                .map(|(n, _)| n.to_lowercase());
        } else if let Some(place) = line
            .strip_prefix("debug1: Found key in ")
            .or_else(|| line.strip_prefix("debug1: Found CA key in "))
            && let Some(name) = name.take()
            && let Some((file, line)) = place.trim_end().rsplit_once(':')
        {
            found.extend(line.parse().ok().map(|line| Recognised {
                name,
                file: file.to_owned(),
                line,
            }));
        }
    }
    found
}

/// Returns the fingerprint that the last host of the log offered.
pub fn offered(log: &str) -> Option<String> {
    let line = log.lines().rev().find_map(|l| {
        l.strip_prefix("debug1: Server host ")
            .filter(|r| r.starts_with("key: ") || r.starts_with("certificate: "))
    })?;
    line.split_whitespace()
        .find(|w| w.starts_with("SHA256:"))
        .map(str::to_owned)
}

/// Returns the changed key that the log reports.
pub fn changed(log: &str) -> Option<Changed> {
    log.lines()
        .find(|l| l.contains("HOST IDENTIFICATION HAS CHANGED"))?;
    let place = log
        .lines()
        .find_map(|l| l.strip_prefix("Offending ")?.split_once(" key in "))?
        .1;
    let (file, line) = place.trim_end().rsplit_once(':')?;
    let name = log
        .lines()
        .find_map(|l| l.strip_prefix("Host key for ")?.split_once(" has changed"))?
        .0;
    Some(Changed {
        name: name.to_lowercase(),
        offered: offered(log)?,
        file: file.to_owned(),
        line: line.parse().ok()?,
    })
}

/// Returns the name of a host whose key is unknown.
pub fn unknown(log: &str) -> Option<String> {
    let line = log
        .lines()
        .find(|l| l.contains("host key is known for") && l.contains("strict checking"))?;
    Some(
        line.split_once("is known for ")?
            .1
            .split_once(" and you have")?
            .0
            .to_lowercase(),
    )
}

/// Returns the lines that are not debugging output.
pub fn plain(log: &str) -> Vec<&str> {
    let noise = |l: &str| {
        l.is_empty()
            || l.starts_with("debug")
            || l.starts_with("OpenSSH_")
            || l.starts_with("Authenticated to ")
            || l.starts_with("Authenticated using ")
            || l.starts_with("Warning: Permanently added ")
            || l.starts_with("Transferred: ")
            || l.starts_with("Bytes per second: ")
            || l.starts_with("Pseudo-terminal will not be allocated")
    };
    log.lines().map(str::trim).filter(|l| !noise(l)).collect()
}

/// Returns the last lines of the log, for a message.
pub fn last(log: &str) -> String {
    let lines = plain(log);
    let kept = &lines[lines.len().saturating_sub(LAST)..];
    if kept.is_empty() {
        "it gave no message".to_owned()
    } else {
        kept.join("; ")
    }
}

/// Returns the error that a log reports; errors of host keys are not handled here.
pub fn interpret(host: &str, hops: &[Hop], log: &str) -> HostError {
    let lines = plain(log);
    let says = |phrase: &str| lines.iter().any(|l| l.contains(phrase));
    let message = last(log);
    if let Some(line) = lines.iter().find(|l| {
        l.contains(": Permission denied (") || l.contains("Too many authentication failures")
    }) {
        let at = line
            .split_once(": Permission denied (")
            .map(|(who, _)| who.rsplit(' ').next().unwrap_or(who));
        let (user, machine) = at
            .and_then(|w| w.rsplit_once('@'))
            .map_or((None, None), |(u, h)| (Some(u), Some(h)));
        let user = user
            .or_else(|| hops.first().map(|h| h.user.as_str()))
            .filter(|u| !u.is_empty());
        // the message comes from a jump host that rejects the user
        let jump = machine.and_then(|m| {
            hops.iter()
                .skip(1)
                .find(|h| h.hostname == m || h.written == m)
        });
        return HostError::Denied {
            host: jump.map_or_else(
                || host.to_owned(),
                |j| format!("{host}, by way of {}", j.written),
            ),
            user: user.unwrap_or("the user").to_owned(),
            methods: line
                .split_once("Permission denied (")
                .and_then(|(_, m)| m.split_once(')'))
                .map_or("the keys that it has", |(m, _)| m)
                .to_owned(),
            keys: tried(log),
        };
    }
    let cause = if says("Could not resolve hostname") || says("Name or service not known") {
        Obstacle::Name
    } else if says("Connection refused") {
        Obstacle::Refused
    } else if says("No route to host")
        || says("Network is unreachable")
        || says("Host is unreachable")
    {
        Obstacle::NoRoute
    } else if says("timed out") || says("Timeout, server") {
        Obstacle::Silence
    } else if [
        "Connection closed",
        "Connection reset",
        "closed by remote host",
        "stdio forwarding failed",
        "Broken pipe",
        "banner line",
    ]
    .iter()
    .any(|p| says(p))
    {
        Obstacle::HungUp
    } else {
        return HostError::Ssh {
            host: host.to_owned(),
            message,
        };
    };
    HostError::Unreachable {
        host: host.to_owned(),
        cause,
        message,
    }
}

/// Returns the user's keys that ssh offered after the last jump.
fn tried(log: &str) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for line in log.lines() {
        if line.starts_with("debug1: Connecting to ")
            || line.starts_with("debug1: Authenticating to ")
        {
            keys.clear();
        } else if let Some(key) = line.strip_prefix("debug1: Offering public key: ") {
            let key = key.split_once(" SHA256:").map_or(key, |(path, _)| path);
            let key = key
                .rsplit_once(' ')
                .map_or(key, |(path, _)| path)
                .to_owned();
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys
}
