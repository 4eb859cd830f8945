//! The sandbox: a private machine, made of namespaces, that contains the nodes. It has no route to other networks and ends with the test.

use parking_lot::Mutex;
use std::{
    ffi::OsStr,
    fs,
    io::{Read, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout},
    sys::signal::Signal,
};
use tempfile::TempDir;

use super::{
    command::run_checked,
    namespaces::{self, Namespaces, NodeProcess},
};
use crate::{
    process::{signal, wait_until},
    program::admin_path,
};

/// Maximum time in which a part of the lab starts on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(240);

#[derive(Debug)]
pub(super) struct Sandbox {
    directory: Option<TempDir>,
    holder: Mutex<Child>,
    /// Standard input of process 1, which ends when this closes, even if the test is killed.
    _stdin: ChildStdin,
    /// Process 1 of the sandbox, by its number outside the lab.
    init: i32,
    pub(super) namespaces: Arc<Namespaces>,
    /// Processes of ended nodes that are still alive.
    left: Mutex<Vec<String>>,
}

impl Sandbox {
    pub(super) fn start(shared_mib: u64, hosts: &str) -> Arc<Self> {
        let directory = tempfile::Builder::new()
            .prefix("cvc-lab-")
            .tempdir()
            .expect("a directory");
        let root = directory.path();
        fs::create_dir_all(root.join("etc"))
            .and_then(|()| fs::create_dir_all(root.join("home/.ssh")))
            .expect("directories of the lab");
        let accounts = fs::read_to_string("/etc/passwd").expect("/etc/passwd");
        let home = root.join("home");
        let moved: Vec<String> = accounts.lines().map(|l| set_home(l, &home)).collect();
        fs::write(root.join("etc/passwd"), moved.join("\n") + "\n")
            .expect("accounts of the laptop");
        fs::write(root.join("etc/hosts"), hosts).expect("hosts of the laptop");
        fs::write(root.join("etc/sandbox.sh"), include_str!("sandbox.sh"))
            .expect("a script of the lab");
        fs::write(root.join("etc/node.sh"), include_str!("node.sh")).expect("a script of the lab");
        fs::write(root.join("etc/guest.sh"), include_str!("guest.sh"))
            .expect("a script of the lab");
        let mut holder = Command::new("unshare");
        holder.args([
            "--net",
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--fork",
            "--kill-child",
            "--propagation",
            "private",
            "--",
        ]);
        holder
            .arg("bash")
            .arg(root.join("etc/sandbox.sh"))
            .arg(root)
            .env("SHARED_MIB", shared_mib.to_string());
        holder
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(root.join("sandbox.log")).expect("a log"));
        let mut holder = holder.spawn().expect("unshare");
        let stdin = holder.stdin.take().expect("its standard input");
        if let Err(problem) = wait_ready(&mut holder) {
            let _ = (holder.kill(), holder.wait());
            panic!(
                "the sandbox did not start ({problem}): {}",
                fs::read_to_string(root.join("sandbox.log")).unwrap_or_default()
            );
        }
        let outer = i32::try_from(holder.id()).expect("a process number");
        let init = *namespaces::children(outer)
            .first()
            .expect("process 1 of the sandbox");
        let namespaces = Namespaces::of(init).expect("namespaces of the sandbox");
        Arc::new(Self {
            directory: Some(directory),
            holder: Mutex::new(holder),
            _stdin: stdin,
            init,
            namespaces,
            left: Mutex::default(),
        })
    }

    /// Records processes that are still alive in namespaces where all should have ended.
    pub(super) fn record_leftovers(&self, namespaces: &Namespaces) {
        self.left
            .lock()
            .extend(namespaces.inhabitants().iter().map(|pid| {
                format!(
                    "process {pid}: {}",
                    fs::read_to_string(format!("/proc/{pid}/cmdline"))
                        .unwrap_or_default()
                        .replace('\0', " ")
                )
            }));
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.as_ref().expect("until it ends").path()
    }

    /// Returns the path of a directory in the sandbox's memory, as the sandbox's own processes see it.
    pub(super) fn inside(&self) -> PathBuf {
        self.directory().join("run")
    }

    /// Returns the path by which the test reaches the directory [`Self::inside`].
    pub(super) fn outside(&self) -> PathBuf {
        PathBuf::from(format!(
            "/proc/{}/root{}",
            self.init,
            self.inside().display()
        ))
    }

    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.namespaces.command(program);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("SSH_")
                || name.starts_with("XDG_")
                || name.starts_with("SLURM_")
                || name.starts_with("ANSIBLE_")
            {
                command.env_remove(name.as_ref());
            }
        }
        command
            .env("HOME", self.directory().join("home"))
            .env("USER", "root")
            .env("LOGNAME", "root")
            .env("PATH", admin_path());
        command
    }

    /// Runs shell commands that must succeed.
    #[track_caller]
    pub(super) fn shell(&self, script: &str) -> String {
        let mut command = self.command("sh");
        command.args(["-ec", script]);
        run_checked(script, command, PATIENCE)
    }

    /// Lists the processes on the laptop, without those of the lab itself.
    pub(super) fn processes(&self) -> Vec<NodeProcess> {
        let Some(own) = namespaces::identity(self.init, "pid") else {
            return Vec::new();
        };
        let inside = namespaces::processes()
            .into_iter()
            .filter(|p| *p != self.init && namespaces::identity(*p, "pid").as_ref() == Some(&own));
        let all = inside.filter_map(NodeProcess::of);
        // skip processes that hold namespaces of nodes: they belong to the lab itself
        all.filter(|p| {
            !p.command
                .starts_with("unshare --net --uts --ipc --pid --mount ")
        })
        .collect()
    }

    /// Kills all processes of the sandbox.
    pub(super) fn kill(&self) {
        signal(self.init, Signal::SIGKILL);
        let _ = self.holder.lock().wait();
    }

    /// Ends all nodes and processes, and lists those that remain.
    fn end(&mut self) -> Vec<String> {
        self.kill();
        self.record_leftovers(&self.namespaces);
        let mut left = std::mem::take(&mut *self.left.lock());
        if let Some(directory) = self.directory.take() {
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            let root = directory.path().display().to_string();
            left.extend(
                mounts
                    .lines()
                    .filter(|l| l.contains(&root))
                    .map(|l| format!("mount: {l}")),
            );
            if let Err(e) = directory.close() {
                left.push(format!("directory {root}: {e}"));
            }
        }
        left
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let left = self.end();
        if !left.is_empty() && !thread::panicking() {
            panic!("the lab has ended but left:\n{}", left.join("\n"));
        }
    }
}

