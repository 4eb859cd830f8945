//! Checks whether this machine can run a lab.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::OnceLock,
};

use crate::program::{absent, admin_path};

/// Returns a description of what this machine lacks to run a lab, if anything. Checked once for each test program.
pub(crate) fn missing() -> Option<String> {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    MISSING.get_or_init(probe).clone()
}

fn probe() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("making nodes needs root".into());
    }
    if !Path::new("/usr/sbin/sshd").exists() {
        return Some("/usr/sbin/sshd is not installed".into());
    }
    if let Some(absent) = absent(&["unshare", "bash", "ssh", "ssh-keygen", "pivot_root", "ip"]) {
        return Some(absent);
    }
    // runs in separate namespaces, which disappear with the process
    let script = "mount --make-rprivate / && mount -t tmpfs tmpfs /run && mkdir /run/u /run/w /run/m \
        && mount -t overlay overlay -o lowerdir=/,upperdir=/run/u,workdir=/run/w /run/m && mknod /run/m/cvc-null c 1 3 \
        && mount -t sysfs sysfs /run/m/sys && mount -t proc proc /run/m/proc && mount -t devpts -o newinstance devpts /run/m/mnt \
        && ip link add cvc0 type bridge && ip link add cvc1 type veth peer name cvc2 && ip link set cvc1 master cvc0 && ip tuntap add dev cvc3 mode tap";
    let mut command = Command::new("unshare");
    command.args([
        "--net",
        "--mount",
        "--uts",
        "--ipc",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
        script,
    ]);
    match command
        .env("PATH", admin_path())
        .stdin(Stdio::null())
        .output()
    {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!(
            "this machine does not allow it: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(e) => Some(format!("unshare: {e}")),
    }
}
