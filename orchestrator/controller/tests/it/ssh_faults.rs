//! What networks and laptops do to connections.

use crate::common::laptop;

use camino::Utf8Path;
use cvc_controller::ssh::Notice;
use cvc_engine::host::{Host, HostError};
use cvc_testkit::{Tool, lab::Line, require};
use laptop::{Site, argv, sh};
use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

fn kill(pid: u32) {
    cvc_testkit::process::signal(i32::try_from(pid).expect("a process"), nix::sys::signal::Signal::SIGKILL);
}

#[test]
fn a_cut_of_some_seconds_is_survived_by_the_same_connection() {
    require!(Tool::Lab);
    let site = Site::new(1, false);
    let (host, heard) = site.host("n1");
    site.run(|| async {
        host.connect().await.expect("connects");
        let running = {
            let host = host.clone();
            tokio::spawn(async move { sh(&host, "sleep 6; echo done").await })
        };
        tokio::time::sleep(Duration::from_millis(500)).await;
        site.lab.node("n1").link(false);
        tokio::time::sleep(Duration::from_secs(3)).await;
        site.lab.node("n1").link(true);
        assert_eq!(running.await.expect("no panic").expect("runs on"), "done\n0");
    });
    assert!(!heard.lock().expect("no panic").iter().any(|n| matches!(n, Notice::Lost { .. })), "{heard:?}");
}

#[test]
fn silence_is_noticed_and_what_ran_is_lost_not_hanging() {
    require!(Tool::Lab);
    let site = Site::new(1, false);
    let (host, heard) = site.host("n1");
    site.run(|| async {
        host.connect().await.expect("connects");
        let running = {
            let host = host.clone();
            tokio::spawn(async move { sh(&host, "sleep 15").await })
        };
        tokio::time::sleep(Duration::from_millis(500)).await;
        site.lab.node("n1").link(false);
        let begin = Instant::now();
        let lost = running.await.expect("no panic").expect_err("is lost");
        assert!(begin.elapsed() < Duration::from_secs(11), "{:?}", begin.elapsed());
        assert!(matches!(&lost, HostError::Lost { during, .. } if during.contains("sleep 15")), "{lost:?}");
        // the next one waits until the node is back
        let next = {
            let host = host.clone();
            tokio::spawn(async move { sh(&host, "hostname").await })
        };
        tokio::time::sleep(Duration::from_secs(3)).await;
        site.lab.node("n1").link(true);
        assert_eq!(next.await.expect("no panic").expect("runs"), "n1\n0");
        // and one that is away for good is given up in time
        host.set_patience(Duration::from_secs(4));
        site.lab.node("n1").poweroff();
        host.disconnect().await;
        let begin = Instant::now();
        let gone = sh(&host, "true").await.expect_err("is away");
        assert!(matches!(gone, HostError::Lost { .. } | HostError::Unreachable { .. }), "{gone:?}");
        assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
    });
    let heard = heard.lock().expect("no panic");
    assert!(heard.iter().any(|n| matches!(n, Notice::Back { .. })), "{heard:?}");
}

#[test]
fn a_killed_sshd_loses_the_command_and_is_waited_for() {
    require!(Tool::Lab);
    let site = Site::new(1, false);
    let (host, _) = site.host("n1");
    site.run(|| async {
        host.connect().await.expect("connects");
        let running = {
            let host = host.clone();
            tokio::spawn(async move { sh(&host, "sleep 30").await })
        };
        tokio::time::sleep(Duration::from_millis(500)).await;
        site.lab.node("n1").sshd_kill();
        let lost = running.await.expect("no panic").expect_err("is lost");
        assert!(matches!(lost, HostError::Lost { .. }), "{lost:?}");
        let next = {
            let host = host.clone();
            tokio::spawn(async move { sh(&host, "hostname").await })
        };
        tokio::time::sleep(Duration::from_secs(2)).await;
        site.lab.node("n1").sshd_start();
        assert_eq!(next.await.expect("no panic").expect("runs"), "n1\n0");
        // what may be repeated is repeated, unseen
        let asked = {
            let host = host.clone();
            tokio::spawn(async move { host.ask(&argv(&["sh", "-c", "sleep 2; echo x"]), &BTreeMap::new(), Duration::from_secs(20)).await })
        };
        tokio::time::sleep(Duration::from_millis(500)).await;
        kill(host.connection_pid().await.expect("is connected"));
        assert_eq!(asked.await.expect("no panic").expect("runs").stdout, "x\n");
    });
}

#[test]
fn a_killed_master_is_made_anew_and_never_gone_around() {
    require!(Tool::Lab);
    let site = Site::new(1, false);
    let (host, heard) = site.host("n1");
    let big = vec![7u8; 40 << 20];
    let local = site.dir.join("big");
    fs::write(&local, &big).expect("writes");
    site.run(|| async {
        host.connect().await.expect("connects");
        let before = host.connection_pid().await.expect("is connected");
        kill(before);
        assert_eq!(sh(&host, "hostname").await.expect("runs"), "n1\n0");
        assert_ne!(host.connection_pid().await, Some(before));
        // in the middle of a file: it comes whole nevertheless, and nothing lies beside it
        site.lab.node("n1").wire(Line { delay: Duration::from_millis(5), loss: 0.0, mbit_per_s: Some(80.0) });
        let sending = {
            let (host, local) = (host.clone(), local.clone());
            tokio::spawn(async move {
                let mut told = 0;
                let sent = host.upload(&local, "/tmp/big", 0o644, &mut |_| told += 1).await;
                (sent, told)
            })
        };
        tokio::time::sleep(Duration::from_secs(3)).await;
        kill(host.connection_pid().await.expect("is connected"));
        let (sent, told) = sending.await.expect("no panic");
        sent.expect("arrives");
        assert!(told > 2, "progress was told {told} times");
        assert_eq!(host.get(Utf8Path::new("/tmp/big")).await.expect("gets").len(), big.len());
        cvc_testkit::wait_until("the torn file to go", Duration::from_secs(10), || site.lab.node("n1").shell("ls -A /tmp").trim() == "big");
    });
    assert!(heard.lock().expect("no panic").iter().filter(|n| matches!(n, Notice::Back { .. })).count() >= 2);
}

#[test]
fn nothing_stays_when_the_controller_is_gone() {
    require!(Tool::Lab);
    let site = Site::new(1, false);
    let (host, _) = site.host("n1");
    site.run(|| async {
        host.connect().await.expect("connects");
        let pipe = host.pipe(&argv(&["cat"])).await.expect("starts");
        drop(pipe);
    });
    drop(host);
    let node = site.lab.node("n1");
    cvc_testkit::wait_until("the end of all sessions", Duration::from_secs(10), || {
        node.processes("sshd: root@").is_empty() && node.processes("cat").is_empty()
    });
}
