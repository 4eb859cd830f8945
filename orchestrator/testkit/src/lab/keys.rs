//! Creates ssh keys and publishes the keys of hosts.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use super::{
    command::run_checked,
    sandbox::{PATIENCE, Sandbox},
};

/// Makes a key without a passphrase, replacing an earlier one.
pub(super) fn make(file: &Path, comment: &str) {
    let _ = fs::remove_file(file);
    let mut command = Command::new("ssh-keygen");
    command
        .args(["-q", "-t", "ed25519", "-N", "", "-C", comment, "-f"])
        .arg(file)
        .stdin(Stdio::null());
    run_checked("ssh-keygen", command, PATIENCE);
}

/// Writes the known hosts of all nodes. The file is overwritten in place, because nodes have this file itself mounted.
pub(super) fn publish(sandbox: &Sandbox) {
    let nodes = sandbox.outside().join("nodes");
    let mut lines: Vec<String> = Vec::new();
    for node in fs::read_dir(&nodes)
        .expect("the nodes' directories")
        .flatten()
    {
        // the known-hosts file of a guest does not exist, because its key must be unknown
        lines.extend(fs::read_to_string(node.path().join("known")).ok());
    }
    lines.sort();
    fs::write(
        sandbox.outside().join("etc/ssh_known_hosts"),
        lines.concat(),
    )
    .expect("known hosts of the nodes");
}
