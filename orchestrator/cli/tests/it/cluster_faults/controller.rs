//! Tests with `kill -9` of the controller.

use crate::cluster_faults::steps::{SECOND, SOON, STEPS, ends, on_lab, scripted, site, turn};
use cvc_testkit::{Lab, Tool, require, wait_until};
use std::time::Duration;

/// A script that ends soon; only the eighth and last start waits for the test, so that no machine is too fast for the last kill.
const SHORT: &str = "echo \"${CVC_RUN%%@*}\" >>/shared/starts\nsleep 0.3\n\
    [ $(wc -l </shared/starts) -lt 8 ] || until [ -e /shared/go.all ]; do sleep 0.05; done\necho SUCCESS\n";

#[test]
fn killed_at_many_moments_it_resumes_and_no_run_is_begun_twice() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    const RUNS: usize = 16;
    // kernels are compiled on the nodes first
    let text = format!(
        "{}[matrix]\nmpi = \"mpich5\"\n[[points]]\napp = \"script\"\nprocesses = 1\n[[points]]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 1\n\
         [run]\nrepeats = {}\nretries = 0\ntimeout_s = 600\n",
        site(2, ""),
        RUNS / 2
    );
    let on = on_lab(Lab::builder().nodes(2).build(), "moments", &text, SHORT);
    // while it connects, sends the program, starts the agent, and compiles
    for delay in [150, 500, 900, 1500, 2500] {
        let cvc = on.begin();
        std::thread::sleep(Duration::from_millis(delay));
        cvc.kill();
    }
    // during runs, and while results are fetched
    for delay in [0, 30, 120, 250, 400, 550, 700] {
        let before = on.campaign.events("run-intended").len();
        let cvc = on.begin();
        wait_until("a run", SOON, || {
            on.campaign.events("run-intended").len() > before || on.starts().len() == RUNS / 2
        });
        std::thread::sleep(Duration::from_millis(delay));
        cvc.kill();
    }
    assert!(
        on.campaign.finishes().len() < RUNS,
        "the campaign must not be over before the last kill"
    );
    on.go_all();
    ends(on.begin(), 0);
    on.campaign.assert_whole(RUNS);
    assert_eq!(
        on.starts().len(),
        RUNS / 2,
        "the agent went on: {:?}",
        on.start_counts()
    );
    assert!(on.start_counts().values().all(|n| *n == 1));
    assert!(
        on.campaign
            .events("run-intended")
            .iter()
            .all(|e| e["attempt"] == 1)
    );
    on.assert_clean(&["n1", "n2"]);
}

#[test]
fn killed_in_a_run_it_finds_it_again_and_killed_at_the_end_nothing_stays() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let on = scripted(
        2,
        "again",
        "",
        STEPS,
        "mapping = \"2Nx1P\"",
        "repeats = 2\nretries = 0\ntimeout_s = 600",
    );
    let cvc = on.begin();
    on.wait_start(1);
    cvc.kill();
    std::thread::sleep(SECOND);
    assert!(on.script_on("n2") > 0, "the agent goes on");
    let cvc = on.begin();
    wait_until("the second controller", SOON, || {
        on.campaign.events("started").len() == 2
    });
    std::thread::sleep(SECOND);
    on.go(1);
    on.wait_start(2);
    cvc.kill();
    // the run ends while no controller is running
    on.go(2);
    wait_until("its end", SOON, || on.script_on("n1") == 0);
    let cvc = on.begin();
    wait_until("the last run", SOON, || on.campaign.finishes().len() == 2);
    cvc.kill();
    // no run is left: but the processes and files that the killed controller had not removed are removed
    ends(on.begin(), 0);
    on.campaign.assert_whole(2);
    assert_eq!(on.starts().len(), 2);
    on.assert_clean(&["n1", "n2"]);
}
