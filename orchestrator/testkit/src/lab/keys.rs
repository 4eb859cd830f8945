//! Makes ssh keys and publishes those of hosts.

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

/// Writes the known hosts of all nodes, in place, because the nodes have this very file mounted.
pub(super) fn publish(sandbox: &Sandbox) {
    let nodes = sandbox.outside().join("nodes");
    let mut lines: Vec<String> = Vec::new();
    for node in fs::read_dir(&nodes)
        .expect("the nodes' directories")
        .flatten()
    {
        // a guest has no such file, because its key is unknown beforehand
        lines.extend(fs::read_to_string(node.path().join("known")).ok());
    }
    lines.sort();
    fs::write(
        sandbox.outside().join("etc/ssh_known_hosts"),
        lines.concat(),
    )
    .expect("known hosts of the nodes");
}
