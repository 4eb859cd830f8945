//! Parses arguments for ssh in inventories: `ansible_ssh_args`, `ansible_ssh_common_args`, `ansible_ssh_extra_args`.

use crate::words::{self, WordsProblem};

/// Options of ssh that are passed on; they concern reaching a host and logging in.
const PASSED_ON: [&str; 29] = [
    "AddressFamily",
    "BindAddress",
    "BindInterface",
    "CASignatureAlgorithms",
    "CanonicalizeHostname",
    "CertificateFile",
    "ChallengeResponseAuthentication",
    "Ciphers",
    "GSSAPIAuthentication",
    "GSSAPIDelegateCredentials",
    "HostKeyAlgorithms",
    "HostKeyAlias",
    "HostName",
    "IPQoS",
    "IdentitiesOnly",
    "IdentityAgent",
    "IdentityFile",
    "KbdInteractiveAuthentication",
    "KexAlgorithms",
    "MACs",
    "PasswordAuthentication",
    "Port",
    "PreferredAuthentications",
    "ProxyCommand",
    "ProxyJump",
    "PubkeyAcceptedAlgorithms",
    "PubkeyAcceptedKeyTypes",
    "PubkeyAuthentication",
    "User",
];

/// Options that cvc itself sets for every connection; values in an inventory are ignored. Host keys follow the site's `ssh.host_keys`.
const SET_BY_CVC: [&str; 24] = [
    "AddKeysToAgent",
    "BatchMode",
    "CheckHostIP",
    "Compression",
    "ConnectTimeout",
    "ConnectionAttempts",
    "ControlMaster",
    "ControlPath",
    "ControlPersist",
    "ForwardAgent",
    "ForwardX11",
    "ForwardX11Trusted",
    "GlobalKnownHostsFile",
    "HashKnownHosts",
    "LogLevel",
    "NoHostAuthenticationForLocalhost",
    "RequestTTY",
    "ServerAliveCountMax",
    "ServerAliveInterval",
    "StrictHostKeyChecking",
    "TCPKeepAlive",
    "UpdateHostKeys",
    "UserKnownHostsFile",
    "VerifyHostKeyDNS",
];

