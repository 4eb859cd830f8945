//! The pool of machines that join a running lab and leave it.

use parking_lot::Mutex;
use std::{fs, net::Ipv4Addr, process::Command, sync::Arc};

use super::{
    namespaces,
    node::{Node, NodePlan},
    sandbox::Sandbox,
};

/// Adds machines to a running lab. They end with the lab at the latest.
#[derive(Clone, Debug)]
pub(crate) struct GuestPool {
    plan: NodePlan,
    sandbox: Arc<Sandbox>,
    guests: Arc<Mutex<Vec<Arc<Node>>>>,
}

impl GuestPool {
    pub(super) fn new(plan: NodePlan, sandbox: Arc<Sandbox>) -> Self {
        Self {
            plan,
            sandbox,
            guests: Arc::default(),
        }
    }

    /// Adds a machine, which is still switched off. The machine is like the lab's nodes, but has a single user, who logs in with these public keys.
    /// From now on all nodes know the machine's name, but not its host key.
    pub(crate) fn add(&self, address: Ipv4Addr, user: &str, keys: &str) -> Arc<Node> {
        let name = format!("ip-{}", address.to_string().replace('.', "-"));
        let mut guests = self.guests.lock();
        let node = Arc::new(Node::guest(
            name.clone(),
            address,
            self.plan.clone(),
            Arc::clone(&self.sandbox),
            user,
            keys,
        ));
        guests.push(Arc::clone(&node));
        let file = self.sandbox.outside().join("etc/hosts");
        let line = format!("{address} {name}.ec2.internal {name}\n");
        let known = fs::read_to_string(&file).expect("hosts of the nodes");
        if !known.contains(&line) {
            // overwrite in place, because nodes have this file itself mounted
            fs::write(&file, known + &line).expect("hosts of the nodes");
        }
        node
    }

    /// Removes a machine; its address may be used again.
    pub(crate) fn remove(&self, node: &Arc<Node>) {
        node.end();
        node.unplug();
        let mut guests = self.guests.lock();
        if let Some(place) = guests.iter().position(|g| Arc::ptr_eq(g, node)) {
            guests.remove(place);
            node.scrap();
        }
    }

    pub(crate) fn guests(&self) -> Vec<Arc<Node>> {
        self.guests.lock().clone()
    }

    /// Returns a directory that the test and the laptop see.
    pub(crate) fn directory(&self) -> &std::path::Path {
        self.sandbox.directory()
    }

    /// Makes a command on the laptop.
    pub(crate) fn command(&self, program: &std::path::Path) -> Command {
        self.sandbox.command(program)
    }

    /// Runs `piece` on the laptop's network, in a thread of its own.
    pub(crate) fn on_network<T: Send>(&self, piece: impl FnOnce() -> T + Send) -> T {
        namespaces::on_network(&self.sandbox.namespaces, piece)
    }
}
