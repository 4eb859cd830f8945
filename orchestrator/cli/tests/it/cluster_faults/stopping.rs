//! Tests of Ctrl-C, and of a campaign whose file was edited.

use crate::cluster_faults::steps::{
    SECOND, SOON, STEPS, ends, interrupt, interrupt_twice, scripted, turn,
};
use cvc_testkit::{Tool, require, wait_until};

#[test]
fn once_finishes_the_run_twice_cuts_it_off_and_both_leave_nothing_there() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let on = scripted(
        2,
        "ctrl-c",
        "",
        STEPS,
        "mapping = \"2Nx1P\"",
        "repeats = 3\nretries = 0\ntimeout_s = 600",
    );
    let cvc = on.begin();
    on.wait_start(1);
    interrupt(&cvc);
    std::thread::sleep(SECOND);
    assert!(on.script_on("n2") > 0, "the run goes on");
    on.go(1);
    let output = ends(cvc, 130);
    assert!(
        output.stderr.contains("2 runs are left"),
        "{}",
        output.stderr
    );
    on.campaign.assert_whole(1);
    on.assert_clean(&["n1", "n2"]);

    let cvc = on.begin();
    on.wait_start(2);
    interrupt_twice(&cvc);
    let output = ends(cvc, 130);
    assert!(
        output.stderr.contains("2 runs are left"),
        "{}",
        output.stderr
    );
    on.campaign.assert_whole(1);
    on.assert_clean(&["n1", "n2"]);

    // the controller was killed and the file edited: the agent that uses the old file is closed first
    let cvc = on.begin();
    on.wait_start(3);
    cvc.kill();
    on.set_script(&STEPS.replace("echo SUCCESS", "echo 'the new one'; echo SUCCESS"));
    let cvc = on.begin();
    on.wait_start(4);
    // one rank on each, not two: the old run was ended
    on.wait_ranks(&["n1", "n2"]);
    on.go_all();
    let output = ends(cvc, 0);
    assert!(
        output.stderr.contains("its old agent is closed"),
        "{}",
        output.stderr
    );
    on.assert_runs(on.campaign.finishes().len());
    assert_eq!(on.start_counts().values().sum::<usize>(), on.starts().len());
    on.assert_clean(&["n1", "n2"]);
}

#[test]
fn while_lost_nodes_are_waited_for_it_stops_at_once() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let on = scripted(
        2,
        "waiting",
        "",
        STEPS,
        "mapping = \"2Nx1P\"",
        "repeats = 1\nretries = 1\ntimeout_s = 600",
    );
    let cvc = on.begin();
    on.wait_start(1);
    on.lab.node("n2").kill();
    on.wait_finished(1);
    wait_until("it to wait", SOON, || {
        cvc.stderr_so_far().contains("waiting for lost nodes")
    });
    interrupt(&cvc);
    let output = ends(cvc, 130);
    assert!(output.stderr.contains("1 run is left"), "{}", output.stderr);
    on.assert_clean(&["n1"]);
}
