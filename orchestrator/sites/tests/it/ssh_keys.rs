//! Tests of host keys, which are trusted, pinned or refused, and of logins, which are permitted or refused.

use crate::common::laptop;

use cvc_core::hosts::HostKeys;
use cvc_engine::host::{HostError, Obstacle};
use cvc_sites::ssh::{HostNotice, PATIENCE, SshHost};
use cvc_testkit::{Tool, lab::Node, require};
use laptop::{Site, listened, sh};
use std::{fs, time::Instant};

fn fingerprint(node: &Node) -> String {
    node.shell("ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key | cut -d' ' -f2")
        .trim()
        .to_owned()
}

#[test]
fn a_key_that_the_user_knows_is_pinned_and_then_counts_alone() {
    require!(Tool::Lab);
    let site = Site::new(1, false);
    let node = site.lab.node("n1");
    let (first, heard) = site.host("n1");
    site.run(|| async { first.connect().await.expect("connects") });
    drop(first);
    let known = site.dir.join(".ssh/known_hosts");
    let told = heard.lock().expect("no panic").clone();
    let pinned = HostNotice::Pinned {
        host: "10.77.0.11".into(),
        fingerprint: fingerprint(node),
        vouched_by: Some(known.to_string()),
        file: site.pinned(),
    };
    assert_eq!(told, [pinned]);
    assert_eq!(
        fs::read_to_string(site.pinned())
            .expect("a file")
            .lines()
            .count(),
        1
    );

    // the pinned key is enough without the user's file, and is not pinned again
    fs::remove_file(&known).expect("removes");
    let (second, heard) = site.host("n1");
    site.run(|| async { second.connect().await.expect("connects") });
    assert!(heard.lock().expect("no panic").is_empty(), "{heard:?}");
    drop(second);

    // another machine at this address is refused, even if the user's own file contains its key
    let before = fingerprint(node);
    node.restart_with_new_key();
    fs::write(&known, "").expect("writes");
    site.lab.trust(node);
    for policy in [HostKeys::Strict, HostKeys::AcceptNew] {
        let host = SshHost::new(site.target("n1", policy));
        let refused = site.run(|| async { host.connect().await.expect_err("is refused") });
        let HostError::KeyChanged(changed) = &refused else {
            panic!("{refused:?}")
        };
        assert_eq!(
            (&changed.known, &changed.offered),
            (&before, &fingerprint(node))
        );
        assert_eq!(
            (changed.file.as_str(), changed.line, changed.name.as_str()),
            (site.pinned().as_str(), 1, "10.77.0.11")
        );
        let text = format!("{refused} {}", refused.hint().expect("a hint"));
        assert!(
            text.contains("n1: its host key has changed")
                && text.contains(&format!("ssh-keygen -R '10.77.0.11' -f {}", site.pinned())),
            "{text}"
        );
    }
    // following the hint corrects the error
    let fixed = site.lab.exec(&[
        "ssh-keygen",
        "-R",
        "10.77.0.11",
        "-f",
        site.pinned().as_str(),
    ]);
    assert!(fixed.status.success(), "{fixed:?}");
    let (third, heard) = site.host("n1");
    site.run(|| async { third.connect().await.expect("connects") });
    assert_eq!(heard.lock().expect("no panic").len(), 1);
}

#[test]
fn a_changed_key_in_the_users_own_file_is_reported_with_its_line() {
    require!(Tool::Lab);
    let site = Site::new(2, false);
    let node = site.lab.node("n2");
    let before = fingerprint(node);
    node.restart_with_new_key();
    let host = SshHost::new(site.target("n2", HostKeys::AcceptNew));
    let refused = site.run(|| async { host.connect().await.expect_err("is refused") });
    let HostError::KeyChanged(changed) = &refused else {
        panic!("{refused:?}")
    };
    let known = site.dir.join(".ssh/known_hosts");
    let line = fs::read_to_string(&known)
        .expect("a file")
        .lines()
        .position(|l| l.starts_with("n2,"))
        .expect("is there")
        + 1;
    assert_eq!(
        (changed.file.as_str(), changed.line, &changed.known),
        (known.as_str(), line, &before)
    );
    assert!(!site.pinned().exists());
}

#[test]
fn an_unknown_key_is_refused_or_pinned_as_the_site_says() {
    require!(Tool::Lab);
    let site = Site::new(1, false);
    fs::write(site.dir.join(".ssh/known_hosts"), "").expect("writes");
    let (host, _) = site.host("n1");
    let refused = site.run(|| async { host.connect().await.expect_err("is refused") });
    let HostError::KeyUnknown {
        offered,
        files,
        name,
        ..
    } = &refused
    else {
        panic!("{refused:?}")
    };
    assert_eq!(*offered, fingerprint(site.lab.node("n1")));
    assert_eq!(
        *files,
        [
            site.pinned().into_string(),
            site.dir.join(".ssh/known_hosts").into_string()
        ]
    );
    assert_eq!(name, "10.77.0.11");
    let (believing, heard) = listened(site.target("n1", HostKeys::AcceptNew));
    site.run(|| async { believing.connect().await.expect("connects") });
    let told = heard.lock().expect("no panic").clone();
    assert!(
        matches!(
            told.as_slice(),
            [HostNotice::Pinned {
                vouched_by: None,
                ..
            }]
        ),
        "{told:?}"
    );
    assert!(
        told[0].to_string().contains("accepted unknown host key"),
        "{}",
        told[0]
    );
    // the user's own file is never changed
    assert_eq!(
        fs::read_to_string(site.dir.join(".ssh/known_hosts")).expect("a file"),
        ""
    );
    let (strict, _) = site.host("n1");
    site.run(|| async { strict.connect().await.expect("is pinned now") });
}