/// Sets root's home in a line of /etc/passwd.
fn set_home(line: &str, home: &Path) -> String {
    let fields: Vec<&str> = line.split(':').collect();
    match fields.as_slice() {
        ["root", password, user, group, name, _, shell] => format!(
            "root:{password}:{user}:{group}:{name}:{}:{shell}",
            home.display()
        ),
        _ => line.to_owned(),
    }
}

/// Waits for the child of a process.
pub(super) fn wait_for_child(parent: i32) -> i32 {
    let mut found = None;
    wait_until(&format!("a child of process {parent}"), PATIENCE, || {
        found = namespaces::children(parent).first().copied();
        found.is_some()
    });
    found.expect("just seen")
}

/// Waits until a process reports that it is ready, or returns its message.
pub(super) fn wait_ready(child: &mut Child) -> Result<(), String> {
    let mut pipe = child.stdout.take().expect("its standard output");
    let (begin, mut output) = (Instant::now(), Vec::new());
    while !output.ends_with(b"\n") {
        let rest = PATIENCE.saturating_sub(begin.elapsed()).as_millis();
        let mut polled = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        let is_late = rest == 0
            || nix::poll::poll(
                &mut polled,
                PollTimeout::try_from(rest).unwrap_or(PollTimeout::MAX),
            )
            .is_ok_and(|n| n == 0);
        if is_late {
            return Err(format!("no answer within {PATIENCE:?}"));
        }
        let mut byte = [0];
        match pipe.read(&mut byte) {
            Ok(1..) => output.push(byte[0]),
            Ok(0) => return Err("it ended".into()),
            Err(e) => return Err(e.to_string()),
        }
    }
    if output == b"ready\n" {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output).into_owned())
    }
}

/// Writes the line for which a process waits, so that it continues.
pub(super) fn let_continue(child: &mut Child) {
    child
        .stdin
        .take()
        .expect("its standard input")
        .write_all(b"go\n")
        .expect("the process reads");
}
