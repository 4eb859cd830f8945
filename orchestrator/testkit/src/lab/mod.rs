//! Several nodes on one machine, for real tests: kernel namespaces, real sshd, real MPI, no mocks.
//!
//! ```no_run
//! use cvc_testkit::{Lab, lab::Image};
//!
//! # fn test() { // a #[test]
//! cvc_testkit::require!(cvc_testkit::Tool::Lab);
//! let lab = Lab::builder().nodes(4).login(true).scratch_mib(64).image(Image::Host).build();
//! let output = lab.ssh("n1", "hostname; ssh n2 hostname"); // like the user on the laptop, with strict host keys
//! assert_eq!(String::from_utf8_lossy(&output.stdout), "n1\nn2\n");
//! let mut cvc = lab.command("cvc"); // a std::process::Command: on the laptop, in the sandbox
//! cvc.args(["run", "campaign.toml"]);
//! lab.node("n2").poweroff();
//! assert!(lab.node("n1").processes("mpiexec").is_empty());
//! # }
//! ```
//!
//! - Everything lives in a **sandbox** with its own network, mount, process, host-name and IPC namespaces: it has no route out, several labs can use
//!   the same addresses at once, and everything ends with the [`Lab`], even if the test program is killed. Dropping a lab panics if anything is left.
//! - The **laptop** is the sandbox itself: the machine's own files, including the test's temporary directories; a home of its own with `.ssh/config`,
//!   a key and `known_hosts` (`ssh n1`, `ssh ada@n1`), a private `/run` and `/dev/shm`, host name `laptop`, 10.77.0.1. Programs on it are started by
//!   [`Lab::command`].
//! - **Nodes** `n1`, `n2`, ... (10.77.0.11, .12, ...) and, if requested, `login` (10.77.0.10) have their own namespaces, an overlay as root (of the
//!   machine's own root with [`Image::Host`], so that programs installed here have the same paths there), sshd with its default limits, a host key,
//!   `/dev`, `/run`, `/tmp`, and `/scratch-local` of a chosen size; `/shared` is one directory on all of them, but not on the laptop ([`Lab::shared`]
//!   for the test). Users: `root` and `ada` (4711, may sudo). Each node reaches the others by ssh.
//! - **Faults** are methods of [`Node`]: [`kill`](Node::kill), [`poweroff`](Node::poweroff), [`restart`](Node::restart),
//!   [`restart_with_new_key`](Node::restart_with_new_key), [`link`](Node::link), [`wire`](Node::wire), [`sshd_stop`](Node::sshd_stop),
//!   [`sshd_kill`](Node::sshd_kill), [`fill`](Node::fill), [`reachable_from_laptop`](Node::reachable_from_laptop).
//! - **Slurm**: [`Lab::slurm`] starts a real Slurm on a lab with a login node ([`Slurm`]).
//! - **Disks**: [`Disk`] is a real block device that can be attached to nodes under any name.
//! - **A parallel file system**: [`Lab::gluster`] mounts a real one on all nodes, in addition to `/shared`.

mod cache;
mod command;
mod disk;
mod fault;
mod gluster;
mod guest_pool;
mod image;
mod keys;
mod namespaces;
mod node;
mod requirements;
mod sandbox;
mod slurm;
mod wire;

use std::{
    ffi::OsStr,
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
    thread,
};

pub use cache::cache;
pub use command::output_within;
pub use disk::Disk;
pub(crate) use disk::missing as missing_for_disks;
pub use gluster::GLUSTER;
pub(crate) use gluster::missing as missing_for_file_system;
pub(crate) use guest_pool::GuestPool;
pub use image::Image;
pub(crate) use image::missing as missing_for_image;
pub use namespaces::{NodeProcess, program_of};
pub use node::Node;
pub(crate) use requirements::missing;
pub use slurm::Slurm;
pub(crate) use slurm::{missing as missing_for_slurm, missing_for_accounting};
pub use wire::Line;

use node::NodePlan;
use sandbox::{PATIENCE, Sandbox};

/// The laptop's address.
pub const LAPTOP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// Configures a lab. Made by [`Lab::builder`].
#[derive(Clone, Debug)]
pub struct LabBuilder {
    nodes: u8,
    login: bool,
    image: Image,
    scratch_mib: u64,
    shm_mib: u64,
    disk_mib: u64,
    shared_mib: u64,
    sshd: Vec<String>,
    portuguese: Option<String>,
}

