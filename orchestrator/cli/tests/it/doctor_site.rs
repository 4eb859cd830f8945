//! Tests of `cvc doctor SITE` on nodes of a lab: what is right, and what is wrong, with its hint.

use cvc_testkit::{
    Lab, Tool,
    lab::{Node, output_within},
    require,
};
use serde_json::Value;
use std::{fs, path::Path, time::Duration};

/// Writes a campaign on the nodes of a lab, into a directory that the lab's laptop sees.
fn write(lab: &Lab, site: &str) {
    let text = format!(
        "schema = 1\nname = \"far\"\n[sites.lab]\nkind = \"ssh\"\n{site}\n[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = \"2Nx1P\"\n"
    );
    fs::write(lab.directory().join("far.toml"), text).expect("writes");
}

/// Returns standard output, standard error and exit code of `cvc` on the laptop.
fn cvc(lab: &Lab, args: &[&str]) -> (String, String, Option<i32>) {
    let mut command = lab.command(env!("CARGO_BIN_EXE_cvc"));
    command.args(args).current_dir(lab.directory());
    let out = output_within(command, Duration::from_secs(240));
    (
        String::from_utf8_lossy(&out.stdout).into_owned(),
        String::from_utf8_lossy(&out.stderr).into_owned(),
        out.status.code(),
    )
}

fn checks(lab: &Lab, code: i32) -> Vec<Value> {
    let (stdout, stderr, ended) = cvc(lab, &["doctor", "lab", "--json"]);
    assert_eq!(ended, Some(code), "{stdout}\n{stderr}");
    let value: Value = serde_json::from_str(&stdout).expect("JSON");
    value["clusters"]["lab"].as_array().expect("checks").clone()
}

#[track_caller]
fn find<'a>(checks: &'a [Value], what: &str) -> (&'a str, &'a str, &'a str) {
    let check = checks
        .iter()
        .find(|c| c["what"] == what)
        .unwrap_or_else(|| panic!("no check `{what}`: {checks:#?}"));
    let text = |key: &str| check[key].as_str().unwrap_or_default();
    (text("state"), text("found"), text("hint"))
}

/// Returns the installation prefix of a launcher.
fn prefix(launcher: &Path) -> &Path {
    launcher
        .parent()
        .and_then(Path::parent)
        .expect("bin below a prefix")
}

fn nothing_is_left(lab: &Lab) {
    for node in lab.nodes().filter(|n| n.is_up()) {
        assert_eq!(
            node.shell("ls -A ~/.cvc /shared /scratch-local 2>/dev/null | grep doctor || :"),
            "",
            "{}",
            node.name()
        );
    }
    assert!(
        lab.processes("doctor-").is_empty(),
        "{:?}",
        lab.processes("doctor-")
    );
}

#[test]
fn a_sound_site_passes_every_check() {
    require!(Tool::Lab, Tool::Mpich5);
    let lab = Lab::builder().nodes(3).build();
    let mpich = Tool::Mpich5.find().expect("found before");
    write(
        &lab,
        &format!(
            "hosts = [\"n1\", \"n2\", \"n3\"]\ninterface = \"eth0\"\nstorage.shared = {{ path = \"/shared\", kind = \"shared\" }}\nstorage.own = {{ path = \"/scratch-local\" }}\nmpi.mpich = {{ family = \"mpich\", prefix = \"{}\" }}",
            prefix(&mpich).display()
        ),
    );
    let all = checks(&lab, 0);
    for check in &all {
        let fine = check["state"] == "good"
            || check["what"] == "DMTCP"
            || check["what"]
                .as_str()
                .is_some_and(|w| w.starts_with("free space"));
        assert!(fine, "{check}");
    }
    assert_eq!(
        find(&all, "MPI between nodes: mpich").1,
        "two ranks on n1 and n2"
    );
    assert!(
        find(&all, "ssh between nodes")
            .1
            .starts_with("9 connections"),
        "{all:#?}"
    );
    assert!(find(&all, "clocks").1.contains("n3 "), "{all:#?}");
    assert_eq!(all.iter().filter(|c| c["what"] == "host key").count(), 3);
    assert!(
        all.iter().any(|c| c["what"] == "host key"
            && c["found"]
                .as_str()
                .is_some_and(|f| f.contains("known from"))),
        "{all:#?}"
    );
    let pinned =
        fs::read_to_string(lab.home().join(".config/cvc/known_hosts/lab")).expect("pinned keys");
    assert_eq!(pinned.lines().count(), 3, "{pinned}");
    nothing_is_left(&lab);
    // with the campaign file alone, checks this machine and then its sites
    let (stdout, stderr, code) = cvc(&lab, &["doctor", "far.toml"]);
    assert!(
        stdout.contains("\nsite lab\n") && stdout.contains("ok  ssh between nodes"),
        "{code:?} {stdout}\n{stderr}"
    );
    let (_, stderr, code) = cvc(&lab, &["doctor", "nowhere", "--file", "far.toml"]);
    assert!(
        code == Some(2)
            && stderr.contains("no site `nowhere`")
            && stderr.contains("its sites: lab"),
        "{stderr}"
    );
}

