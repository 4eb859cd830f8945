//! Campaigns of a script whose runs continue when the test allows it.

use crate::common::cluster::{LIMIT, OnLab};
use cvc_testkit::{Campaign, Finished, Lab, Running, Tool, lab, wait_until};
use nix::sys::signal::Signal;
use std::{collections::BTreeMap, fs, time::Duration};

pub const SECOND: Duration = Duration::from_secs(1);
/// Time limit for an event, long enough for a machine that is busy with other work.
pub const SOON: Duration = Duration::from_secs(90);

/// A script whose rank 0 records that its run has begun, and ends when `/shared/go.n` exists, with n the number of the start. The other ranks end
/// with it.
pub const STEPS: &str = r#"
run="${CVC_RUN%%@*}"
rank="${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-0}}"
if [ "$rank" = 0 ]; then
    rm -f /shared/end.$run
    echo "$run" >>/shared/starts
    n=$(wc -l </shared/starts)
    echo "Time step $n"
    until [ -e /shared/go.$n ] || [ -e /shared/go.all ]; do sleep 0.05; done
    touch /shared/end.$run
else
    until [ -e /shared/end.$run ]; do sleep 0.05; done
fi
echo SUCCESS
"#;

/// Limits these tests to two at a time, each for as long as its lab exists: they mostly wait, but MPI on many labs at the same time takes too long on
/// small machines.
pub fn turn() -> cvc_testkit::Turn {
    cvc_testkit::turn("cluster-faults", 2)
}

/// Returns an ssh site of `nodes` nodes with MPICH 5, which soon reports a missing node.
pub fn site(nodes: usize, keys: &str) -> String {
    let hosts: Vec<String> = (1..=nodes).map(|n| format!("\"n{n}\"")).collect();
    let mpich5 = Tool::Mpich5.find().expect("the test requires it");
    format!(
        "[sites.lab]\nkind = \"ssh\"\nhosts = [{}]\ninterface = \"eth0\"\ncores = 4\nlost_after_s = 4\n{keys}\n\
         [sites.lab.mpi.mpich5]\nfamily = \"mpich\"\nmpiexec = \"{}\"\n",
        hosts.join(", "),
        mpich5.display()
    )
}

/// Returns a campaign of one script on a lab with `nodes` nodes.
pub fn scripted(nodes: u8, name: &str, keys: &str, script: &str, matrix: &str, run: &str) -> OnLab {
    let lab = Lab::builder().nodes(nodes).build();
    let text = format!(
        "{}[matrix]\napp = \"script\"\n{matrix}\n[run]\n{run}\n",
        site(nodes.into(), keys)
    );
    on_lab(lab, name, &text, script)
}

/// Returns a campaign with this text and the application `script` on a lab.
pub fn on_lab(lab: Lab, name: &str, text: &str, script: &str) -> OnLab {
    let on = OnLab::new(lab, name, text);
    fs::write(on.lab.shared().join("starts"), "").expect("writes");
    on.set_script(script);
    on
}

/// Replaces the script of the application `script` of a campaign.
pub fn put_script(campaign: &Campaign, script: &str) {
    let descriptor = format!(
        "schema = 1\nname = \"script\"\ntitle = \"a script of a test\"\n[program]\nnames = [\"sh\"]\ninstall = \"any system has it\"\n\
         [command]\nargs = [\"{{{{storage}}}}/steps.sh\"]\n[[command.files]]\npath = \"steps.sh\"\ncontent = '''{script}'''\n\
         [workloads.any]\ncore_s = 0.1\n[success]\npattern = '^SUCCESS'\nforbid = '^FAILURE'\n[progress]\nstep = '^Time step (\\d+)'\n"
    );
    campaign.put("apps/script.toml", &descriptor);
}

impl OnLab {
    /// Replaces the script of the application `script`, which nodes receive with each run.
    pub fn set_script(&self, script: &str) {
        put_script(&self.campaign, script);
    }

    /// Starts `cvc run`.
    pub fn begin(&self) -> Running {
        self.start(&["run", "campaign.toml"])
    }

