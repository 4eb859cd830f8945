//! Tests of nodes that are lost, temporarily or permanently.

use crate::cluster_faults::steps::{SECOND, SOON, STEPS, ends, scripted, turn};
use cvc_testkit::{Tool, require, wait_until};

#[test]
fn without_sshd_a_run_goes_on_and_later_ones_are_elsewhere() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let on = scripted(
        3,
        "sshd",
        "",
        STEPS,
        "mapping = \"2Nx1P\"",
        "repeats = 3\nretries = 1\ntimeout_s = 600",
    );
    let n2 = on.lab.node("n2");
    let cvc = on.begin();
    on.wait_start(1);
    on.wait_ranks(&["n1", "n2"]);
    n2.sshd_stop();
    std::thread::sleep(SECOND);
    assert!(on.campaign.finishes().is_empty());
    on.go(1);
    // existing sessions continued, but new ones are impossible: the next run fails with that cause, and is repeated without the node
    on.wait_finished(2);
    on.wait_ranks(&["n1", "n3"]);
    let detail = on.only_failure("node-lost");
    assert!(
        detail.contains("n2") && detail.contains("Connection refused"),
        "{detail}"
    );
    n2.sshd_start();
    wait_until("n2", SOON, || {
        cvc.stderr_so_far().contains("node n2 is back")
    });
    let n = on.starts().len();
    on.go(n);
    on.wait_start(n + 1);
    on.wait_ranks(&["n1", "n2"]);
    // now end the sessions as well, and with them their processes
    n2.sshd_kill();
    on.wait_start(n + 2);
    on.wait_ranks(&["n1", "n3"]);
    assert_eq!(on.script_on("n2"), 0);
    n2.sshd_start();
    on.go(n + 2);
    ends(cvc, 0);
    assert!(
        on.campaign
            .failures()
            .iter()
            .all(|(cause, detail)| cause == "node-lost" && detail.contains("n2"))
    );
    assert_eq!(on.campaign.failures().len(), 2);
    on.assert_runs(3);
    on.assert_clean(&["n1", "n2", "n3"]);
}

#[test]
fn a_node_whose_network_is_full_is_busy_and_not_lost() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let on = scripted(
        2,
        "busy",
        "",
        STEPS,
        "mapping = \"2Nx1P\"",
        "repeats = 1\nretries = 0\ntimeout_s = 600",
    );
    let cvc = on.begin();
    on.wait_start(1);
    on.wait_ranks(&["n1", "n2"]);
    // all data from n2 wait 12 s, because a queue stays full: three times as long as a node may be silent
    let (n1, n2) = (on.lab.node("n1").address(), on.lab.node("n2"));
    n2.shell("tc qdisc add dev eth0 root tbf rate 2mbit burst 16kb limit 3mb");
    n2.shell(&format!(
        "timeout -s KILL 25 ssh {n1} 'timeout -s KILL 25 cat >/dev/null' </dev/zero >/dev/null 2>&1 || :"
    ));
    n2.shell("tc qdisc del dev eth0 root");
    assert!(
        on.campaign.finishes().is_empty() && on.script_on("n2") > 0,
        "{:?}",
        on.campaign.failures()
    );
    on.go(1);
    ends(cvc, 0);
    on.campaign.assert_whole(1);
    assert_eq!(on.campaign.events("run-intended").len(), 1);
    on.assert_clean(&["n1", "n2"]);
}

#[test]
fn a_link_that_is_cut_shortly_is_no_matter_and_one_that_stays_cut_costs_an_attempt() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let on = scripted(
        3,
        "link",
        "",
        STEPS,
        "mapping = \"3Nx1P\"",
        "repeats = 1\nretries = 1\ntimeout_s = 600",
    );
    let n2 = on.lab.node("n2");
    let cvc = on.begin();
    on.wait_start(1);
    on.wait_ranks(&["n1", "n2", "n3"]);
    n2.link(false);
    std::thread::sleep(SECOND);
    n2.link(true);
    std::thread::sleep(4 * SECOND);
    assert!(
        on.campaign.finishes().is_empty() && on.script_on("n2") > 0,
        "nothing happened: {:?}",
        on.campaign.failures()
    );
    n2.link(false);
    on.wait_finished(1);
    assert!(
        on.only_failure("node-lost").contains("n2"),
        "{:?}",
        on.campaign.failures()
    );
    assert_eq!(
        (on.script_on("n1"), on.script_on("n3")),
        (0, 0),
        "ranks of the other nodes are ended"
    );
    wait_until("the end of the ranks on the lost node", SOON, || {
        on.script_on("n2") == 0
    });
    n2.link(true);
    on.wait_start(2);
    on.go(2);
    let output = ends(cvc, 0);
    assert!(
        output.stderr.contains("node n2 is back"),
        "{}",
        output.stderr
    );
    on.assert_runs(1);
    assert_eq!(on.starts().len(), 2);
    on.assert_clean(&["n1", "n2", "n3"]);
}

#[test]
fn without_power_points_that_fit_on_the_other_nodes_go_on_and_the_rest_is_given_up() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let run = "repeats = 1\nretries = 1\ntimeout_s = 600\norder = \"as-written\"";
    let on = scripted(
        3,
        "power",
        "",
        STEPS,
        "mapping = [\"3Nx1P\", \"2Nx1P\"]",
        run,
    );
    let cvc = on.begin();
    on.wait_start(1);
    on.wait_ranks(&["n1", "n2", "n3"]);
    on.lab.node("n2").poweroff();
    on.go_all();
    let output = ends(cvc, 0);
    assert!(
        on.only_failure("node-lost").contains("n2"),
        "{:?}",
        on.campaign.failures()
    );
    assert!(
        output.stderr.contains("too few nodes") && output.stderr.contains("n2"),
        "{}",
        output.stderr
    );
    assert_eq!(
        on.campaign.events("points-skipped").len(),
        1,
        "the report tells it, too"
    );
    on.assert_clean(&["n1", "n3"]);
    // after the node's return, nothing is missing
    on.lab.node("n2").restart();
    ends(on.begin(), 0);
    on.assert_runs(2);
    on.assert_clean(&["n1", "n3"]);
}
