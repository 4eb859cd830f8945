//! Targets for the output of ssh.

use cvc_sites::ssh::{Hop, diagnostics};

pub(crate) const WORDS: &[&str] = &[
    "debug1: Host '",
    "' is known and matches the ED25519 host key.\n",
    "debug1: Found key in /home/u/.ssh/known_hosts:3\n",
    "debug1: Server host key: ssh-ed25519 SHA256:abc\n",
    "debug1: Offering public key: /home/u/.ssh/id SHA256:x\n",
    "REMOTE HOST IDENTIFICATION HAS CHANGED",
    "Offending ED25519 key in /home/u/.ssh/known_hosts:7\n",
    "Host key for n1 has changed",
    "No ED25519 host key is known for n1 and you have requested strict checking.\n",
    "u@n1: Permission denied (publickey,password).\n",
    "Connection timed out",
    ":0\n",
    "@",
    "\r\n",
];

/// Checks the parser of a connection's log.
pub(crate) fn log(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lower = text.to_lowercase();
    for found in diagnostics::recognised(&text) {
        assert!(
            lower.contains(&found.name) && text.contains(&found.file),
            "{found:?}"
        );
    }
    if let Some(changed) = diagnostics::changed(&text) {
        assert!(
            lower.contains(&changed.name)
                && text.contains(&changed.offered)
                && text.contains(&changed.file),
            "{changed:?}"
        );
    }
    if let Some(name) = diagnostics::unknown(&text) {
        assert!(lower.contains(&name), "{name}");
    }
    assert!(
        diagnostics::plain(&text)
            .iter()
            .all(|line| !line.starts_with("debug"))
    );
    let hop = |name: &str| Hop {
        written: name.to_owned(),
        name: name.to_owned(),
        hostname: name.to_owned(),
        user: "u".to_owned(),
        pinned: None,
        vouching: Vec::new(),
        has_command: false,
    };
    let error = diagnostics::interpret("n1", &[hop("n1"), hop("login")], &text);
    assert!(error.to_string().contains("n1"), "{error}");
    // the hint must not panic either
    let _ = (error.hint(), error.is_transient());
}