/// Makes the two nodes differ in software and settings.
fn spoil(first: &Node, second: &Node) {
    second.shell("mkdir -p /opt/only-here; mv ~/.ssh/id_ed25519 ~/.ssh/away");
    first.shell("mkdir -p /scratch-local/x; rm -rf /srv/base; echo x >/srv/base");
}

#[test]
fn problems_are_reported_with_their_hints() {
    require!(Tool::Lab, Tool::OpenMpi);
    let lab = Lab::builder().nodes(3).build();
    spoil(lab.node("n1"), lab.node("n2"));
    lab.node("n3").poweroff();
    write(
        &lab,
        "hosts = [\"n1\", \"n2\", \"n3\"]\nbase = \"/srv/base\"\napp_dirs = [\"/opt/only-here\"]\nstorage.declared-shared = { path = \"/scratch-local\", kind = \"shared\" }\nstorage.declared-own = { path = \"/shared\" }\nmpi.openmpi = { family = \"openmpi\" }\nmpi.none = { family = \"mpich\", prefix = \"/no/such/place\" }",
    );
    let all = checks(&lab, 4);
    let bad = |what: &str, found: &str, hint: &str| {
        let (state, output, way) = find(&all, what);
        assert!(
            state == "bad" && output.contains(found) && way.contains(hint),
            "{what}: {state} {output} | {way}"
        );
    };
    let away = all
        .iter()
        .find(|c| c["what"] == "connection" && c["host"] == "n3")
        .expect("is told");
    assert!(
        away["state"] == "bad" && away["hint"].as_str().is_some_and(|m| !m.is_empty()),
        "{away}"
    );
    bad(
        "path: base",
        "n1: /srv/base is missing",
        "create it on all nodes",
    );
    bad(
        "path: app_dirs /opt/only-here",
        "n1: /opt/only-here is missing; n2: /opt/only-here",
        "create it on all nodes",
    );
    bad("ssh between nodes", "n2 to n1: ", "authorized_keys");
    bad(
        "storage declared-shared",
        "n2 do not see what n1 writes",
        "node-local",
    );
    bad(
        "storage declared-own",
        "n2 see what n1 writes",
        "kind = \"shared\"",
    );
    bad("path: mpi none", "/no/such/place is missing", "create it");
    assert_eq!(find(&all, "MPI library none").0, "doubtful");
    let (stdout, _, code) = cvc(&lab, &["doctor", "lab"]);
    assert_eq!(code, Some(4));
    assert!(
        stdout.contains("--  storage declared-own")
            && stdout.contains("hint: set `kind = \"shared\"`"),
        "{stdout}"
    );
    nothing_is_left(&lab);
}

#[test]
fn a_clock_that_is_wrong_is_noticed() {
    require!(Tool::Lab);
    let lab = Lab::builder().nodes(2).build();
    // replace `date`, because the clock of a machine may not be changed
    let real = lab.node("n2").shell("command -v date").trim().to_owned();
    lab.node("n2").shell(&format!("printf '#!/bin/sh\\nexec {real}.real -d \"+3 sec\" \"$@\"\\n' >/tmp/date; cp {real} {real}.real; chmod 755 /tmp/date; mv /tmp/date {real}"));
    write(
        &lab,
        "hosts = [\"n1\", \"n2\"]\nmpi.none = { family = \"mpich\", prefix = \"/no/such/place\" }",
    );
    let (stdout, stderr, _) = cvc(&lab, &["doctor", "lab", "--json"]);
    let value: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{e}: {stdout}{stderr}"));
    let all = value["clusters"]["lab"].as_array().expect("checks");
    let (state, found, hint) = find(all, "clocks");
    assert!(
        state == "doubtful"
            && found.contains("n2 +")
            && !found.contains("n1 ")
            && hint.contains("chronyd"),
        "{state} {found}"
    );
}