#[test]
fn the_site_may_have_a_known_hosts_file_of_its_own() {
    require!(Tool::Lab);
    let site = Site::new(1, false);
    fs::rename(
        site.dir.join(".ssh/known_hosts"),
        site.dir.join("keys of the site"),
    )
    .expect("moves");
    let mut target = site.target("n1", HostKeys::Strict);
    target.ssh.known_hosts = Some(site.dir.join("keys of the site").into_string());
    let (host, heard) = listened(target);
    site.run(|| async { host.connect().await.expect("connects") });
    assert!(
        matches!(heard.lock().expect("no panic").as_slice(), [HostNotice::Pinned { vouched_by: Some(by), .. }] if by.ends_with("keys of the site")),
        "{heard:?}"
    );
}

#[test]
fn a_jump_host_is_checked_and_pinned_as_well() {
    require!(Tool::Lab);
    let site = Site::new(1, true);
    site.lab.node("n1").reachable_from_laptop(false);
    site.configure("Host n1\n    ProxyJump login");
    let (host, heard) = site.host("n1");
    let output = site.run(|| async {
        sh(&host, "hostname; echo $SSH_CLIENT | cut -d' ' -f1")
            .await
            .expect("runs")
    });
    assert_eq!(output, "n1\n10.77.0.10\n0");
    assert_eq!(heard.lock().expect("no panic").len(), 2, "{heard:?}");
    drop(host);
    site.lab.login().restart_with_new_key();
    site.lab.trust(site.lab.login());
    let (host, _) = site.host("n1");
    let refused = site.run(|| async { host.connect().await.expect_err("is refused") });
    assert!(
        matches!(&refused, HostError::KeyChanged(changed) if changed.name == "10.77.0.10"),
        "{refused:?}"
    );
    let text = refused.to_string();
    assert!(
        text.contains("n1: its host key has changed: `10.77.0.10` offers"),
        "{text}"
    );
}

#[test]
fn who_is_not_let_in_learns_which_keys_were_tried() {
    require!(Tool::Lab);
    let site = Site::new(1, true);
    let key = site.dir.join("wrong key");
    let made = site.lab.exec(&[
        "ssh-keygen",
        "-q",
        "-t",
        "ed25519",
        "-N",
        "",
        "-f",
        key.as_str(),
    ]);
    assert!(made.status.success(), "{made:?}");
    let mut target = site.target("n1", HostKeys::Strict);
    target.entry.identity_file = Some(key.to_string());
    target.entry.user = Some("ada".into());
    // the user's key can also be named in the ssh configuration
    fs::write(
        site.config(),
        fs::read_to_string(site.config())
            .expect("reads")
            .replace("    IdentityFile", "    #"),
    )
    .expect("writes");
    let refused = site.run(|| async {
        SshHost::new(target)
            .connect()
            .await
            .expect_err("is refused")
    });
    let HostError::Denied {
        user,
        keys,
        methods,
        host,
    } = &refused
    else {
        panic!("{refused:?}")
    };
    assert_eq!(
        (host.as_str(), user.as_str(), keys.as_slice()),
        ("n1", "ada", [key.to_string()].as_slice())
    );
    assert!(methods.contains("publickey"), "{methods}");
    // the jump host also refuses the user
    site.configure("Host n1\n    ProxyJump nobody@login\nHost login\n    User nobody");
    let (host, _) = site.host("n1");
    let refused = site.run(|| async { host.connect().await.expect_err("is refused") });
    assert!(
        matches!(&refused, HostError::Denied { host, user, .. } if host == "n1, by way of login" && user == "nobody"),
        "{refused:?}"
    );
}

#[test]
fn an_unreachable_host_is_reported_at_once_with_the_reason() {
    require!(Tool::Lab);
    let site = Site::new(2, true);
    site.lab.node("n1").sshd_stop();
    site.lab.node("n2").poweroff();
    site.configure("Host nowhere\n    HostName no.such.host.invalid\nHost jumped\n    HostName 10.77.0.11\n    ProxyJump login\nHost none\n    HostName 192.0.2.1");
    for (name, obstacle) in [
        ("nowhere", Obstacle::Name),
        ("n1", Obstacle::Refused),
        ("n2", Obstacle::Silence),
        ("none", Obstacle::NoRoute),
        ("jumped", Obstacle::Refused),
    ] {
        let (host, _) = site.host(name);
        let begin = Instant::now();
        let error = site.run(|| async { host.connect().await.expect_err("does not answer") });
        assert!(
            begin.elapsed() < PATIENCE * 3 / 4,
            "{name} was waited for as for a lost one: {:?}",
            begin.elapsed()
        );
        assert!(
            matches!(&error, HostError::Unreachable { cause, .. } if *cause == obstacle || (name == "n2" && *cause == Obstacle::NoRoute)),
            "{name}: {error:?}"
        );
        assert!(error.is_transient() && error.hint().is_some());
    }
}