impl LabBuilder {
    /// Sets the number of nodes, `n1` to `nK`: 4 by default, at most 64, 0 if all come from a [`crate::Cloud`].
    pub fn nodes(mut self, nodes: u8) -> Self {
        assert!(nodes <= 64, "a lab has at most 64 nodes, not {nodes}");
        self.nodes = nodes;
        self
    }

    /// Sets whether there is a login node, `login`; none by default.
    pub fn login(mut self, login: bool) -> Self {
        self.login = login;
        self
    }

    /// Sets the image of the nodes; [`Image::Host`] by default.
    pub fn image(mut self, image: Image) -> Self {
        self.image = image;
        self
    }

    /// Sets the size of each node's `/scratch-local` in MiB; 64 by default.
    pub fn scratch_mib(mut self, mib: u64) -> Self {
        self.scratch_mib = mib;
        self
    }

    /// Sets the size of each node's `/dev/shm` in MiB; 512 by default.
    pub fn shm_mib(mut self, mib: u64) -> Self {
        self.shm_mib = mib;
        self
    }

    /// Sets the space in each node's root file system in MiB; 1024 by default.
    pub fn disk_mib(mut self, mib: u64) -> Self {
        self.disk_mib = mib;
        self
    }

    /// Sets the size of `/shared` in MiB; 2048 by default.
    pub fn shared_mib(mut self, mib: u64) -> Self {
        self.shared_mib = mib;
        self
    }

    /// Adds a line to every node's sshd_config, such as `MaxSessions 2`.
    pub fn sshd(mut self, line: &str) -> Self {
        self.sshd.push(line.to_owned());
        self
    }

    /// Sets the language of a node's logins to Portuguese, as on a machine that was set up in Brazil. Needs [`crate::Tool::Portuguese`].
    pub fn portuguese(mut self, node: &str) -> Self {
        self.portuguese = Some(node.to_owned());
        self
    }

    /// Starts the lab.
    ///
    /// # Panics
    /// A part of the lab does not start.
    pub fn build(self) -> Lab {
        let workers = (1..=self.nodes).map(|n| (format!("n{n}"), Ipv4Addr::new(10, 77, 0, 10 + n)));
        let all: Vec<(String, Ipv4Addr)> = self
            .login
            .then(|| ("login".to_owned(), Ipv4Addr::new(10, 77, 0, 10)))
            .into_iter()
            .chain(workers)
            .collect();
        let names: String = all
            .iter()
            .map(|(name, address)| format!("{address} {name}\n"))
            .collect();
        let hosts = format!("127.0.0.1 localhost\n{LAPTOP} laptop\n{names}");
        let sandbox = Sandbox::start(self.shared_mib, &hosts);
        let plan = NodePlan {
            image: self.image,
            scratch_mib: self.scratch_mib,
            shm_mib: self.shm_mib,
            disk_mib: self.disk_mib,
            sshd: self.sshd,
            portuguese: false,
        };
        let plan_of = |name: &str| NodePlan {
            portuguese: self.portuguese.as_deref() == Some(name),
            ..plan.clone()
        };
        let nodes = all
            .into_iter()
            .map(|(name, address)| {
                Node::new(name.clone(), address, plan_of(&name), Arc::clone(&sandbox))
            })
            .collect();
        let lab = Lab {
            nodes,
            guest_pool: GuestPool::new(plan, Arc::clone(&sandbox)),
            sandbox,
        };
        lab.prepare(&hosts);
        thread::scope(|scope| {
            let starting: Vec<_> = lab
                .nodes
                .iter()
                .map(|node| scope.spawn(|| node.start()))
                .collect();
            let failed = starting.into_iter().find_map(|s| s.join().err());
            if let Some(panic) = failed {
                std::panic::resume_unwind(panic);
            }
        });
        lab
    }
}

/// A laptop and nodes, as described for the module. Dropping this value ends all of them and checks that nothing is left.
#[derive(Debug)]
pub struct Lab {
    /// All nodes; the login node is the first, if there is one.
    nodes: Vec<Node>,
    guest_pool: GuestPool,
    sandbox: Arc<Sandbox>,
}

impl Lab {
    /// Returns a builder for a lab of four nodes without a login node.
    pub fn builder() -> LabBuilder {
        LabBuilder {
            nodes: 4,
            login: false,
            image: Image::Host,
            scratch_mib: 64,
            shm_mib: 512,
            disk_mib: 1024,
            shared_mib: 2048,
            sshd: Vec::new(),
            portuguese: None,
        }
    }