    /// Returns the runs in the order in which their rank 0 began.
    pub fn starts(&self) -> Vec<String> {
        fs::read_to_string(self.lab.shared().join("starts"))
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// Returns how often each run began.
    pub fn start_counts(&self) -> BTreeMap<String, usize> {
        self.starts()
            .into_iter()
            .fold(BTreeMap::new(), |mut counts, run| {
                *counts.entry(run).or_default() += 1;
                counts
            })
    }

    /// Waits for the n-th start.
    #[track_caller]
    pub fn wait_start(&self, n: usize) {
        wait_until(&format!("start {n}"), 150 * SECOND, || {
            self.starts().len() >= n
        });
    }

    /// Lets the n-th start continue to its end.
    pub fn go(&self, n: usize) {
        fs::write(self.lab.shared().join(format!("go.{n}")), "").expect("writes");
    }

    /// Lets all runs continue.
    pub fn go_all(&self) {
        fs::write(self.lab.shared().join("go.all"), "").expect("writes");
    }

    /// Waits until this many attempts have ended.
    #[track_caller]
    pub fn wait_finished(&self, n: usize) {
        wait_until(&format!("{n} finished attempts"), 150 * SECOND, || {
            self.campaign.events("run-finished").len() >= n
        });
    }

    /// Checks that there is one failure with this cause, and returns its detail.
    #[track_caller]
    pub fn only_failure(&self, cause: &str) -> String {
        let failures = self.campaign.failures();
        assert!(
            matches!(&failures[..], [(c, _)] if c == cause),
            "{failures:?}"
        );
        failures[0].1.clone()
    }

    /// Returns the number of ranks on a node. A shell that is starting a program counts as two for a moment.
    pub fn script_on(&self, node: &str) -> usize {
        let is_rank = |command: &str| {
            command
                .split(' ')
                .next()
                .is_some_and(|program| program == "sh" || program.ends_with("/sh"))
        };
        self.lab
            .node(node)
            .processes("steps.sh")
            .iter()
            .filter(|p| is_rank(&p.command))
            .count()
    }

    /// Waits until each of these nodes has one rank.
    #[track_caller]
    pub fn wait_ranks(&self, nodes: &[&str]) {
        wait_until("one rank on each node", SOON, || {
            nodes.iter().all(|n| self.script_on(n) == 1)
        });
    }

    /// Checks that nothing of cvc is left on the nodes, and nothing incomplete on the laptop.
    #[track_caller]
    pub fn assert_clean(&self, nodes: &[&str]) {
        // the relay ends with the connection, which has ended together with cvc
        let relays = |node: &&str| {
            self.lab
                .node(node)
                .processes("cvc-node")
                .iter()
                .any(|p| p.command.contains(" attach "))
        };
        wait_until("the end of relays", SOON, || !nodes.iter().any(relays));
        for node in nodes {
            assert_eq!(
                self.lab.node(node).processes("steps.sh"),
                Vec::new(),
                "{node}"
            );
        }
        self.assert_nothing_left(nodes);
        self.campaign.assert_nothing_left();
    }

    /// Checks that each run succeeded once, and that failed attempts have separate directories.
    #[track_caller]
    pub fn assert_runs(&self, runs: usize) {
        let finished = self.campaign.events("run-finished");
        let mut succeeded: BTreeMap<String, usize> = BTreeMap::new();
        for event in finished
            .iter()
            .filter(|e| e["outcome"]["result"] == "succeeded")
        {
            *succeeded
                .entry(event["run"].as_str().expect("a run").to_owned())
                .or_default() += 1;
        }
        assert_eq!(succeeded.len(), runs, "{finished:#?}");
        assert!(
            succeeded.values().all(|n| *n == 1),
            "each exactly once: {succeeded:?}"
        );
        for run in succeeded.keys() {
            assert!(
                !self.campaign.records(run).is_empty(),
                "run {run} has records"
            );
        }
        let failed = self
            .campaign
            .run_names()
            .into_iter()
            .filter(|n| n.contains(".failed-"))
            .count();
        assert_eq!(
            failed,
            self.campaign.failures().len(),
            "{:?}",
            self.campaign.run_names()
        );
    }
}

/// Waits for the end of `cvc`.
#[track_caller]
pub fn ends(running: Running, code: i32) -> Finished {
    let output = running.wait(LIMIT);
    if std::env::var_os("CVC_TEST_SAID").is_some() {
        eprintln!("{}\n{}", output.stdout, output.stderr);
    }
    output.expect(code)
}

/// Returns the process id of `cvc` itself, below the process that entered the lab.
pub fn controller_below(pid: i32) -> i32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .expect("children of a process");
    children
        .split_whitespace()
        .next()
        .and_then(|c| c.parse().ok())
        .expect("cvc is at work")
}

/// Sends Ctrl-C.
pub fn interrupt(running: &Running) {
    cvc_testkit::process::signal(controller_below(running.pid()), Signal::SIGINT);
}

/// Sends Ctrl-C, and a second one after the first was handled: two pending signals of one kind would be merged.
#[track_caller]
pub fn interrupt_twice(running: &Running) {
    interrupt(running);
    wait_until("it to hear the signal", SOON, || {
        running.stderr_so_far().contains("stopping after")
    });
    // a second signal within this time would count as part of the first
    wait_until("it to hear another", SOON, || {
        let is_heard = running.stderr_so_far().contains("stopping now");
        if !is_heard {
            interrupt(running);
        }
        is_heard
    });
}

/// Kills the processes on a node whose arguments contain this text; returns their number.
pub fn kill_on(lab: &Lab, node: &str, pattern: &str) -> usize {
    let all: Vec<lab::NodeProcess> = lab.node(node).processes(pattern);
    for process in &all {
        cvc_testkit::process::signal(process.pid, Signal::SIGKILL);
    }
    all.len()
}
