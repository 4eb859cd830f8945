//! A node: a machine with its own network, processes, mounts, names and sshd.

use parking_lot::{Mutex, MutexGuard};
use std::{
    ffi::OsStr,
    fs,
    net::Ipv4Addr,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::Arc,
};

use super::{
    Image,
    command::{output_within, run_checked},
    keys,
    namespaces::{self, Namespaces, NodeProcess},
    sandbox::{PATIENCE, Sandbox, let_continue, wait_for_child, wait_ready},
    wire::Wire,
};
use crate::{process::wait_until, program::admin_path};

/// The properties of a node.
#[derive(Clone, Debug)]
pub(super) struct NodePlan {
    pub(super) image: Image,
    pub(super) scratch_mib: u64,
    pub(super) shm_mib: u64,
    pub(super) disk_mib: u64,
    pub(super) sshd: Vec<String>,
    /// Whether logins on the node use Portuguese.
    pub(super) portuguese: bool,
}

/// A node of a [`super::Lab`]. All methods panic on errors.
#[derive(Debug)]
pub struct Node {
    name: String,
    address: Ipv4Addr,
    plan: NodePlan,
    /// The only user of a guest, a machine that joined the running lab.
    guest: Option<String>,
    pub(super) sandbox: Arc<Sandbox>,
    /// `None` while the node is off.
    state: Mutex<Option<PoweredOn>>,
    pub(super) wire: Mutex<Option<Wire>>,
}

#[derive(Debug)]
pub(super) struct PoweredOn {
    outer: Child,
    /// Process 1 of the node, by its number outside the lab.
    pub(super) init: i32,
    pub(super) namespaces: Arc<Namespaces>,
}

impl Node {
    pub(super) fn new(
        name: String,
        address: Ipv4Addr,
        plan: NodePlan,
        sandbox: Arc<Sandbox>,
    ) -> Self {
        Self {
            name,
            address,
            plan,
            guest: None,
            sandbox,
            state: Mutex::default(),
            wire: Mutex::default(),
        }
    }

    /// Creates a guest: a machine that joins the running lab, with one user, who logs in with these keys.
    pub(super) fn guest(
        name: String,
        address: Ipv4Addr,
        plan: NodePlan,
        sandbox: Arc<Sandbox>,
        user: &str,
        keys: &str,
    ) -> Self {
        let node = Self {
            guest: Some(user.to_owned()),
            ..Self::new(name, address, plan, sandbox)
        };
        node.prepare();
        fs::write(node.own().join("authorized_keys"), keys).expect("keys of the guest's user");
        node
    }

    /// Returns the name of the node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address of the node on the lab's network.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Returns whether the node is switched on.
    pub fn is_up(&self) -> bool {
        self.lock().is_some()
    }

    /// Returns the path by which the test reaches a file of the node, while the node is on. A symbolic link with an absolute target leads out of the
    /// node: use `/run`, not `/var/run`.
    pub fn path(&self, on_node: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{on_node}", self.running().1))
    }

