//! A real Slurm on the nodes: slurmctld on the login node, slurmd on the others, munge on all.

use std::{fs, io::Read, path::Path, thread, time::Duration};

use super::{Lab, Node, requirements};
use crate::{
    process::{signal, wait_until},
    program::absent,
};
use nix::sys::signal::Signal;

/// Number of processors that each node reports to Slurm.
const PROCESSORS: u32 = 4;

const CONFIGURATION: &str = "/etc/slurm/slurm.conf";

/// Slurm on a [`Lab`] with a login node; started by [`Lab::slurm`]. Partitions `debug` (the default, at most 60 minutes) of all nodes and `short`
/// (2 minutes, higher priority) of the first two; 4 processors and 4000 MB per node. `root` and `ada` may submit on the login node.
/// Without accounting only `sacct -c` works, which reads the file of completed jobs. Slurm ends with the lab.
#[derive(Debug)]
pub struct Slurm<'lab> {
    lab: &'lab Lab,
}

impl Lab {
    /// Starts Slurm and waits until all nodes are idle. A second call returns the same Slurm.
    pub fn slurm(&self) -> Slurm<'_> {
        self.start_slurm(false)
    }

    /// Starts Slurm with an accounting database (cluster `lab`, account `lab` with `root` and `ada`), so that `sacct` works. Takes a few seconds
    /// more.
    pub fn slurm_with_accounting(&self) -> Slurm<'_> {
        self.start_slurm(true)
    }

    fn start_slurm(&self, has_accounting: bool) -> Slurm<'_> {
        let slurm = Slurm { lab: self };
        if self.login().path(CONFIGURATION).exists() {
            return slurm;
        }
        let mut key = vec![0; 128];
        fs::File::open("/dev/urandom")
            .and_then(|mut f| f.read_exact(&mut key))
            .expect("random bytes for munge's key");
        let storage = if has_accounting {
            "accounting_storage/slurmdbd\nAccountingStorageHost=login"
        } else {
            "accounting_storage/none"
        };
        let count = self.nodes().count();
        let configuration = format!(
            "{}AccountingStorageType={storage}\n\
             NodeName=n[1-{count}] CPUs={PROCESSORS} RealMemory=4000 State=UNKNOWN\n\
             PartitionName=debug Nodes=n[1-{count}] Default=YES MaxTime=60 OverSubscribe=NO State=UP\n\
             PartitionName=short Nodes=n[1-{}] MaxTime=2 PriorityTier=10 State=UP\n",
            include_str!("slurm.conf"),
            count.min(2)
        );
        thread::scope(|scope| {
            for node in &self.nodes {
                scope.spawn(|| prepare(node, &key, configuration.as_bytes()));
            }
        });
        if has_accounting {
            start_accounting(self.login());
        }
        slurm.start_controller();
        thread::scope(|scope| {
            for node in self.nodes() {
                scope.spawn(|| slurm.start_node(node));
            }
        });
        slurm.wait_idle(count);
        slurm
    }
}

/// Writes the configuration and starts munge on a node.
fn prepare(node: &Node, key: &[u8], configuration: &[u8]) {
    node.shell(
        "mkdir -p /etc/slurm /etc/munge /run/munge /var/log/munge /var/lib/munge /var/spool/slurmctld /var/spool/slurmd\n\
         # srun's PMIx looks for the name that only the development package brings\n\
         for lib in /usr/lib/*-linux-gnu/libpmix.so.2 /usr/lib/*-linux-gnu/pmix2/lib/libpmix.so.2; do\n\
             [ ! -e \"$lib\" ] || [ -e \"${lib%.2}\" ] || ln -s libpmix.so.2 \"${lib%.2}\"\n\
         done",
    );
    let write = |file: &str, content: &[u8]| {
        fs::write(node.path(file), content)
            .unwrap_or_else(|e| panic!("{}:{file}: {e}", node.name()))
    };
    write("/etc/slurm/cgroup.conf", b"CgroupPlugin=cgroup/v1\n");
    write("/etc/munge/munge.key", key);
    write(CONFIGURATION, configuration);
    start_munge(node);
}

/// Starts munge on a node, even after a restart of the node.
fn start_munge(node: &Node) {
    node.shell(
        "mkdir -p /run/munge\n\
         chown -R munge: /etc/munge /run/munge /var/log/munge /var/lib/munge\n\
         chmod 700 /etc/munge; chmod 400 /etc/munge/munge.key; chmod 755 /run/munge; chmod 711 /var/lib/munge\n\
         [ -S /run/munge/munge.socket.2 ] || setsid runuser -u munge -- munged </dev/null >/dev/null 2>&1",
    );
}

