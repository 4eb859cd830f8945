//! Tests of `cvc install` over ssh on empty nodes: with the real ansible-playbook, and real apt with a local repository; and of possible faults.

use cvc_testkit::{Finished, Lab, Running, Tool, lab::Image, require, wait_until};
use serde_json::Value;
use std::{fs, path::PathBuf, process::Command, time::Duration};

const LIMIT: Duration = Duration::from_secs(300);

/// A program that only needs the library's launcher, so that no compiler must be installed.
const APP: &str = "schema = 1\nname = \"hello\"\ntitle = \"a script\"\n[program]\nnames = [\"sh\"]\ninstall = \"any system has it\"\n[command]\n\
    args = [\"-c\", \"echo SUCCESS\"]\n[workloads.any]\n[success]\npattern = 'SUCCESS'\n";

struct Laptop {
    lab: Lab,
    dir: tempfile::TempDir,
}

impl Laptop {
    fn new(nodes: u8, mpi: &str) -> Self {
        let lab = Lab::builder().nodes(nodes).image(Image::Base).build();
        let dir = tempfile::Builder::new()
            .prefix("cvc-test-")
            .tempdir()
            .expect("a directory");
        let hosts: Vec<String> = (1..=nodes).map(|n| format!("\"n{n}\"")).collect();
        let text = format!(
            "schema = 1\nname = \"nodes\"\n[sites.lab]\nkind = \"ssh\"\nuser = \"ada\"\nhosts = [{}]\n\
             [sites.lab.storage.scratch]\npath = \"/scratch-local/cvc\"\n[sites.lab.install]\nssh_keys = true\n\
             [matrix]\napp = \"hello\"\nmapping = \"1Nx1P\"\nmpi = [{mpi}]\n",
            hosts.join(", ")
        );
        fs::create_dir(dir.path().join("apps")).expect("a directory");
        fs::write(dir.path().join("apps/hello.toml"), APP).expect("a descriptor");
        fs::write(dir.path().join("nodes.toml"), text).expect("a campaign file");
        Self { lab, dir }
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let ansible = Tool::Ansible.find().expect("found before");
        let path = format!(
            "{}:{}",
            ansible.parent().expect("a directory").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let mut command = self.lab.command(program);
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("PATH", path)
            .env("XDG_CACHE_HOME", self.dir.path().join("cache"));
        command
    }

    fn start(&self, args: &[&str]) -> Running {
        Running::start(self.command(env!("CARGO_BIN_EXE_cvc"), args))
    }

    #[track_caller]
    fn cvc(&self, args: &[&str]) -> Finished {
        self.start(args).wait(LIMIT)
    }

    fn lock(&self) -> PathBuf {
        self.dir.path().join("campaigns/nodes/cvc.lock")
    }
}

/// Returns the outcome for each host, from the events.
fn hosts(stdout: &str) -> Value {
    let mut lines = stdout
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok());
    lines
        .rfind(|e| e["step"] == "ended")
        .map(|e| e["hosts"].clone())
        .unwrap_or_default()
}