    /// Makes a command on the node, as root, without ssh, in a small environment that is the same on all machines.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.running().0.command(program);
        command.env_clear().env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        );
        command
            .env("HOME", "/root")
            .env("USER", "root")
            .env("LANG", "C.UTF-8")
            .current_dir("/");
        command
    }

    /// Runs a program on the node as [`Node::command`] does, for at most a minute.
    #[track_caller]
    pub fn exec(&self, argv: &[&str]) -> Output {
        let mut command = self.command(argv[0]);
        command.args(&argv[1..]);
        output_within(command, PATIENCE)
    }

    /// Runs shell commands on the node that must succeed, and returns their standard output.
    #[track_caller]
    pub fn shell(&self, script: &str) -> String {
        let mut command = self.command("sh");
        command.args(["-ec", script]);
        run_checked(&format!("{}: {script}", self.name), command, PATIENCE)
    }

    /// Lists the living processes of the node whose arguments contain this text; empty while the node is off.
    pub fn processes(&self, pattern: &str) -> Vec<NodeProcess> {
        let Some(init) = self.lock().as_ref().map(|r| r.init) else {
            return Vec::new();
        };
        let Some(own) = namespaces::identity(init, "pid") else {
            return Vec::new();
        };
        let of_node = namespaces::processes()
            .into_iter()
            .filter(|p| namespaces::identity(*p, "pid").as_ref() == Some(&own));
        of_node
            .filter(|pid| *pid != init)
            .filter_map(NodeProcess::of)
            .filter(|p| p.command.contains(pattern))
            .collect()
    }

    /// Returns the path by which the test reaches the node's directory in the sandbox's memory.
    fn own(&self) -> PathBuf {
        self.sandbox.outside().join("nodes").join(&self.name)
    }

    /// Returns the path by which the test reaches a directory of the node that is kept while the node is off.
    pub(crate) fn store(&self) -> PathBuf {
        self.own()
    }

    /// Creates the node's disk and host key, before it is switched on for the first time.
    pub(super) fn prepare(&self) {
        let (own, size) = (
            self.sandbox.inside().join("nodes").join(&self.name),
            self.plan.disk_mib,
        );
        self.sandbox.shell(&format!(
            "mkdir -p {0}\nmount -t tmpfs -o mode=755,size={size}m tmpfs {0}",
            own.display()
        ));
        let key = self.own().join("ssh_host_ed25519_key");
        keys::make(&key, &self.name);
        self.publish();
    }

    /// Publishes the node's host key to the other nodes; a guest's key stays unknown.
    fn publish(&self) {
        if self.guest.is_none() {
            fs::write(self.own().join("known"), self.known() + "\n").expect("the node's key");
        }
    }

    /// Removes the node's disk and key; it cannot be switched on again.
    pub(super) fn scrap(&self) {
        let own = self.sandbox.inside().join("nodes").join(&self.name);
        // the kernel may still hold the root of a machine that has just ended
        self.sandbox
            .shell(&format!("umount -l {0}\nrmdir {0}", own.display()));
    }

    /// Replaces the node's disk and host key by new ones.
    pub(super) fn renew(&self) {
        for part in ["upper", "work"] {
            // the kernel may still hold the old machine's root
            wait_until(&format!("the old disk of {}", self.name), PATIENCE, || {
                match fs::remove_dir_all(self.own().join(part)) {
                    Ok(()) => true,
                    Err(e) => e.kind() == std::io::ErrorKind::NotFound,
                }
            });
        }
        keys::make(&self.own().join("ssh_host_ed25519_key"), &self.name);
        self.publish();
        keys::publish(&self.sandbox);
    }

    /// Returns the line of the node's key for a known-hosts file.
    pub(crate) fn known(&self) -> String {
        let key = fs::read_to_string(self.own().join("ssh_host_ed25519_key.pub"))
            .expect("the node's key");
        let parts: Vec<&str> = key.split_whitespace().take(2).collect();
        format!("{},{} {}", self.name, self.address, parts.join(" "))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Option<PoweredOn>> {
        self.state.lock()
    }

    #[track_caller]
    fn running(&self) -> (Arc<Namespaces>, i32) {
        let state = self.lock();
        let running = state
            .as_ref()
            .unwrap_or_else(|| panic!("{} is off", self.name));
        (Arc::clone(&running.namespaces), running.init)
    }

    /// Returns the suffix of the node's network devices, whose names must be short.
    pub(super) fn label(&self) -> String {
        match self.guest {
            Some(_) => format!("g{}", self.address.octets()[3]),
            None => self.name.clone(),
        }
    }

    /// Returns the name of the switch's end of the node's cable.
    pub(super) fn port(&self) -> String {
        format!("v-{}", self.label())
    }

    /// Returns whether the node has switched itself off: its process 1 has ended, and not because of a fault that a test caused.
    pub(crate) fn has_ended(&self) -> bool {
        // a locked state means that the node is being switched on or off
        self.state.try_lock().is_some_and(|mut s| {
            s.as_mut()
                .is_some_and(|r| r.outer.try_wait().is_ok_and(|ended| ended.is_some()))
        })
    }

    /// Returns the number of process 1, which identifies the current boot; `None` while the node is off or being switched.
    pub(crate) fn boot(&self) -> Option<i32> {
        self.state.try_lock()?.as_ref().map(|r| r.init)
    }

    /// Runs `piece` on the node's network, in a separate thread.
    pub(crate) fn on_network<T: Send>(&self, piece: impl FnOnce() -> T + Send) -> T {
        namespaces::on_network(&self.running().0, piece)
    }

    /// Switches the node on and waits until its sshd listens.
    pub(crate) fn start(&self) {
        let mut state = self.lock();
        assert!(state.is_none(), "{} is on", self.name);
        let run = self.sandbox.inside();
        let own = run.join("nodes").join(&self.name);
        let console = self
            .sandbox
            .directory()
            .join(format!("{}.console", self.name));
        let mut command = self.sandbox.namespaces.command("unshare");
        command.args([
            "--net",
            "--uts",
            "--ipc",
            "--pid",
            "--mount",
            "--fork",
            "--kill-child",
            "--propagation",
            "private",
            "--",
        ]);
        command
            .arg("bash")
            .arg(self.sandbox.directory().join("etc/node.sh"))
            .arg(&self.name)
            .env_clear()
            .current_dir("/");
        command
            .env("PATH", admin_path())
            .env("NAME", &self.name)
            .env("ADDRESS", self.address.to_string());
        command
            .env("LOWER", self.plan.image.root())
            .env("APT", self.plan.image.packages().unwrap_or_default());
        command
            .env("OWN", own)
            .env("RUN", run)
            .env("HIDE", hidden_directory())
            .env("BOUND", self.plan.image.bound().join(" "))
            .env("OPEN", self.plan.image.open().join(" "));
        command
            .env("SCRATCH_MIB", self.plan.scratch_mib.to_string())
            .env("SHM_MIB", self.plan.shm_mib.to_string());
        command.env("PORTUGUESE", if self.plan.portuguese { "yes" } else { "" });
        command
            .env("SSHD", self.plan.sshd.join("\n"))
            .env("GUEST", self.guest.as_deref().unwrap_or_default());
        command.env(
            "ROOT_LOGIN",
            if self.guest.is_some() {
                "no"
            } else {
                "prohibit-password"
            },
        );
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(&console)
            .expect("the console's log");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut outer = command
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let unshare = wait_for_child(i32::try_from(outer.id()).expect("a process number"));
        let init = wait_for_child(unshare);
        let port = self.port();
        let is_wired = self.wire.lock().is_some();
        let switch = if is_wired {
            format!("w-{}", self.label())
        } else {
            "lab0".into()
        };
        let peer = number_inside(init);
        // derive the hardware address from the IP address; otherwise a replaced node could not be found for seconds
        let [a, b, c, d] = self.address.octets();
        self.sandbox.shell(&format!(
            "ip link delete {port} 2>/dev/null || :\n\
             ip link add {port} type veth peer name eth0 address 02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x} netns {peer}\n\
             ip link set {port} master {switch} up"
        ));
        let_continue(&mut outer);
        if let Err(problem) = wait_ready(&mut outer) {
            let _ = (outer.kill(), outer.wait());
            panic!(
                "{} did not start ({problem}): {}",
                self.name,
                fs::read_to_string(&console).unwrap_or_default()
            );
        }
        let namespaces = Namespaces::of(init).expect("namespaces of the node");
        *state = Some(PoweredOn {
            outer,
            init,
            namespaces,
        });
    }

    /// Ends the thread that forwards the node's packets.
    pub(super) fn unplug(&self) {
        *self.wire.lock() = None;
    }

    /// Kills process 1, and with it all other processes of the node.
    pub(crate) fn end(&self) {
        let Some(mut running) = self.lock().take() else {
            return;
        };
        crate::process::signal(running.init, nix::sys::signal::Signal::SIGKILL);
        let _ = running.outer.wait();
        self.sandbox.record_leftovers(&running.namespaces);
    }
}

/// Returns the number that a node's process 1 has inside the sandbox.
fn number_inside(init: i32) -> String {
    let status = fs::read_to_string(format!("/proc/{init}/status")).expect("the node's process 1");
    let numbers = status
        .lines()
        .find_map(|l| l.strip_prefix("NSpid:"))
        .expect("a kernel with pid namespaces");
    let inside = numbers
        .split_whitespace()
        .nth(1)
        .expect("a process in the sandbox");
    inside.to_owned()
}

/// Returns the directory for temporary files of tests, which nodes must not see; empty if it is `/tmp`, which nodes replace anyway.
fn hidden_directory() -> String {
    let temporary = std::env::temp_dir();
    if temporary == std::path::Path::new("/tmp") {
        String::new()
    } else {
        temporary.display().to_string()
    }
}