/// Starts a private database and slurmdbd.
fn start_accounting(login: &Node) {
    fs::write(
        login.path("/etc/slurm/slurmdbd.conf"),
        include_str!("slurmdbd.conf"),
    )
    .expect("slurmdbd.conf on the login node");
    login.shell(
        "chmod 600 /etc/slurm/slurmdbd.conf\n\
         mkdir -p /run/mysqld /var/lib/lab-database; chown mysql: /run/mysqld /var/lib/lab-database\n\
         set -- --no-defaults --user=mysql --datadir=/var/lib/lab-database\n\
         small='--innodb-log-file-size=8M --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0'\n\
         mariadb-install-db \"$@\" $small >/var/log/database.log 2>&1\n\
         setsid mariadbd \"$@\" $small --skip-networking --socket=/run/mysqld/mysqld.sock </dev/null >>/var/log/database.log 2>&1 &",
    );
    let does = |what: &str, script: &str| {
        wait_until(what, Duration::from_secs(240), || {
            login.exec(&["sh", "-c", script]).status.success()
        })
    };
    does(
        "the database",
        "mariadb --no-defaults -e 'create database if not exists slurm_acct' 2>/dev/null",
    );
    login.shell("setsid slurmdbd </dev/null >/dev/null 2>&1");
    does("slurmdbd", "sacctmgr -n show cluster >/dev/null 2>&1");
    login.shell(
        "sacctmgr -i add cluster lab; sacctmgr -i add account lab Description=lab Organization=lab\n\
         sacctmgr -i add user root Account=lab; sacctmgr -i add user ada Account=lab",
    );
}

impl Slurm<'_> {
    /// Waits until this many nodes are idle.
    #[track_caller]
    pub fn wait_idle(&self, nodes: usize) {
        wait_until(
            &format!("{nodes} idle nodes of Slurm"),
            Duration::from_secs(240),
            || {
                let idle = self
                    .lab
                    .login()
                    .exec(&["sinfo", "-h", "-p", "debug", "-t", "idle", "-o", "%D"]);
                String::from_utf8_lossy(&idle.stdout).trim() == nodes.to_string()
            },
        );
    }

    /// Stops slurmctld as an administrator does: its state is saved, jobs continue, requests get no answer.
    pub fn stop_controller(&self) {
        end(self.lab.login(), "slurmctld", Signal::SIGTERM);
    }

    /// Kills slurmctld, as a crash does. It forgets unsaved changes: a job that was just submitted is lost, and a job that has just ended still seems
    /// to be running.
    pub fn kill_controller(&self) {
        end(self.lab.login(), "slurmctld", Signal::SIGKILL);
    }

    /// Starts slurmctld and waits until it answers.
    pub fn start_controller(&self) {
        let login = self.lab.login();
        start_munge(login);
        login.shell("setsid slurmctld </dev/null >/dev/null 2>&1");
        wait_until("slurmctld", Duration::from_secs(240), || {
            login.exec(&["scontrol", "ping"]).status.success()
        });
    }

    /// Kills slurmd on a node. Processes that slurmd started stay alive.
    pub fn stop_node(&self, node: &Node) {
        end(node, "slurmd", Signal::SIGKILL);
    }

    /// Starts slurmd and munge on a node, even after [`Node::restart`] or on a machine that replaced it.
    pub fn start_node(&self, node: &Node) {
        if !node.path(CONFIGURATION).exists() {
            // another machine may have replaced the node, and lacks its files
            let of_login = |file: &str| {
                fs::read(self.lab.login().path(file))
                    .unwrap_or_else(|e| panic!("login:{file}: {e}"))
            };
            prepare(
                node,
                &of_login("/etc/munge/munge.key"),
                &of_login(CONFIGURATION),
            );
        }
        start_munge(node);
        node.shell(&format!(
            "setsid slurmd -N {} </dev/null >/dev/null 2>&1",
            node.name()
        ));
    }

    /// Returns the last lines of all Slurm logs, for the message of a failed test.
    pub fn logs(&self) -> String {
        let of = |node: &Node| match node.is_up() {
            true => {
                format!(
                    "{}:\n{}",
                    node.name(),
                    String::from_utf8_lossy(
                        &node
                            .exec(&[
                                "sh",
                                "-c",
                                "tail -n 30 /var/log/slurm*.log /var/log/database.log 2>/dev/null"
                            ])
                            .stdout
                    )
                )
            }
            false => format!("{} is off\n", node.name()),
        };
        self.lab.nodes.iter().map(of).collect()
    }
}

/// Ends a daemon on a node with a signal.
fn end(node: &Node, program: &str, by: Signal) {
    let is_it = |command: &str| {
        Path::new(command.split(' ').next().unwrap_or_default())
            .file_name()
            .is_some_and(|n| n == program)
    };
    let mut signalled = false;
    wait_until(
        &format!("the end of {program}"),
        Duration::from_secs(20),
        || {
            let all: Vec<i32> = node
                .processes(program)
                .into_iter()
                .filter(|p| is_it(&p.command))
                .map(|p| p.pid)
                .collect();
            if !signalled || by == Signal::SIGKILL {
                all.iter().for_each(|pid| signal(*pid, by));
                signalled = true;
            }
            all.is_empty()
        },
    );
    node.shell(&format!("rm -f /run/{program}.pid"));
}

/// Returns a description of what this machine lacks for Slurm, if anything.
pub(crate) fn missing() -> Option<String> {
    requirements::missing().or_else(|| absent(&["slurmctld", "slurmd", "munged", "srun", "sinfo"]))
}

/// Returns a description of what this machine lacks for Slurm with accounting, if anything.
pub(crate) fn missing_for_accounting() -> Option<String> {
    missing().or_else(|| absent(&["slurmdbd", "mariadbd", "mariadb-install-db", "sacct"]))
}
