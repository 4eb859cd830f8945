//! The machines through which a connection passes, as ssh itself resolves them: the target and its jump hosts.

use super::{
    config, pins,
    target::{Hop, SshTarget},
};
use camino::Utf8Path;
use cvc_core::paths;
use cvc_engine::host::{HostError, output_within, tool};
use std::{process::Stdio, time::Duration};

/// Maximum number of machines of a connection. The limit also stops the resolution of a circular configuration.
const MAX: usize = 8;
/// Time limit of `ssh -G`, which only reads files.
const LIMIT: Duration = Duration::from_secs(20);

/// Returns the target, followed by the jump hosts before it.
pub(super) async fn resolve(target: &SshTarget, dir: &Utf8Path) -> Result<Vec<Hop>, HostError> {
    let base = dir.join("base");
    std::fs::write(&base, config::text(&target.ssh, &[], &dir.join("fresh"))).map_err(
        |source| HostError::File {
            host: "localhost".into(),
            action: "write",
            path: base.to_string(),
            source,
        },
    )?;
    let mut hops: Vec<Hop> = Vec::new();
    let mut open = vec![(target.destination().to_owned(), target.place())];
    while let Some((written, args)) = open.pop().filter(|_| hops.len() < MAX) {
        if hops.iter().any(|h| h.written == written) {
            continue;
        }
        let answer = ask(target, &base, &written, &args).await?;
        let value = |key: &str| {
            answer
                .iter()
                .find(|(k, _)| k == key)
                .map(|(_, v)| v.as_str())
                .filter(|v| *v != "none")
        };
        let hostname = value("hostname").unwrap_or(&written).to_lowercase();
        let name = match (value("hostkeyalias"), value("port").unwrap_or("22")) {
            (Some(alias), _) => alias.to_lowercase(),
            (None, "22") => hostname.clone(),
            (None, port) => format!("[{hostname}]:{port}"),
        };
        let of_user = value("userknownhostsfile")
            .unwrap_or_default()
            .split(' ')
            .filter(|f| !f.is_empty())
            .map(paths::expand);
        open.extend(
            value("proxyjump")
                .unwrap_or_default()
                .split(',')
                .filter(|j| !j.is_empty())
                .map(jump),
        );
        hops.push(Hop {
            pinned: pins::has(&target.pinned, &name)?.then(|| target.pinned.clone()),
            vouching: target
                .ssh
                .known_hosts
                .as_deref()
                .map(paths::expand)
                .into_iter()
                .chain(of_user)
                .collect(),
            has_command: value("knownhostscommand").is_some(),
            user: value("user").unwrap_or_default().to_owned(),
            written,
            name,
            hostname,
        });
    }
    Ok(hops)
}

/// Returns ssh's effective configuration for a host, from `ssh -G`.
async fn ask(
    target: &SshTarget,
    base: &Utf8Path,
    host: &str,
    args: &[String],
) -> Result<Vec<(String, String)>, HostError> {
    let mut argv: Vec<String> = ["ssh", "-G", "-F", base.as_str()]
        .map(str::to_owned)
        .to_vec();
    argv.extend_from_slice(args);
    argv.extend(["--".into(), host.into()]);
    let mut command = tool(&argv[0]);
    command.args(&argv[1..]).stdin(Stdio::null());
    let output = match output_within(&mut command, LIMIT).await {
        Ok(output) => output.map_err(|source| HostError::Start {
            host: "localhost".into(),
            argv,
            source,
        })?,
        Err(_) => {
            return Err(HostError::Timeout {
                host: "localhost".into(),
                argv,
                limit_s: LIMIT.as_secs_f64(),
            });
        }
    };
    if !output.status.success() {
        return Err(crate::ssh::diagnostics::interpret(
            &target.name,
            &[],
            &String::from_utf8_lossy(&output.stderr),
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .filter_map(|l| l.split_once(' '))
        .map(|(k, v)| (k.to_ascii_lowercase(), v.trim().to_owned()))
        .collect())
}

/// Splits an entry of `ProxyJump`, `[user@]host[:port]` or an ssh:// address, into host and arguments of ssh.
fn jump(word: &str) -> (String, Vec<String>) {
    let word = word.trim().trim_start_matches("ssh://");
    let mut args = Vec::new();
    let rest = match word.rsplit_once('@') {
        Some((user, rest)) => {
            args.extend(["-l".to_owned(), user.to_owned()]);
            rest
        }
        None => word,
    };
    let (host, port) = match rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
        Some((host, after)) => (host, after.strip_prefix(':')),
        // an IPv6 address without brackets has more than one colon, and no port
        None if rest.matches(':').count() == 1 => rest
            .split_once(':')
            .map_or((rest, None), |(h, p)| (h, Some(p))),
        None => (rest, None),
    };
    if let Some(port) = port {
        args.extend(["-p".to_owned(), port.to_owned()]);
    }
    (host.to_owned(), args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jump_hosts_as_people_write_them() {
        let of = |word: &str| {
            let (host, args) = jump(word);
            format!("{} {host}", args.join(" ")).trim().to_owned()
        };
        assert_eq!(of("login"), "login");
        assert_eq!(of("me@login:2222"), "-l me -p 2222 login");
        assert_eq!(of("ssh://me@login:2222"), "-l me -p 2222 login");
        assert_eq!(of("[fd00::1]:22"), "-p 22 fd00::1");
        assert_eq!(of("fd00::1"), "fd00::1");
    }
}