/// The reason why arguments of ssh are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SshArgsError {
    /// The arguments cannot be split into words.
    #[error(transparent)]
    Words(#[from] WordsProblem),
    /// A word is not an option.
    #[error("`{0}` is not an option of ssh")]
    NoOption(String),
    /// cvc does not pass the option on.
    #[error("ssh's option `{0}` cannot be passed on")]
    Refused(String),
    /// The last option has no value.
    #[error("ssh's option `{0}` has no value")]
    NoValue(String),
    /// The value of an option is invalid.
    #[error("ssh's option `{0}` has no valid value")]
    InvalidValue(&'static str),
}

/// Parses the options in a text of arguments. Returns each as `Key=Value`, except those that cvc sets itself.
///
/// # Errors
/// An option cannot be passed on; the error names it.
pub(super) fn read(text: &str) -> Result<Vec<String>, SshArgsError> {
    let mut options = Vec::new();
    let mut words = words::split(text)?.into_iter();
    while let Some(word) = words.next() {
        let Some(letter) = word.strip_prefix('-').and_then(|w| w.chars().next()) else {
            return Err(SshArgsError::NoOption(word));
        };
        let attached = &word[2..];
        let key = match letter {
            // several letters without values in one word, such as `-Cq`
            '4' | '6' if attached.is_empty() => {
                let family = if letter == '4' { "inet" } else { "inet6" };
                options.push(format!("AddressFamily={family}"));
                continue;
            }
            'A' | 'C' | 'T' | 'X' | 'Y' | 'a' | 'k' | 'q' | 't' | 'v' | 'x'
                if word[1..].chars().all(|c| "ACTXYakqtvx".contains(c)) =>
            {
                continue;
            }
            'J' => "ProxyJump",
            'S' => "ControlPath",
            'b' => "BindAddress",
            'c' => "Ciphers",
            'i' => "IdentityFile",
            'l' => "User",
            'm' => "MACs",
            'o' => "",
            'p' => "Port",
            _ => return Err(SshArgsError::Refused(word)),
        };
        let value = match attached {
            "" => match words.next() {
                Some(value) => value,
                None => return Err(SshArgsError::NoValue(word)),
            },
            attached => attached.to_owned(),
        };
        let option = match key {
            "" => value,
            key => format!("{key}={value}"),
        };
        options.extend(checked(&option)?.map(|option| {
            let jump = option.strip_prefix("ProxyCommand=").and_then(jump_host);
            jump.map_or(option, |jump| format!("ProxyJump={jump}"))
        }));
    }
    Ok(options)
}

/// Returns the jump host of a `ProxyCommand` of the form `ssh -W %h:%p HOST`; `None` for any other form. The caller uses it as `ProxyJump`, because
/// the connection to the jump host then follows cvc's rules for host keys, too.
fn jump_host(command: &str) -> Option<String> {
    let words = words::split(command).ok()?;
    let mut words = words.iter().map(String::as_str);
    let program = words.next()?;
    let (mut forwards, mut host, mut user, mut port) = (false, None, None, None);
    while let Some(word) = words.next() {
        match word {
            "-q" => {}
            "-W" => forwards = matches!(words.next()?, "%h:%p" | "[%h]:%p"),
            "-l" => user = Some(words.next()?),
            "-p" => port = Some(words.next()?),
            word if !word.starts_with('-') && host.is_none() => host = Some(word),
            _ => return None,
        }
    }
    let host = host.filter(|_| forwards && program.rsplit('/').next() == Some("ssh"))?;
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{user}{host}{port}"))
}

/// Returns an option as `Key=Value`; `None` if cvc sets it itself.
///
/// # Errors
/// The option cannot be passed on.
pub(crate) fn checked(option: &str) -> Result<Option<String>, SshArgsError> {
    let (key, value) = option
        .split_once(|c: char| c == '=' || c.is_ascii_whitespace())
        .map(|(key, value)| (key.trim(), value.trim_start_matches(['=', ' ', '\t'])))
        .unwrap_or((option, ""));
    let known = |list: &[&'static str]| {
        let found = list.iter().find(|k| k.eq_ignore_ascii_case(key));
        found.copied()
    };
    if known(&SET_BY_CVC).is_some() {
        return Ok(None);
    }
    match known(&PASSED_ON) {
        Some(key) if !value.is_empty() && !value.contains(char::is_control) => {
            Ok(Some(format!("{key}={value}")))
        }
        Some(key) => Err(SshArgsError::InvalidValue(key)),
        None => Err(SshArgsError::Refused(key.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_as_inventories_have_them() {
        let table = [
            (
                r#"-o ProxyCommand="ssh -W %h:%p -q ubuntu@10.0.0.1""#,
                vec!["ProxyJump=ubuntu@10.0.0.1"],
            ),
            (
                "-o ProxyCommand='ssh -p 2222 -W %h:%p gate'",
                vec!["ProxyJump=gate:2222"],
            ),
            (
                "-o ProxyCommand='ssh -i key -W %h:%p gate'",
                vec!["ProxyCommand=ssh -i key -W %h:%p gate"],
            ),
            (
                "-o ProxyJump=root@203.0.113.5",
                vec!["ProxyJump=root@203.0.113.5"],
            ),
            (
                "-J me@gate:2222 -4",
                vec!["ProxyJump=me@gate:2222", "AddressFamily=inet"],
            ),
            ("-oProxyJump=gate -Cq", vec!["ProxyJump=gate"]),
            ("-o 'proxyjump gate'", vec!["ProxyJump=gate"]),
            (
                "-C -o ControlMaster=auto -o ControlPersist=60s -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
                vec![],
            ),
            (
                "-o PubkeyAcceptedAlgorithms=+ssh-rsa -p 2222",
                vec!["PubkeyAcceptedAlgorithms=+ssh-rsa", "Port=2222"],
            ),
            ("", vec![]),
        ];
        for (text, options) in table {
            assert_eq!(read(text).expect(text), options, "{text}");
        }
    }

    #[test]
    fn options_that_cannot_be_passed_on_are_named() {
        for (text, problem) in [
            ("-L 80:a:80", "`-L` cannot be passed on"),
            ("-F other", "`-F` cannot be passed on"),
            ("-o LocalCommand=x", "`LocalCommand` cannot be passed on"),
            ("-o ProxyJump", "`ProxyJump` has no valid value"),
            ("-o", "`-o` has no value"),
            ("gate", "`gate` is not an option of ssh"),
            ("-o 'ProxyJump=a", "quote"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
