//! Tests of Ctrl-C at each stage.

use super::{AT_ONCE, ONE, ends, scripted, steps};
use crate::cluster_faults::steps::{SECOND, controller_below, interrupt, interrupt_twice, turn};
use cvc_testkit::{Cloud, Tool, process, require, wait_until};
use nix::sys::signal::Signal;
use std::process::Stdio;

#[test]
fn while_instances_boot_and_while_they_are_set_up_nothing_is_left() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    // two instances, because a single one needs hardly any set-up
    let cloud = scripted(
        Cloud::builder(),
        "early",
        2,
        "",
        AT_ONCE,
        &ONE.replace("1Nx1P", "2Nx1P"),
    );
    cloud.cloud.never_reachable(1);
    let cvc = cloud.on.begin();
    wait_until("an instance that is waited for", 60 * SECOND, || {
        cloud.alive().iter().any(|i| i.state == "running")
    });
    interrupt(&cvc);
    let output = ends(cvc, 130);
    assert!(output.stderr.contains("1 run is left"), "{}", output.stderr);
    assert_eq!(cloud.cloud.instances().len(), 2);
    cloud.assert_over();

    let cvc = cloud.on.begin();
    wait_until("the set-up", 60 * SECOND, || {
        cvc.stderr_so_far().contains("2 instances ready after")
    });
    wait_until("Ansible", 60 * SECOND, || {
        cloud
            .on
            .campaign
            .processes()
            .iter()
            .any(|(_, command)| command.contains("ansible-playbook"))
    });
    interrupt(&cvc);
    let output = ends(cvc, 130);
    assert!(output.stderr.contains("1 run is left"), "{}", output.stderr);
    cloud.assert_over();

    cloud.run().expect(0);
    assert_eq!(cloud.cloud.instances().len(), 6);
    cloud.on.campaign.assert_whole(1);
    cloud.assert_over();
}

#[test]
fn in_a_run_once_finishes_it_and_twice_cuts_it_off() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = steps("late", 1, "", &ONE.replace("repeats = 1", "repeats = 2"));
    let cvc = cloud.on.begin();
    cloud.on.wait_start(1);
    interrupt(&cvc);
    wait_until("it to be heard", 20 * SECOND, || {
        cvc.stderr_so_far()
            .contains("stopping after the current run")
    });
    assert!(cloud.on.campaign.finishes().is_empty() && cloud.alive().len() == 1);
    cloud.on.go(1);
    let output = ends(cvc, 130);
    assert!(output.stderr.contains("1 run is left"), "{}", output.stderr);
    cloud.on.campaign.assert_whole(1);
    cloud.assert_over();

    let cvc = cloud.on.begin();
    cloud.on.wait_start(2);
    interrupt_twice(&cvc);
    let output = ends(cvc, 130);
    assert!(output.stderr.contains("1 run is left"), "{}", output.stderr);
    cloud.on.campaign.assert_whole(1);
    cloud.assert_over();

    cloud.on.go_all();
    cloud.run().expect(0);
    cloud.on.campaign.assert_whole(2);
    assert_eq!(cloud.cloud.instances().len(), 3);
    cloud.assert_over();
}

#[test]
fn when_nobody_reads_its_messages_it_stops_as_ever() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = steps("unread", 1, "", &ONE.replace("repeats = 1", "repeats = 2"));
    let mut command = cloud.on.command(&["run", "campaign.toml"]);
    let mut cvc = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let messages = cvc.stderr.take().expect("a pipe");
    wait_until("an instance", 60 * SECOND, || {
        !cloud.on.campaign.events("lease-acquired").is_empty()
    });
    drop(messages);
    cloud.on.wait_start(1);
    process::signal(
        controller_below(i32::try_from(cvc.id()).expect("a process id")),
        Signal::SIGINT,
    );
    cloud.on.go(1);
    let mut ended = None;
    wait_until("its end", 120 * SECOND, || {
        ended = cvc.try_wait().expect("waits");
        ended.is_some()
    });
    assert_eq!(ended.expect("has ended").code(), Some(130));
    cloud.assert_over();
}

#[test]
fn after_a_panic_the_instances_are_given_back() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    for place in ["walk", "connection"] {
        let cloud = steps("panic", 1, "", ONE);
        let output = ends(
            cloud.start_with(&["run", "campaign.toml"], &[("CVC_PANIC_AT", place)]),
            1,
        );
        assert!(
            output
                .stderr
                .contains("internal error (please report): asked to panic"),
            "{place}: {}",
            output.stderr
        );
        assert!(!cloud.cloud.instances().is_empty(), "{place}");
        cloud.assert_over();
    }
}
