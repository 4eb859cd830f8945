//! Whether this machine can hold a lab: by trying what a lab does.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::OnceLock,
};

use super::command::path;
use crate::tool::on_path;

/// What stands in the way of a lab, if anything does. Asked once per test program.
pub(crate) fn missing() -> Option<&'static str> {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    MISSING.get_or_init(probe).as_deref()
}

fn probe() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("only root can make nodes".into());
    }
    let absent = ["/usr/sbin/sshd", "/dev/net/tun"].into_iter().find(|f| !Path::new(f).exists());
    if let Some(absent) = absent {
        return Some(format!("{absent} is not there"));
    }
    if let Some(absent) =
        ["unshare", "bash", "ssh", "ssh-keygen", "pivot_root", "ip"].into_iter().find(|p| on_path(p).is_none() && !is_administrators(p))
    {
        return Some(format!("{absent} is not installed"));
    }
    // each in namespaces of its own, which go with it
    let script = "mount --make-rprivate / && mount -t tmpfs tmpfs /run && mkdir /run/u /run/w /run/m \
        && mount -t overlay overlay -o lowerdir=/,upperdir=/run/u,workdir=/run/w /run/m && mknod /run/m/cvc-null c 1 3 \
        && ip link add cvc0 type bridge && ip link add cvc1 type veth peer name cvc2 && ip link set cvc1 master cvc0";
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]);
    match command.env("PATH", path()).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("this machine does not let it: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(e) => Some(format!("unshare: {e}")),
    }
}

fn is_administrators(program: &str) -> bool {
    ["/usr/sbin", "/sbin"].iter().any(|d| Path::new(d).join(program).exists())
}
