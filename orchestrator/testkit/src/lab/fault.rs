//! What goes wrong with nodes.

use std::time::Duration;

use super::{
    node::Node,
    wire::{Line, Wire},
};
use crate::process::{signal, wait_until};
use nix::sys::signal::Signal;

impl Node {
    /// Its processes end at once, and its kernel says so to whoever talks to it: sockets close.
    pub fn kill(&self) {
        // the network goes with the last process, so sockets say their good-byes while the cable is in
        self.end();
    }

    /// The power goes: no packet comes from it any more, and nobody is told.
    pub fn poweroff(&self) {
        self.link(false);
        self.end();
    }

    /// Switches it on again, with the same address, host key and disk (what was in memory is gone). Kills it first where it is on.
    pub fn restart(&self) {
        self.end();
        self.start();
    }

    /// Another machine takes its place: the same name and address, but another host key and a fresh disk. The other nodes know the key,
    /// the laptop does not: [`super::Lab::trust`].
    pub fn restart_with_new_key(&self) {
        self.end();
        self.renew();
        self.start();
    }

    /// Plugs its cable out (`false`) and in (`true`). Connections stay open on both sides.
    pub fn link(&self, is_in: bool) {
        self.sandbox.shell(&format!("ip link set {} {}", self.port(), if is_in { "up" } else { "down" }));
    }

    /// Packets of the laptop are not answered any more (`false`), those of other nodes are: a node behind a login node.
    pub fn reachable_from_laptop(&self, is_reachable: bool) {
        let verb = if is_reachable { "delete" } else { "replace" };
        self.shell(&format!("ip route {verb} blackhole {}/32", super::LAPTOP));
    }

    /// Makes its cable long, bad or narrow, from now on and until it is called again.
    pub fn wire(&self, line: Line) {
        let mut wire = self.wire.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match wire.as_ref() {
            Some(wire) => wire.set(line),
            None => *wire = Some(Wire::new(&self.sandbox, &self.label(), &self.port(), line)),
        }
    }

    /// Its sshd takes no new connection any more; sessions go on.
    pub fn sshd_stop(&self) {
        self.shell("kill \"$(cat /run/sshd.pid)\"; while [ -e /run/sshd.pid ]; do sleep 0.01; done");
    }

    /// Its sshd and all sessions of it are killed. What the sessions started goes on, unless it minds.
    pub fn sshd_kill(&self) {
        wait_until("the end of sshd", Duration::from_secs(10), || {
            let all = self.processes("sshd");
            all.iter()
                .filter(|p| p.command.starts_with("sshd") || p.command.starts_with("/usr/sbin/sshd"))
                .map(|p| signal(p.pid, Signal::SIGKILL))
                .count()
                == 0
        });
        self.shell("rm -f /run/sshd.pid");
    }

    /// Starts its sshd again.
    pub fn sshd_start(&self) {
        self.shell("/usr/sbin/sshd -E /var/log/sshd.log; while [ ! -s /run/sshd.pid ]; do sleep 0.01; done");
    }

    /// Fills the file system that holds this directory of the node: no byte can be written there any more. `/scratch-local`, `/tmp`,
    /// `/dev/shm` and the root are each the node's own; `/shared` is full for all.
    pub fn fill(&self, directory: &str) {
        // large pieces first; the last ones find the last page
        self.shell(&format!(
            "f='{directory}/.filled'\n\
             for size in 1M 4k 1; do dd if=/dev/zero bs=$size of=\"$f\" oflag=append conv=notrunc 2>/dev/null || :; done\n\
             ! echo x 2>/dev/null >>\"$f\""
        ));
    }

    /// Removes what [`Node::fill`] wrote.
    pub fn unfill(&self, directory: &str) {
        self.shell(&format!("rm '{directory}/.filled'"));
    }
}