#[test]
fn four_empty_nodes_get_the_same_twice_over_and_by_hand() {
    require!(Tool::LabImage, Tool::Ansible);
    let laptop = Laptop::new(4, "\"mpich\", \"openmpi\"");
    let has = |node: &str, program: &str| {
        laptop
            .lab
            .ssh(node, &format!("command -v {program}"))
            .status
            .success()
    };

    // package lists were never fetched, and --check changes nothing
    let looked = laptop
        .cvc(&["install", "lab", "--check", "--json"])
        .expect(0);
    assert!(!has("n1", "mpiexec.mpich") && !laptop.lock().exists());
    assert!(
        looked.stdout.contains("would be installed") || hosts(&looked.stdout)["n4"]["failed"] == 0,
        "{}",
        looked.stdout
    );

    let installed = laptop.cvc(&["install", "lab"]).expect(0);
    for node in ["n1", "n2", "n3", "n4"] {
        assert!(
            has(node, "mpiexec.mpich") && has(node, "mpirun.openmpi"),
            "{node}: {}",
            installed.stderr
        );
        assert!(
            laptop
                .lab
                .ssh(&format!("ada@{node}"), "test -O /scratch-local/cvc")
                .status
                .success(),
            "the storage area is the user's"
        );
    }
    assert!(
        installed.stderr.contains("site lab: 4 of 4 hosts done")
            && installed
                .stderr
                .contains("n4: component : Install with apt: changed")
    );
    assert!(
        installed.stdout.contains("mpi/openmpi") && installed.stdout.contains("openmpi-bin 4."),
        "{}",
        installed.stdout
    );
    // each node accepts logins from the others without a question, and without the laptop's private key
    let keys = "ssh -F none -o BatchMode=yes -o IdentitiesOnly=yes -o UserKnownHostsFile=/etc/ssh/ssh_known_hosts -o StrictHostKeyChecking=yes -i ~/.ssh/id_ed25519";
    let output = laptop.lab.ssh("ada@n1", &format!("{keys} n3 hostname"));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "n3\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // but a key that was copied to another machine is not accepted
    let let_in = String::from_utf8_lossy(
        &laptop
            .lab
            .ssh(
                "ada@n3",
                "sed -n '/BEGIN cvc/,/END cvc/p' ~/.ssh/authorized_keys",
            )
            .stdout,
    )
    .into_owned();
    for node in ["n1", "n2", "n3", "n4"] {
        let address = String::from_utf8_lossy(&laptop.lab.ssh(node, "hostname -I").stdout)
            .trim()
            .to_owned();
        assert!(
            let_in.contains(&format!("\nfrom=\"{address},127.0.0.1,::1\" ssh-ed25519 ")),
            "{node}, {address}: {let_in}"
        );
    }
    assert_eq!(let_in.matches("ssh-ed25519").count(), 4, "{let_in}");
    let lock = fs::read_to_string(laptop.lock()).expect("a lock");
    assert!(
        lock.contains("package = \"mpich\"")
            && lock.contains("hosts = [\"n1\", \"n2\", \"n3\", \"n4\"]"),
        "{lock}"
    );

    let again = laptop.cvc(&["install", "lab", "--json"]).expect(0);
    for node in ["n1", "n2", "n3", "n4"] {
        assert_eq!(
            (
                &hosts(&again.stdout)[node]["changed"],
                &hosts(&again.stdout)[node]["failed"]
            ),
            (&Value::from(0), &Value::from(0)),
            "{}",
            again.stdout
        );
    }
    assert!(
        laptop.lab.processes("ansible").is_empty() && laptop.lab.processes("ssh:").is_empty(),
        "{:?}",
        laptop.lab.processes("ssh")
    );

    // plain ansible-playbook only needs the written inventory
    let line = laptop
        .cvc(&["install", "lab", "--inventory-only", "by-hand"])
        .expect(0)
        .stdout;
    let words: Vec<&str> = line
        .split_whitespace()
        .skip(1)
        .chain(["--limit", "n2", "--tags", "mpi"])
        .collect();
    let by_hand = Running::start(laptop.command("ansible-playbook", &words))
        .wait(LIMIT)
        .expect(0);
    assert!(
        by_hand.stdout.contains("changed=0") && by_hand.stdout.contains("failed=0"),
        "{}",
        by_hand.stdout
    );
}

#[test]
fn a_task_that_fails_on_one_of_four_nodes_is_named_and_the_others_are_done() {
    require!(Tool::LabImage, Tool::Ansible);
    let laptop = Laptop::new(4, "\"openmpi\"");
    // remove its repository
    laptop.lab.node("n3").shell(
        "rm -rf /var/lib/apt/lists/*; echo 'deb [trusted=yes] file:/no/such ./' > /etc/apt/sources.list; rm -f /etc/apt/sources.list.d/*",
    );
    let failed = laptop.cvc(&["install", "lab", "--tags", "mpi"]).expect(5);
    let output = failed.stderr;
    assert!(
        output.contains("error: site lab: n3: the task `component : ")
            && output.contains("in roles/component/tasks/packages.yml:"),
        "{output}"
    );
    assert!(
        output.contains("/no/such")
            && output.contains("the other hosts are done: n1, n2, n4")
            && output.contains("hint: n3"),
        "{output}"
    );
    for node in ["n1", "n2", "n4"] {
        assert!(
            laptop
                .lab
                .ssh(node, "command -v mpirun.openmpi")
                .status
                .success(),
            "{node}"
        );
    }
    assert!(!laptop.lock().exists());
}

