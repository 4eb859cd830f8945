//! Tests of a site's head node that is unreachable or whose agent has died.

use crate::cluster_faults::steps::{SECOND, SOON, STEPS, ends, kill_on, scripted, turn};
use cvc_testkit::{Tool, lab::Line, require, wait_until};
use std::time::Duration;

#[test]
fn a_head_out_of_reach_for_half_a_minute_loses_and_doubles_nothing() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let on = scripted(
        2,
        "reach",
        "",
        STEPS,
        "mapping = \"2Nx1P\"",
        "repeats = 2\nretries = 0\ntimeout_s = 600",
    );
    let n1 = on.lab.node("n1");
    let cvc = on.begin();
    on.wait_start(1);
    n1.reachable_from_laptop(false);
    std::thread::sleep(10 * SECOND);
    // the run ends while the head is unreachable, and its results must be collected later
    on.go(1);
    std::thread::sleep(20 * SECOND);
    assert!(on.campaign.finishes().is_empty());
    n1.reachable_from_laptop(true);
    on.wait_start(2);
    // kill the ssh connection itself, on the laptop
    let masters: Vec<_> = on
        .lab
        .processes("cvc-ssh-")
        .into_iter()
        .filter(|p| p.command.starts_with("ssh"))
        .collect();
    assert!(!masters.is_empty(), "cvc keeps a connection");
    for master in masters {
        cvc_testkit::process::signal(master.pid, nix::sys::signal::Signal::SIGKILL);
    }
    on.go(2);
    ends(cvc, 0);
    on.campaign.assert_whole(2);
    assert_eq!(on.starts().len(), 2, "the runs went on meanwhile");
    on.assert_clean(&["n1", "n2"]);
}

#[test]
fn cut_while_a_run_is_brought_it_is_brought_again() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    // the output of a run is fetched with it: 40 MB that cannot be compressed
    let script = "echo \"$CVC_RUN\" >>/shared/starts\nhead -c 30000000 /dev/urandom | od -An -tx1 -w64\necho SUCCESS\n";
    let on = scripted(
        1,
        "bring",
        "",
        script,
        "processes = 1",
        "repeats = 2\nretries = 0\ntimeout_s = 600",
    );
    let n1 = on.lab.node("n1");
    // so slow that fetching takes seconds on any machine
    n1.wire(Line {
        mbit_per_s: Some(160.0),
        ..Line::default()
    });
    let cvc = on.begin();
    for run in 0..2 {
        let size = |on: &crate::common::cluster::OnLab| {
            let names = on
                .campaign
                .run_names()
                .into_iter()
                .filter(|n| n.ends_with(".partial"));
            names
                .filter_map(|n| std::fs::metadata(on.campaign.run_dir(&n).join("stdout")).ok())
                .map(|m| m.len())
                .max()
                .unwrap_or(0)
        };
        wait_until("the beginning of the transfer", SOON, || {
            size(&on) > 100_000 || on.campaign.finishes().len() > run
        });
        assert_eq!(
            on.campaign.finishes().len(),
            run,
            "it was cut in the middle"
        );
        n1.link(false);
        std::thread::sleep(if run == 0 { 12 * SECOND } else { SECOND });
        n1.link(true);
        on.wait_finished(run + 1);
    }
    ends(cvc, 0);
    on.campaign.assert_whole(2);
    assert_eq!(on.starts().len(), 2);
    on.assert_clean(&["n1"]);
}

#[test]
fn a_killed_agent_and_a_restarted_head_cost_no_attempt() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let on = scripted(
        3,
        "agent",
        "",
        STEPS,
        "mapping = \"2Nx1P\"",
        "repeats = 2\nretries = 0\ntimeout_s = 600",
    );
    let cvc = on.begin();
    on.wait_start(1);
    assert_eq!(kill_on(&on.lab, "n1", " agent "), 1);
    on.wait_start(2);
    // one rank on each, not two: the first agent's run was ended
    on.wait_ranks(&["n1", "n2"]);
    on.go(2);
    on.wait_start(3);
    on.lab.node("n1").restart();
    on.wait_start(4);
    on.wait_ranks(&["n1", "n2"]);
    // the agent is killed while a node is away: the next agent works without this node
    on.lab.node("n3").poweroff();
    assert_eq!(kill_on(&on.lab, "n1", " agent "), 1);
    on.wait_start(5);
    on.go(5);
    let output = ends(cvc, 0);
    assert!(
        output.stderr.contains("the agent is gone"),
        "{}",
        output.stderr
    );
    on.campaign.assert_whole(2);
    assert!(
        on.campaign
            .events("run-intended")
            .iter()
            .all(|e| e["attempt"] == 1)
    );
    assert_eq!(
        on.start_counts()
            .into_values()
            .collect::<Vec<_>>()
            .iter()
            .sum::<usize>(),
        5
    );
    // the killed agent's ssh waits for the node as long as for a busy one: 48 s here
    wait_until(
        "the end of connections to n3",
        Duration::from_secs(90),
        || on.lab.node("n1").processes("sentinel").is_empty(),
    );
    on.assert_clean(&["n1", "n2"]);
}

#[test]
fn a_head_with_another_key_is_refused() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let on = scripted(2, "key", "", STEPS, "mapping = \"2Nx1P\"", "repeats = 1");
    on.go_all();
    on.lab.node("n1").restart_with_new_key();
    let output = ends(on.begin(), 4);
    assert!(
        output.stderr.contains("its host key has changed")
            && output.stderr.contains("ssh-keygen -R"),
        "{}",
        output.stderr
    );
    assert!(on.starts().is_empty() && on.campaign.events("run-intended").is_empty());
    on.assert_clean(&["n1", "n2"]);
    // the same applies to a node of which the head knows another key
    let on = scripted(2, "key2", "", STEPS, "mapping = \"2Nx1P\"", "repeats = 1");
    on.go_all();
    // the file is shared by all nodes and mounted, so it must be changed in place
    let other = "ssh-keygen -q -t ed25519 -N '' -f /tmp/k; key=$(cut -d' ' -f1,2 /tmp/k.pub); known=/etc/ssh/ssh_known_hosts
        sed \"s#^\\(n2[^ ]*\\) .*#\\1 $key#\" $known >/tmp/known; cat /tmp/known >$known; rm /tmp/k*";
    on.lab.node("n1").shell(other);
    let output = ends(on.begin(), 4);
    assert!(
        output.stderr.contains("n2")
            && output
                .stderr
                .contains("the host's key differs from the known one"),
        "{}",
        output.stderr
    );
    assert!(on.starts().is_empty());
    on.assert_clean(&["n1", "n2"]);
}
