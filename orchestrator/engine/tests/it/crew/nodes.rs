//! A crew over real ssh to the nodes of the lab: what it costs, and each way in which a node or its network can fail.

use super::{
    console::{Console, PROGRAM},
    process::LIMIT,
    times::IN_LAB,
};
use cvc_testkit::{Lab, Tool, lab::Node, require, wait_until};
use std::{
    process::{Child, Stdio},
    time::{Duration, Instant},
};

const RUN: &str = "r1@/tmp/cvc-lab-run";

/// Of a run: a process that ignores TERM, as ranks under DMTCP do, on every node, and one of another run beside it.
struct Runs(Vec<Child>);

impl Runs {
    fn start(lab: &Lab) -> Self {
        Self(
            lab.nodes()
                .enumerate()
                .flat_map(|(i, node)| Self::on(node, i))
                .collect(),
        )
    }

    fn on(node: &Node, rank: usize) -> [Child; 2] {
        [
            (RUN, "trap '' TERM; while :; do sleep 0.771; done"),
            ("other@/tmp/cvc-lab-other", "while :; do sleep 0.772; done"),
        ]
        .map(|(marker, script)| {
            let mut shell = node.command("sh");
            shell
                .args(["-c", script])
                .env("CVC_RUN", marker)
                .env("PMI_RANK", rank.to_string());
            shell
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn runs(node: &Node) -> bool {
    !node.processes("sleep 0.771").is_empty()
}

fn sentinels(node: &Node) -> usize {
    node.processes(&format!("{PROGRAM} sentinel"))
        .iter()
        .filter(|p| p.command.starts_with(PROGRAM))
        .count()
}

/// Lets every sentinel that is there and the agent hear of each other: none is missed before so long after that.
fn hear_all(console: &mut Console) -> Instant {
    let begin = Instant::now();
    console.ask(&format!("ranks {RUN}"), "ranks");
    begin
}

fn silence() -> Duration {
    Duration::from_secs_f64(IN_LAB.lost_after_s)
}

/// A lab of four nodes with a run on each, guarded by a crew whose agent is on n1.
fn at_work() -> (Lab, Runs, Console) {
    let lab = Lab::builder().nodes(4).build();
    let runs_of_all = Runs::start(&lab);
    let mut console = Console::start(&lab, lab.node("n1"));
    console.hears("ready");
    let guarded = console.ask(&format!("guard {RUN}"), "guarded");
    assert_eq!(guarded, "n1 (); n2 (); n3 (); n4 ()");
    wait_until("all ranks", LIMIT, || {
        console.ask(&format!("ranks {RUN}"), "ranks") == "n1 [0]; n2 [1]; n3 [2]; n4 [3]"
    });
    (lab, runs_of_all, console)
}

/// Ends the run on the survivors, and sees that nothing of it or of the crew is left anywhere, while the other run goes on.
fn ends_without_a_trace(lab: &Lab, mut console: Console) {
    console.ask(&format!("end {RUN}"), "ended");
    console.close();
    for node in lab.nodes().filter(|n| n.is_up()) {
        wait_until("the end of the run", LIMIT, || !runs(node));
        wait_until("the end of the sentinel", LIMIT, || sentinels(node) == 0);
    }
    assert!(
        !lab.node("n1").processes("sleep 0.772").is_empty(),
        "another run is not affected"
    );
}

#[test]
fn four_nodes_make_a_crew_and_answer() {
    require!(Tool::Lab);
    let (lab, _runs, mut console) = at_work();
    drop(console);
    wait_until("the end of all sentinels", LIMIT, || {
        lab.nodes().all(|n| sentinels(n) == 0)
    });
    // measured a second time, when the files are in memory
    let _again = Runs::start(&lab);
    console = Console::start(&lab, lab.node("n1"));
    let ready_us: u64 = console.hears("ready").text.parse().unwrap();
    let clock_us: u64 = console.ask("clock 50", "clocks").parse().unwrap();
    let begin = Instant::now();
    assert!(lab.node("n1").exec(&["ssh", "n2", "true"]).status.success());
    eprintln!(
        "one ssh to a node and back: {:.1} ms",
        begin.elapsed().as_secs_f64() * 1e3
    );
    eprintln!(
        "crew of 4 (3 by ssh): start {:.1} ms, one question to all {:.2} ms",
        ready_us as f64 / 1e3,
        clock_us as f64 / 1e3
    );
    // far above what was seen, since other tests run beside this one
    assert!(ready_us < 10_000_000 && clock_us < 500_000);
    let hosts = console.ask("hosts", "hosts");
    for i in 1..=4 {
        assert!(hosts.contains(&format!("n{i} (\"n{i}\", [\"")), "{hosts}");
    }
    assert!(hosts.contains("tmpfs"), "{hosts}");
    ends_without_a_trace(&lab, console);
}

#[test]
fn a_killed_node_is_lost_at_once_and_one_without_power_after_its_silence() {
    require!(Tool::Lab);
    let (lab, _runs, mut console) = at_work();
    let begin = Instant::now();
    lab.node("n2").kill();
    let lost = console.hears("lost n2:");
    eprintln!(
        "n2 killed: lost after {:.2?}: {}",
        lost.at - begin,
        lost.text
    );
    assert!(
        !lost.text.contains("no heartbeat"),
        "its kernel said good-bye: {}",
        lost.text
    );

    let begin = hear_all(&mut console);
    lab.node("n3").poweroff();
    let lost = console.hears("lost n3:");
    eprintln!(
        "n3 without power: lost after {:.2?}: {}",
        lost.at - begin,
        lost.text
    );
    assert!(
        lost.text.contains("and a new connection fails"),
        "{}",
        lost.text
    );
    assert!(lost.at - begin >= silence());
    let ended = console.ask(&format!("end {RUN}"), "ended");
    // its shell and the one or two that it has started at the moment; nothing is left
    let on_survivors = ["n1", "n4"].iter().all(|n| {
        [2, 3]
            .iter()
            .any(|count| ended.contains(&format!("{n} ({count}, 0)")))
    });
    assert!(
        on_survivors && ended.contains("n2 is lost; n3 is lost"),
        "{ended}"
    );

    assert_eq!(console.ask("revive", "revived"), "");
    lab.node("n3").link(true);
    for name in ["n2", "n3"] {
        lab.node(name).restart();
    }
    assert_eq!(console.ask("revive", "revived"), "n2 n3");
    assert_eq!(
        console.ask(&format!("ranks {RUN}"), "ranks"),
        "n1 []; n2 []; n3 []; n4 []"
    );
    ends_without_a_trace(&lab, console);
}

#[test]
fn a_link_cut_for_a_moment_loses_no_node_and_one_cut_for_longer_ends_the_run_on_both_sides() {
    require!(Tool::Lab);
    let (lab, _runs, mut console) = at_work();
    let n4 = lab.node("n4");
    n4.link(false);
    std::thread::sleep(silence() / 3);
    n4.link(true);
    console.is_quiet(silence() * 2);
    assert_eq!(
        console.ask(&format!("ranks {RUN}"), "ranks"),
        "n1 [0]; n2 [1]; n3 [2]; n4 [3]"
    );

    let begin = hear_all(&mut console);
    n4.link(false);
    let lost = console.hears("lost n4:");
    eprintln!("link of n4 cut: lost after {:.2?}", lost.at - begin);
    assert!(lost.at - begin >= silence());
    // it cannot be notified: it notices by itself
    wait_until(
        "the end of the run on the node that is cut off",
        LIMIT,
        || !runs(n4),
    );
    eprintln!(
        "link of n4 cut: its run ended after {:.2?}",
        begin.elapsed()
    );
    wait_until("the end of its sentinel", LIMIT, || sentinels(n4) == 0);
    assert!(
        runs(lab.node("n2")),
        "what becomes of the others is for the agent to say"
    );
    n4.link(true);
    assert_eq!(console.ask("revive", "revived"), "n4");
    ends_without_a_trace(&lab, console);
}

#[test]
fn without_sshd_the_line_is_lost_and_back_with_it() {
    require!(Tool::Lab);
    let (lab, _runs, mut console) = at_work();
    let n3 = lab.node("n3");
    // sessions go on when only the listener ends
    n3.sshd_stop();
    console.is_quiet(silence() * 2);
    n3.sshd_start();
    let begin = Instant::now();
    n3.sshd_kill();
    let lost = console.hears("lost n3:");
    eprintln!(
        "sshd of n3 killed: lost after {:.2?}: {}",
        lost.at - begin,
        lost.text
    );
    assert!(!lost.text.contains("no heartbeat"), "{}", lost.text);
    wait_until("the end of the run there", LIMIT, || !runs(n3));
    assert_eq!(console.ask("revive", "revived"), "", "sshd is not there");
    n3.sshd_start();
    assert_eq!(console.ask("revive", "revived"), "n3");
    ends_without_a_trace(&lab, console);
}

#[test]
fn when_the_agents_node_loses_power_the_run_ends_on_all_others() {
    require!(Tool::Lab);
    let (lab, _runs, mut console) = at_work();
    let begin = hear_all(&mut console);
    lab.node("n1").poweroff();
    for name in ["n2", "n3", "n4"] {
        wait_until("the end of the run", LIMIT, || !runs(lab.node(name)));
        wait_until("the end of the sentinel", LIMIT, || {
            sentinels(lab.node(name)) == 0
        });
        assert!(!lab.node(name).processes("sleep 0.772").is_empty());
    }
    let took = begin.elapsed();
    eprintln!("the agent's node without power: its run ended on the others after {took:.2?}");
    // not before it could be missed; how long after is a matter of the machine, and bounded by the waits above
    assert!(took >= silence(), "{took:?}");
    drop(console);
}

/// In a job of Slurm the agent is started by the batch script and the sentinels by srun. srun numbers everything that it starts, and the batch
/// script too: only the tasks of the run's own step are ranks.
#[test]
fn in_a_slurm_job_sentinels_are_steps_and_ranks_are_distinguished_from_other_processes() {
    require!(Tool::Lab, Tool::Slurm);
    let lab = Lab::builder().nodes(3).login(true).build();
    let slurm = lab.slurm();
    let run = format!(
        "export CVC_RUN={RUN}; srun --overlap -N3 -n4 -m block --mpi=none sh -c \"trap '' TERM; while :; do sleep 0.771; done\"; :"
    );
    let mut console = Console::submit(&lab, &run);
    let ready_us: f64 = console.hears("ready").text.parse().unwrap();
    let clock_us: f64 = console.ask("clock 50", "clocks").parse().unwrap();
    eprintln!(
        "crew of 3 (2 by srun): start {:.1} ms, one question to all {:.2} ms",
        ready_us / 1e3,
        clock_us / 1e3
    );
    let expected = "n1 [0, 1]; n2 [2]; n3 [3]";
    let mut ranks = String::new();
    wait_until("all ranks", LIMIT, || {
        ranks = console.ask(&format!("ranks {RUN}"), "ranks");
        ranks.matches([',', ';']).count() >= 3
    });
    assert_eq!(ranks, expected, "{}", slurm.logs());
    console.ask(&format!("guard {RUN}"), "guarded");

    // its srun is killed: the line is lost at once. srun's own watchdog, which is killed or not, may have Slurm kill the sentinel before that
    // has ended what it guards: then the next one does
    for srun in lab
        .node("n1")
        .processes("-w n2")
        .iter()
        .filter(|p| p.command.starts_with("srun"))
    {
        cvc_testkit::process::signal(srun.pid, nix::sys::signal::Signal::SIGKILL);
    }
    let lost = console.hears("lost n2:");
    eprintln!("srun of n2 killed: {}", lost.text);
    assert_eq!(console.ask("revive", "revived"), "n2");
    wait_until("the end of the run there", LIMIT, || !runs(lab.node("n2")));

    // the job is cancelled: Slurm kills the steps, the sentinels among them, and nothing is left
    assert!(
        lab.ssh("login", "scancel --state=RUNNING --me")
            .status
            .success()
    );
    for node in lab.nodes() {
        wait_until("the end of the run", LIMIT, || !runs(node));
        wait_until("the end of the sentinels and the agent", LIMIT, || {
            node.processes(PROGRAM).is_empty()
        });
    }
    drop(console);
}
