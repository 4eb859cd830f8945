//! Faults of nodes.

use std::time::Duration;

use super::{
    node::Node,
    wire::{Line, Wire},
};
use crate::process::{signal, wait_until};
use nix::sys::signal::Signal;

impl Node {
    /// Kills all processes of the node at once. The kernel closes their sockets, so that peers notice.
    pub fn kill(&self) {
        // the network exists until the last process has ended, so that sockets can close while the cable is plugged in
        self.end();
    }

    /// Cuts the power of the node. No further packet leaves the node, so that peers notice nothing.
    pub fn poweroff(&self) {
        self.link(false);
        self.end();
    }

    /// Switches the node on again with the same address, host key and disk, but empty memory. Kills it first if it is on.
    pub fn restart(&self) {
        self.end();
        self.start();
    }

    /// Replaces the node by another machine with the same name and address, but another host key and a new disk. The other nodes get the new key; the
    /// laptop does not until [`super::Lab::trust`].
    pub fn restart_with_new_key(&self) {
        self.end();
        self.renew();
        self.start();
    }

    /// Unplugs the node's cable (`false`) or plugs it in (`true`). Connections stay open on both sides.
    pub fn link(&self, is_in: bool) {
        self.sandbox.shell(&format!(
            "ip link set {} {}",
            self.port(),
            if is_in { "up" } else { "down" }
        ));
    }

    /// Sets whether the node answers the laptop. With `false`, only other nodes get answers, as from a node behind a login node.
    pub fn reachable_from_laptop(&self, is_reachable: bool) {
        let verb = if is_reachable { "delete" } else { "replace" };
        self.shell(&format!("ip route {verb} blackhole {}/32", super::LAPTOP));
    }

    /// Makes the node's cable slow, lossy or of long delay until the next call.
    pub fn wire(&self, line: Line) {
        let mut wire = self.wire.lock();
        match wire.as_ref() {
            Some(wire) => wire.set(line),
            None => *wire = Some(Wire::new(&self.sandbox, &self.label(), &self.port(), line)),
        }
    }

    /// Stops the node's sshd from accepting connections; existing sessions continue.
    pub fn sshd_stop(&self) {
        self.shell(
            "kill \"$(cat /run/sshd.pid)\"; while [ -e /run/sshd.pid ]; do sleep 0.01; done",
        );
    }

    /// Kills the node's sshd and all sessions. Programs that the sessions started continue, unless a program depends on its session.
    pub fn sshd_kill(&self) {
        wait_until("the end of sshd", Duration::from_secs(10), || {
            let all = self.processes("sshd");
            all.iter()
                .filter(|p| {
                    p.command.starts_with("sshd") || p.command.starts_with("/usr/sbin/sshd")
                })
                .map(|p| signal(p.pid, Signal::SIGKILL))
                .count()
                == 0
        });
        self.shell("rm -f /run/sshd.pid");
    }

    /// Starts the node's sshd again.
    pub fn sshd_start(&self) {
        self.shell("/usr/sbin/sshd -E /var/log/sshd.log; while [ ! -s /run/sshd.pid ]; do sleep 0.01; done");
    }

    /// Fills the file system of this directory to the last byte. `/scratch-local`, `/tmp`, `/dev/shm` and the root each belong to the node;
    /// `/shared` is then full for all.
    pub fn fill(&self, directory: &str) {
        // write large pieces first, then small ones, to fill even the last page
        self.shell(&format!(
            "f='{directory}/.filled'\n\
             for size in 1M 4k 1; do dd if=/dev/zero bs=$size of=\"$f\" oflag=append conv=notrunc 2>/dev/null || :; done\n\
             ! echo x 2>/dev/null >>\"$f\""
        ));
    }

    /// Frees the space that [`Node::fill`] took.
    pub fn unfill(&self, directory: &str) {
        self.shell(&format!("rm '{directory}/.filled'"));
    }
}
