//! The configuration file that cvc passes to ssh: cvc's own rules first, because the first value of an option counts, then the user's. It is a file
//! and not a list of options, so that the rules also hold for jump hosts.

use super::target::Hop;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::hosts::{HostKeys, SshSettings};
use cvc_core::paths;
use std::fmt::Write;

/// Time limit for establishing a connection, seconds.
pub(super) const CONNECT_S: u64 = 10;
/// Time without data after which a keep-alive request is sent, seconds.
const ALIVE_EVERY_S: u64 = 3;
/// Number of unanswered keep-alive requests after which the connection is lost: three intervals after the last answer, 9 s.
const ALIVE_COUNT: u64 = 2;

/// Returns the rules for every host, jump hosts included.
fn rules() -> Vec<(&'static str, String)> {
    let no = || "no".to_owned();
    vec![
        ("BatchMode", "yes".into()),
        ("ConnectTimeout", CONNECT_S.to_string()),
        ("ConnectionAttempts", "1".into()),
        ("ServerAliveInterval", ALIVE_EVERY_S.to_string()),
        ("ServerAliveCountMax", ALIVE_COUNT.to_string()),
        ("ControlMaster", no()),
        // the master's own socket is passed as an argument; jumps use new connections, so that their keys are checked
        ("ControlPath", "none".into()),
        ("ControlPersist", no()),
        ("ClearAllForwardings", "yes".into()),
        ("ForwardX11", no()),
        ("PermitLocalCommand", no()),
        ("RemoteCommand", "none".into()),
        ("RequestTTY", no()),
        ("UpdateHostKeys", no()),
        ("VerifyHostKeyDNS", no()),
        ("CheckHostIP", no()),
        ("NoHostAuthenticationForLocalhost", no()),
        ("HashKnownHosts", no()),
        ("VisualHostKey", no()),
    ]
}

/// Returns the path of the user's configuration: the file that the site names, or `~/.ssh/config`.
pub(super) fn of_user(ssh: &SshSettings) -> Utf8PathBuf {
    ssh.config
        .as_deref()
        .map_or_else(|| paths::expand("~/.ssh/config"), paths::expand)
}

/// Returns the text of a configuration with the keys of these hops, followed by the user's configuration. ssh writes new keys to `fresh`.
pub(super) fn text(ssh: &SshSettings, hops: &[Hop], fresh: &Utf8Path) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    for hop in hops {
        line(format!("Host {}", hop.written));
        match &hop.pinned {
            Some(file) => {
                line(format!("    UserKnownHostsFile {}", quoted(file)));
                line("    GlobalKnownHostsFile none".into());
                if hop.has_command {
                    line("    KnownHostsCommand none".into());
                }
            }
            None => {
                // ssh writes new keys into the first file
                let files: Vec<String> = std::iter::once(fresh)
                    .chain(hop.vouching.iter().map(Utf8PathBuf::as_path))
                    .map(quoted)
                    .collect();
                line(format!("    UserKnownHostsFile {}", files.join(" ")));
            }
        }
        let strict = match (ssh.host_keys, &hop.pinned) {
            (HostKeys::AcceptNew, None) => "accept-new",
            (HostKeys::AcceptNew | HostKeys::Strict, _) => "yes",
        };
        line(format!("    StrictHostKeyChecking {strict}"));
    }
    line("Host *".into());
    line("    LogLevel DEBUG1".into());
    for (key, value) in rules() {
        line(format!("    {key} {value}"));
    }
    line(format!("Include {}", quoted(&of_user(ssh))));
    line("Match all".into());
    if ssh.config.is_none() {
        line("Include /etc/ssh/ssh_config".into());
        line("Match all".into());
    }
    // ssh takes the home directory from the password database, but all other programs from HOME
    let known: Vec<String> = ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"]
        .iter()
        .map(|f| quoted(&paths::expand(f)))
        .collect();
    line(format!("    UserKnownHostsFile {}", known.join(" ")));
    out
}

/// Returns cvc's rules as options of the ssh command, for other programs that run ssh themselves.
pub(super) fn options(pinned: &Utf8Path, ssh: &SshSettings) -> Vec<String> {
    let strict = match ssh.host_keys {
        HostKeys::Strict => "yes",
        HostKeys::AcceptNew => "accept-new",
    };
    let wanted = [
        "BatchMode",
        "ConnectTimeout",
        "ServerAliveInterval",
        "ServerAliveCountMax",
        "UpdateHostKeys",
        "CheckHostIP",
        "HashKnownHosts",
    ];
    let mut args: Vec<String> = Vec::new();
    for (key, value) in rules().into_iter().filter(|(key, _)| wanted.contains(key)) {
        args.extend(["-o".into(), format!("{key}={value}")]);
    }
    args.extend(["-o".into(), format!("StrictHostKeyChecking={strict}")]);
    args.extend([
        "-o".into(),
        format!("UserKnownHostsFile={}", quoted(pinned)),
    ]);
    args.extend(["-o".into(), "GlobalKnownHostsFile=none".into()]);
    args
}

/// Returns a path quoted for a configuration file: spaces are kept, and percent signs are not expanded.
fn quoted(path: &Utf8Path) -> String {
    format!("\"{}\"", path.as_str().replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_host_is_known_by_its_pin_alone() {
        let hop = |pinned: Option<&str>| Hop {
            written: "n1".into(),
            name: "n1".into(),
            hostname: "n1".into(),
            user: "u".into(),
            pinned: pinned.map(Into::into),
            vouching: vec!["/k".into()],
            has_command: false,
        };
        let accept = SshSettings {
            host_keys: HostKeys::AcceptNew,
            ..SshSettings::default()
        };
        let head = |hop: Hop| {
            text(&accept, &[hop], "/fresh".into())
                .lines()
                .take(4)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            head(hop(Some("/a b%"))),
            [
                "Host n1",
                "    UserKnownHostsFile \"/a b%%\"",
                "    GlobalKnownHostsFile none",
                "    StrictHostKeyChecking yes"
            ]
        );
        assert_eq!(
            head(hop(None))[1..3],
            [
                "    UserKnownHostsFile \"/fresh\" \"/k\"",
                "    StrictHostKeyChecking accept-new"
            ]
        );
    }
}