#[test]
fn a_cut_link_is_no_matter_of_privileges_and_an_interrupted_installation_leaves_nothing_running() {
    require!(Tool::LabImage, Tool::Ansible);
    let laptop = Laptop::new(2, "\"openmpi\"");
    // while apt runs on both nodes
    let mut running = laptop.start(&["install", "lab", "--tags", "mpi"]);
    wait_until("apt", Duration::from_secs(120), || {
        !laptop.lab.node("n2").processes("apt-get").is_empty() || !running.is_alive()
    });
    laptop.lab.node("n2").link(false);
    let output = running.wait(LIMIT).expect(5).stderr;
    assert!(
        output.contains("n2 cannot be reached") && !output.contains("privilege"),
        "{output}"
    );
    assert!(output.contains("the other hosts are done: n1"), "{output}");
    laptop.lab.node("n2").link(true);
    wait_until("the link", Duration::from_secs(20), || {
        laptop.lab.ssh("n2", "true").status.success()
    });

    laptop.lab.node("n1").shell("rm -f /usr/bin/mpirun.openmpi");
    let running = laptop.start(&["install", "lab", "--tags", "mpi"]);
    wait_until("ansible-playbook", Duration::from_secs(60), || {
        !laptop
            .lab
            .processes("ansible-playbook --inventory")
            .is_empty()
    });
    // the program itself, not the process that entered the sandbox
    let program = laptop
        .lab
        .processes("install lab --tags")
        .into_iter()
        .map(|p| p.pid)
        .max()
        .expect("cvc");
    cvc_testkit::process::signal(program, nix::sys::signal::Signal::SIGINT);
    let stopped = running.wait(Duration::from_secs(30)).expect(130);
    assert!(
        stopped.stderr.contains("was interrupted"),
        "{}",
        stopped.stderr
    );
    assert!(
        laptop.lab.processes("ansible-playbook").is_empty(),
        "{:?}",
        laptop.lab.processes("ansible")
    );

    // nor is one left whose cvc was killed
    let running = laptop.start(&["install", "lab", "--tags", "mpi"]);
    wait_until("ansible-playbook", Duration::from_secs(60), || {
        !laptop
            .lab
            .processes("ansible-playbook --inventory")
            .is_empty()
    });
    let program = laptop
        .lab
        .processes("install lab --tags")
        .into_iter()
        .map(|p| p.pid)
        .max()
        .expect("cvc");
    cvc_testkit::process::signal(program, nix::sys::signal::Signal::SIGKILL);
    running.wait(Duration::from_secs(30));
    wait_until("its end", Duration::from_secs(60), || {
        laptop.lab.processes("ansible-playbook").is_empty()
    });
}

#[test]
fn two_installations_are_not_at_work_on_one_host() {
    require!(Tool::LabImage, Tool::Ansible);
    let laptop = Laptop::new(2, "\"openmpi\"");
    let node = laptop.lab.node("n2");
    let is_free = |node: &str| {
        laptop
            .lab
            .ssh(node, "flock -n /run/cvc-install.lock true")
            .status
            .success()
    };
    node.shell("flock /run/cvc-install.lock sleep 1000 >/dev/null 2>&1 </dev/null & echo");
    wait_until("somebody else's lock", LIMIT, || !is_free("n2"));
    let refused = laptop
        .cvc(&["install", "lab", "--tags", "mpi"])
        .expect(5)
        .stderr;
    assert!(
        refused.contains(
            "error: site lab: another installation is at work on n2\n  hint: wait until it ends"
        ),
        "{refused}"
    );
    assert!(
        !refused.contains("n1: ") && is_free("n1"),
        "nothing is begun: {refused}"
    );
    node.shell("pkill -f '[s]leep 1000'");
    wait_until("the end of that lock", LIMIT, || is_free("n2"));

    let mut running = laptop.start(&["install", "lab", "--tags", "mpi"]);
    wait_until("apt", LIMIT, || {
        !node.processes("apt-get").is_empty() || !running.is_alive()
    });
    assert!(
        !is_free("n1") && !is_free("n2"),
        "{}",
        running.stderr_so_far()
    );
    // remove the program, however the test ends
    let program = laptop
        .lab
        .processes("install lab --tags")
        .into_iter()
        .map(|p| p.pid)
        .max()
        .expect("cvc");
    cvc_testkit::process::signal(program, nix::sys::signal::Signal::SIGKILL);
    running.wait(LIMIT);
    wait_until("the end of its locks", LIMIT, || {
        is_free("n1") && is_free("n2")
    });
    wait_until("its end", LIMIT, || {
        laptop.lab.processes("ansible-playbook").is_empty() && node.processes("apt-get").is_empty()
    });
    let done = laptop
        .cvc(&["install", "lab", "--tags", "mpi"])
        .expect(0)
        .stderr;
    assert!(
        done.contains("2 of 2 hosts done") && is_free("n1") && is_free("n2"),
        "{done}"
    );
}
