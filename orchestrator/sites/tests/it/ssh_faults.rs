//! Tests of connections with the faults of networks and laptops.

use crate::common::laptop;

use camino::Utf8Path;
use cvc_engine::host::{Host, HostError};
use cvc_sites::ssh::{HostNotice, PATIENCE};
use cvc_testkit::{Tool, lab::Line, require};
use laptop::{SOON, Site, argv, sh, until};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    time::{Duration, Instant},
};

/// Waits until a command is under way on the node.
async fn until_runs(site: &Site, command: &str) {
    until(command, || {
        !site.lab.node("n1").processes(command).is_empty()
    })
    .await;
}

fn kill(pid: u32) {
    cvc_testkit::process::signal(
        i32::try_from(pid).expect("a process"),
        nix::sys::signal::Signal::SIGKILL,
    );
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
        until_runs(&site, "sleep 6").await;
        site.lab.node("n1").link(false);
        tokio::time::sleep(Duration::from_secs(3)).await;
        site.lab.node("n1").link(true);
        assert_eq!(
            running.await.expect("no panic").expect("runs on"),
            "done\n0"
        );
    });
    assert!(
        !heard
            .lock()
            .expect("no panic")
            .iter()
            .any(|n| matches!(n, HostNotice::Lost { .. })),
        "{heard:?}"
    );
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
            tokio::spawn(async move { sh(&host, "sleep 600").await })
        };
        until_runs(&site, "sleep 600").await;
        site.lab.node("n1").link(false);
        // the connection is lost because of the silence: the remote command continues, and its own time limit would be another error
        let lost = running.await.expect("no panic").expect_err("is lost");
        assert!(
            matches!(&lost, HostError::Lost { during, .. } if during.contains("sleep 600")),
            "{lost:?}"
        );
        // the next command waits until the node is back
        let next = {
            let host = host.clone();
            tokio::spawn(async move { sh(&host, "hostname").await })
        };
        tokio::time::sleep(Duration::from_secs(3)).await;
        site.lab.node("n1").link(true);
        assert_eq!(next.await.expect("no panic").expect("runs"), "n1\n0");
        // waiting for a node that does not return ends at the time limit
        host.set_patience(Duration::from_secs(4));
        site.lab.node("n1").poweroff();
        host.disconnect().await;
        let begin = Instant::now();
        let gone = sh(&host, "true").await.expect_err("is away");
        assert!(
            matches!(gone, HostError::Lost { .. } | HostError::Unreachable { .. }),
            "{gone:?}"
        );
        assert!(
            begin.elapsed() < PATIENCE / 2,
            "that is not the patience that it was given: {:?}",
            begin.elapsed()
        );
    });
    let heard = heard.lock().expect("no panic");
    assert!(
        heard.iter().any(|n| matches!(n, HostNotice::Back { .. })),
        "{heard:?}"
    );
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
        until_runs(&site, "sleep 30").await;
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
        // commands that are safe to repeat are repeated without an error
        let asked = {
            let host = host.clone();
            tokio::spawn(async move {
                host.ask(
                    &argv(&["sh", "-c", "sleep 4; echo x"]),
                    &BTreeMap::new(),
                    Duration::from_secs(20),
                )
                .await
            })
        };
        until_runs(&site, "sleep 4").await;
        kill(host.connection_pid().await.expect("is connected"));
        assert_eq!(asked.await.expect("no panic").expect("runs").stdout, "x\n");
    });
}

/// Returns the length of the largest file in the node's `/tmp`, bytes.
fn bytes_in_tmp(site: &Site) -> u64 {
    let entries = fs::read_dir(site.lab.node("n1").path("/tmp")).expect("the node's /tmp");
    entries
        .flatten()
        .filter_map(|e| Some(e.metadata().ok()?.size()))
        .max()
        .unwrap_or(0)
}

#[test]
fn a_killed_master_is_restarted_and_never_bypassed() {
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
        // the connection is lost in the middle of a file: the file is complete nevertheless, and no temporary file remains
        site.lab.node("n1").wire(Line {
            delay: Duration::from_millis(5),
            loss: 0.0,
            mbit_per_s: Some(80.0),
        });
        let sending = {
            let (host, local) = (host.clone(), local.clone());
            tokio::spawn(async move {
                let mut told = 0;
                let sent = host
                    .upload(&local, "/tmp/big", 0o644, &mut |_| told += 1)
                    .await;
                (sent, told)
            })
        };
        // a part of the file has arrived; progress is reported after 2 s
        until("a part of the file", || bytes_in_tmp(&site) > 4 << 20).await;
        kill(host.connection_pid().await.expect("is connected"));
        let (sent, told) = sending.await.expect("no panic");
        sent.expect("arrives");
        assert!(told > 2, "progress was told {told} times");
        assert_eq!(
            host.get(Utf8Path::new("/tmp/big"))
                .await
                .expect("gets")
                .len(),
            big.len()
        );
    });
    // the old connection still had bytes on the slow line
    site.lab.node("n1").wire(Line::default());
    cvc_testkit::wait_until("the torn file to go", 2 * SOON, || {
        site.lab.node("n1").shell("ls -A /tmp").trim() == "big"
    });
    assert!(
        heard
            .lock()
            .expect("no panic")
            .iter()
            .filter(|n| matches!(n, HostNotice::Back { .. }))
            .count()
            >= 2
    );
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
    cvc_testkit::wait_until("the end of all sessions", SOON, || {
        node.processes("sshd: root@").is_empty() && node.processes("cat").is_empty()
    });
}