    /// Writes keys and known hosts for the laptop and all nodes.
    fn prepare(&self, hosts: &str) {
        let ssh = self.home().join(".ssh");
        keys::make(&ssh.join("id_ed25519"), "laptop");
        let common = self.sandbox.outside().join("etc");
        for directory in [&common, &self.sandbox.outside().join("nodes")] {
            fs::create_dir_all(directory).expect("a directory of the lab");
        }
        for key in ["id_ed25519", "id_ed25519.pub"] {
            fs::copy(ssh.join(key), common.join(key)).expect("the user's key");
        }
        fs::write(common.join("hosts"), hosts).expect("hosts of the nodes");
        self.nodes.iter().for_each(Node::prepare);
        keys::publish(&self.sandbox);
        fs::copy(common.join("ssh_known_hosts"), ssh.join("known_hosts"))
            .expect("known hosts of the laptop");
        let config =
            "Host *\n    BatchMode yes\n    StrictHostKeyChecking yes\n    ConnectTimeout 10\n";
        fs::write(ssh.join("config"), config).expect("the laptop's ssh configuration");
    }

    /// Makes a command on the laptop, in the test's working directory, with the test's environment except for the user's own part (`HOME`,
    /// `SSH_*` and the like). Killing the child kills the program; send other signals to [`program_of`] the child, or to its group.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.sandbox.command(program)
    }

    /// Runs a program on the laptop, for at most a minute.
    #[track_caller]
    pub fn exec(&self, argv: &[&str]) -> Output {
        let mut command = self.command(argv[0]);
        command.args(&argv[1..]);
        output_within(command, PATIENCE)
    }

    /// Runs a shell command by ssh from the laptop, for at most a minute. The host may be `user@name`.
    #[track_caller]
    pub fn ssh(&self, host: &str, command: &str) -> Output {
        self.exec(&["ssh", host, command])
    }

    /// Runs `piece` on the laptop's network: with the test's files, environment and names, but the laptop's addresses. Threads and programs that
    /// `piece` starts also use the laptop's network.
    ///
    /// # Panics
    /// `piece` panics.
    pub fn on_network<T: Send>(&self, piece: impl FnOnce() -> T + Send) -> T {
        namespaces::on_network(&self.sandbox.namespaces, piece)
    }

    /// Returns the pool to which machines can be added.
    pub(crate) fn guest_pool(&self) -> GuestPool {
        self.guest_pool.clone()
    }

    /// Returns a node by name.
    #[track_caller]
    pub fn node(&self, name: &str) -> &Node {
        self.nodes
            .iter()
            .find(|n| n.name() == name)
            .unwrap_or_else(|| panic!("the lab has no node {name}"))
    }

    /// Returns `n1` to `nK`, without the login node.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|n| n.name() != "login")
    }

    /// Returns the login node.
    #[track_caller]
    pub fn login(&self) -> &Node {
        self.node("login")
    }

    /// Returns the home of the laptop's user. The path is valid both for the test and on the laptop.
    pub fn home(&self) -> PathBuf {
        self.sandbox.directory().join("home")
    }

    /// Returns the path by which the test reaches the nodes' `/shared`.
    pub fn shared(&self) -> PathBuf {
        self.sandbox.outside().join("shared")
    }

    /// Returns a directory of this lab that the test and the laptop see, but no node.
    pub fn directory(&self) -> &Path {
        self.sandbox.directory()
    }

    /// Adds a node's current key to the laptop's known hosts, for example after [`Node::restart_with_new_key`].
    pub fn trust(&self, node: &Node) {
        let file = self.home().join(".ssh/known_hosts");
        let known = fs::read_to_string(&file).expect("known hosts of the laptop");
        let others = known
            .lines()
            .filter(|l| !l.starts_with(&format!("{},", node.name())));
        let lines: Vec<String> = others.map(str::to_owned).chain([node.known()]).collect();
        fs::write(&file, lines.join("\n") + "\n").expect("known hosts of the laptop");
    }

    /// Lists the living processes on the laptop and all nodes whose arguments contain this text, without the lab's own.
    pub fn processes(&self, pattern: &str) -> Vec<NodeProcess> {
        let on_laptop = self.sandbox.processes().into_iter();
        let on_nodes = self.nodes.iter().flat_map(|n| n.processes(""));
        let on_guests = self
            .guest_pool
            .guests()
            .into_iter()
            .flat_map(|n| n.processes(""));
        on_laptop
            .chain(on_nodes)
            .chain(on_guests)
            .filter(|p| p.command.contains(pattern))
            .collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.sandbox.kill();
        for node in &self.nodes {
            node.end();
            node.unplug();
        }
        for guest in self.guest_pool.guests() {
            guest.end();
            guest.unplug();
        }
    }
}
