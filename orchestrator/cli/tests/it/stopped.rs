//! Ctrl-C once finishes the run under way; twice stops at once.

use crate::common::scripted;
use cvc_testkit::{Tool, require, wait_until};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn once_finishes_the_run_under_way_and_leaves_the_rest() {
    require!(Tool::Mpich);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let c = scripted("once", "sleep 0.6; echo SUCCESS", "repeats = 3");
        let controller = c.start(&["run", "campaign.toml"]);
        wait_until("the first run", 20 * SECOND, || !c.events("run-started").is_empty());
        controller.signal(signal);
        let said = controller.wait(20 * SECOND).expect(130);
        assert!(said.stderr.contains("stopping after the run under way") && said.stderr.contains("2 runs are left"), "{}", said.stderr);
        c.assert_whole(1);
        c.assert_nothing_left();
        assert_eq!(c.events("interrupted").len(), 1);
        c.run().expect(0);
        c.assert_whole(3);
    }
}

#[test]
fn twice_stops_at_once_and_nothing_lives_on() {
    require!(Tool::Mpich);
    let c = scripted("twice", "trap '' TERM INT; echo 'Time step 1'; sleep 100 & wait; sleep 100", "repeats = 2");
    let controller = c.start(&["run", "campaign.toml"]);
    wait_until("the program", 20 * SECOND, || c.processes().iter().any(|(_, line)| line.contains("sleep 100")));
    let begin = Instant::now();
    controller.signal(Signal::SIGINT);
    // two signals of one kind that are both pending are one
    std::thread::sleep(SECOND / 4);
    controller.signal(Signal::SIGINT);
    let said = controller.wait(30 * SECOND).expect(130);
    assert!(begin.elapsed() < 5 * SECOND, "it took {:?}", begin.elapsed());
    assert!(said.stderr.contains("stopping now") && said.stderr.contains("2 runs are left"), "{}", said.stderr);
    c.assert_nothing_left();
    assert!(c.finishes().is_empty() && c.events("run-abandoned").len() == 1);
    // what was cut off is done again, and has lost no attempt
    c.put("bin/script.sh", "echo SUCCESS");
    c.run().expect(0);
    c.assert_whole(2);
    assert!(c.events("run-intended").iter().all(|e| e["attempt"] == 1));
}

#[test]
fn before_the_first_run_it_stops_too() {
    require!(Tool::Mpich);
    let c = scripted("early", "sleep 0.2; echo SUCCESS", "repeats = 20");
    for delay_ms in [30, 60, 120] {
        let controller = c.start(&["run", "campaign.toml"]);
        std::thread::sleep(Duration::from_millis(delay_ms));
        controller.signal(Signal::SIGINT);
        controller.wait(20 * SECOND).expect(130);
        c.assert_nothing_left();
    }
}
