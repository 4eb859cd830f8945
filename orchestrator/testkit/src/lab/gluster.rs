//! A real parallel file system over the nodes: GlusterFS, which needs only FUSE from the kernel.

use std::{fs, thread, time::Duration};

use super::{Lab, Node, requirements};
use crate::{process::wait_until, program::absent};

/// Mount point of the volume on every node.
pub const GLUSTER: &str = "/gluster";

impl Lab {
    /// Makes a volume that distributes files over the `/scratch-local` of these nodes, and mounts it at [`GLUSTER`] on all nodes including
    /// the login node. Call it only once per lab. The volume ends with the lab; a brick is lost with its node.
    pub fn gluster(&self, bricks: &[&str]) {
        let first = self.node(bricks.first().expect("a volume has at least one brick"));
        let servers: Vec<&Node> = bricks.iter().map(|name| self.node(name)).collect();
        thread::scope(|scope| {
            for node in &servers {
                scope.spawn(|| node.shell("mkdir -p /scratch-local/brick /var/lib/glusterd /var/log/glusterfs /run/gluster; setsid glusterd </dev/null >/dev/null 2>&1"));
            }
        });
        for node in &servers {
            wait_until("glusterd", Duration::from_secs(240), || {
                node.exec(&["gluster", "peer", "status"]).status.success()
            });
        }
        for name in &bricks[1..] {
            first.shell(&format!("gluster peer probe {name}"));
        }
        let connected = || {
            String::from_utf8_lossy(&first.exec(&["gluster", "peer", "status"]).stdout)
                .matches("Peer in Cluster (Connected)")
                .count()
        };
        wait_until("all peers of GlusterFS", Duration::from_secs(240), || {
            connected() == bricks.len() - 1
        });
        let of_volume: Vec<String> = bricks
            .iter()
            .map(|name| format!("{name}:/scratch-local/brick"))
            .collect();
        // a newly connected peer refuses volumes for a moment
        let create = format!(
            "gluster --mode=script volume create lab {} force",
            of_volume.join(" ")
        );
        wait_until("the volume of GlusterFS", Duration::from_secs(240), || {
            first
                .exec(&[
                    "sh",
                    "-c",
                    &format!("gluster volume info lab >/dev/null 2>&1 || {create}"),
                ])
                .status
                .success()
        });
        first.shell("gluster volume start lab");
        thread::scope(|scope| {
            for node in self.nodes.iter().filter(|n| n.is_up()) {
                scope.spawn(|| {
                    node.shell(&format!("mkdir -p {GLUSTER}; mount -t glusterfs {}:/lab {GLUSTER}; chmod 1777 {GLUSTER}", first.name()))
                });
            }
        });
    }
}

/// Returns a description of what this machine lacks for a file system of these programs on a lab, if anything.
pub(crate) fn missing(programs: &[&str]) -> Option<String> {
    // nodes create /dev/fuse themselves, so check whether the kernel lists FUSE
    let without_fuse = || {
        Some("the kernel has no FUSE".to_owned()).filter(|_| {
            !fs::read_to_string("/proc/filesystems")
                .unwrap_or_default()
                .contains("fuse")
        })
    };
    requirements::missing()
        .or_else(|| absent(programs))
        .or_else(without_fuse)
}
