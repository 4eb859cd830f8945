//! Tests of file systems that cvc deploys on a lab's nodes as storage of a site: real servers, runs on them, their counters, and the loss of servers.

use crate::common::cluster::{LIMIT, OnLab, ssh_site};
use cvc_testkit::{Finished, Lab, Tool, campaign::read_json, require, wait_until};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

const MOOSEFS: &str = "storage.pfs = { path = \"/mnt/pfs\", kind = \"shared\", count_operations = true, deploy = { file_system = \"moosefs\", \
                       metadata = [\"n3\"], data = [\"n2\", \"n3\"], directory = \"/scratch-local/servers\" } }";
const GLUSTERFS: &str = "storage.pfs = { path = \"/mnt/pfs\", kind = \"shared\", count_operations = true, deploy = { file_system = \"glusterfs\", \
                         data = [\"n2\", \"n3\"], directory = \"/scratch-local/servers\" } }";

/// Kinds of operations that caches do not answer: equal runs have equal counts.
const EXACT: [&str; 6] = ["create", "open", "sync", "close", "rename", "unlink"];

/// Returns a lab and a campaign of the stencil kernel, which writes its own checkpoints.
fn deployed(storage: &str, matrix: &str) -> OnLab {
    let kernel =
        "app = \"kernel-stencil\"\nclass = \"S\"\nmpi = \"mpich5\"\ncheckpointer = \"application\"";
    deployed_with(storage, &format!("{kernel}\n{matrix}"))
}

fn deployed_with(storage: &str, matrix: &str) -> OnLab {
    deployed_on(3, storage, matrix)
}

/// Makes waiting ranks yield their core: all nodes of a lab share one machine's cores.
fn yielding(site: &str) -> String {
    site.replace(
        "family = \"mpich\"",
        "family = \"mpich\"\nenv = { MPIR_CVAR_POLLS_BEFORE_YIELD = \"1\" }",
    )
}

fn deployed_on(nodes: u8, storage: &str, matrix: &str) -> OnLab {
    let lab = Lab::builder().nodes(nodes).scratch_mib(1024).build();
    let text = format!(
        "{}[matrix]\n{matrix}\n",
        yielding(&ssh_site(usize::from(nodes), storage))
    );
    let mut on = OnLab::new(lab, "deployed", &text);
    let ansible = Tool::Ansible.find().expect("the test requires it");
    let path = format!(
        "{}:{}",
        ansible.parent().expect("a directory").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    on.campaign.env("PATH", &path);
    on
}

fn install(on: &OnLab) -> Finished {
    let args = ["install", "lab", "--tags", "storage", "--json"];
    on.start(&args).wait(LIMIT).expect(0)
}

/// Returns the operations of a run by kind.
fn operations(on: &OnLab, run: &str) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for record in on.campaign.records(run) {
        if record["name"] == "metadata_operations" {
            let kind = record["labels"]["kind"]
                .as_str()
                .expect("a kind")
                .to_owned();
            *found.entry(kind).or_default() += record["value"].as_f64().expect("a number");
        }
    }
    found
}

/// Returns the operations of all runs, by layout and mapping.
fn by_point(on: &OnLab) -> BTreeMap<String, Vec<BTreeMap<String, f64>>> {
    let mut found: BTreeMap<String, Vec<BTreeMap<String, f64>>> = BTreeMap::new();
    for run in on.campaign.run_names() {
        let description = read_json(&on.campaign.run_dir(&run).join("run.json"));
        let point = &description["point"];
        let layout = point["layout"].as_str().unwrap_or("strided");
        let name = format!("{layout} {}", point["mapping"].as_str().expect("a mapping"));
        found.entry(name).or_default().push(operations(on, &run));
    }
    found
}

fn assert_gone(on: &OnLab) {
    let down = on
        .start(&["down", "campaign.toml", "--storage"])
        .wait(LIMIT)
        .expect(0);
    assert!(
        down.stderr
            .contains("the file system of the storage area pfs is gone")
            || down
                .stdout
                .contains("the file system of the storage area pfs is gone"),
        "{}{}",
        down.stdout,
        down.stderr
    );
    for name in ["n1", "n2", "n3"] {
        let node = on.lab.node(name);
        for server in [
            "mfsmaster",
            "mfschunkserver",
            "mfsmount",
            "glusterd",
            "glusterfsd",
        ] {
            wait_until("the end of the servers", Duration::from_secs(20), || {
                node.processes(server).is_empty()
            });
        }
        let left =
            node.shell("grep -c ' /mnt/pfs ' /proc/mounts || :; ls -A /mnt /scratch-local || :");
        assert!(
            left.starts_with('0') && !left.contains("pfs") && !left.contains("servers"),
            "{name}: {left}"
        );
    }
}

#[test]
fn moosefs_is_deployed_counts_equal_runs_equally_and_is_taken_down() {
    require!(Tool::MooseFs, Tool::Ansible, Tool::Mpich5);
    let on = deployed(
        MOOSEFS,
        "mapping = [\"1Nx2P\", \"2Nx1P\"]\nlayout = [\"segmented\", \"per-process\"]\n[run]\nrepeats = 2\nretries = 0\ntimeout_s = 300",
    );
    install(&on);
    let again = install(&on);
    let ended = again
        .stdout
        .lines()
        .rfind(|line| line.contains("\"ended\""));
    let ended: Value = serde_json::from_str(ended.expect("an end")).expect("JSON");
    for node in ["n1", "n2", "n3"] {
        assert_eq!(ended["hosts"][node]["changed"], 0, "{}", again.stdout);
    }
    let ran = on.run();
    if ran.code != Some(0) {
        for failed in on.campaign.failures() {
            eprintln!("{failed:?}");
        }
        let outputs = "tail -n 20 campaigns/deployed/runs/*.failed-*/stderr >&2";
        let _ = std::process::Command::new("sh")
            .args(["-c", outputs])
            .current_dir(on.campaign.dir())
            .status();
    }
    ran.expect(0);
    on.campaign.assert_whole(8);
    let points = by_point(&on);
    assert_eq!(points.len(), 4);
    for (name, runs) in &points {
        eprintln!("{name}: {runs:?}");
        for kind in EXACT {
            assert_eq!(runs[0][kind], runs[1][kind], "{kind} of {name}");
        }
        assert!(runs[0]["create"] >= 1.0, "{name}: {:?}", runs[0]);
    }
    // two processes write three checkpoints, alternating between two files
    assert!(points["per-process 2Nx1P"][0]["create"] > points["segmented 2Nx1P"][0]["create"]);
    for run in on.campaign.run_names() {
        let facts = read_json(&on.campaign.run_dir(&run).join("facts.json"));
        let file_system = &facts["file_system"];
        assert_eq!(
            (
                &file_system["type"],
                &file_system["metadata"],
                &file_system["data"]
            ),
            (&"moosefs".into(), &"n3".into(), &"n2 n3".into())
        );
        assert_eq!(facts["operations_unknown"], Value::Null);
    }
    let report = fs::read_to_string(on.campaign.dir().join("reports/deployed/report.md"));
    let report = report.expect("a report");
    for text in ["Layouts of checkpoints", "messages to metadata servers"] {
        assert!(report.contains(text), "{text}: {report}");
    }
    assert_gone(&on);
}

#[test]
fn glusterfs_is_deployed_counts_creates_equally_and_is_taken_down() {
    require!(Tool::Gluster, Tool::Ansible, Tool::Mpich5);
    let on = deployed(
        GLUSTERFS,
        "mapping = \"2Nx1P\"\nlayout = [\"segmented\", \"per-process\"]\n[run]\nrepeats = 2\nretries = 0\ntimeout_s = 300",
    );
    install(&on);
    install(&on);
    on.run().expect(0);
    on.campaign.assert_whole(4);
    for (name, runs) in by_point(&on) {
        eprintln!("{name}: {runs:?}");
        assert!(runs[0]["create"] >= 1.0, "{name}: {runs:?}");
        assert_eq!(runs[0]["create"], runs[1]["create"], "{name}: {runs:?}");
    }
    assert_gone(&on);
}

#[test]
fn another_mount_and_fewer_servers_keep_runs_from_starting() {
    require!(Tool::MooseFs, Tool::Ansible, Tool::Mpich5);
    let on = deployed(
        MOOSEFS,
        "mapping = \"2Nx1P\"\nlayout = \"delegated\"\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 120",
    );
    let said = |finished: Finished| format!("{}{}", finished.stdout, finished.stderr);
    let before = said(on.run());
    assert!(
        before.contains("storage area pfs (/mnt/pfs) is MooseFS, but n1 has"),
        "{before}"
    );
    on.lab
        .node("n2")
        .shell("mkdir -p /mnt/pfs; mount -t tmpfs tmpfs /mnt/pfs");
    let refused = on
        .start(&["install", "lab", "--tags", "storage"])
        .wait(LIMIT);
    assert_eq!(refused.code, Some(5), "{}", refused.stderr);
    let refused = said(refused);
    assert!(
        refused.contains("/mnt/pfs has tmpfs from tmpfs mounted, not moosefs"),
        "{refused}"
    );
    on.lab.node("n2").shell("umount /mnt/pfs");
    install(&on);
    on.lab
        .node("n2")
        .shell("mfschunkserver -c /scratch-local/servers/pfs/mfschunkserver.cfg stop");
    let fewer = said(on.run());
    assert!(
        fewer.contains("has 1 of its 2 data servers: none is running on n2"),
        "{fewer}"
    );
    install(&on);
    on.run().expect(0);
    on.campaign.assert_whole(1);
    assert_gone(&on);
}

/// Copies the slides' folder next to the campaign, with its campaign on the lab's nodes and a smaller `matrix` in its variant.
fn put_slides(on: &OnLab, site: &str, matrix: &str) {
    let from = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/papers/pfs-delegation"
    );
    let from = camino::Utf8Path::new(from);
    let to = camino::Utf8PathBuf::from_path_buf(on.campaign.dir().join("pfs-delegation"))
        .expect("UTF-8");
    cvc_core::store::copy_tree(from, &to).expect("copied");
    let file = to.join("campaigns/layouts.toml");
    let text = fs::read_to_string(&file).expect("the campaign");
    let (before, _) = text.split_once("[sites.lab]").expect("the site");
    let (_, rest) = text.split_once("[matrix]").expect("the matrix");
    let (rest, _) = rest
        .split_once("[variants.lab.matrix]")
        .expect("the variant");
    let rest = rest.replace("mpi = \"mpich\"", "mpi = \"mpich5\"");
    let text = format!("{before}{site}\n[matrix]{rest}[variants.lab.matrix]\n{matrix}");
    fs::write(&file, text).expect("written");
}

#[test]
fn the_slides_on_delegation_are_measured_on_both_file_systems() {
    require!(Tool::MooseFs, Tool::Gluster, Tool::Ansible, Tool::Mpich5);
    let servers = "count_operations = true, deploy = { directory = \"/scratch-local/servers\", data = [\"n3\", \"n4\"]";
    let storage = format!(
        "storage.moosefs = {{ path = \"/mnt/moosefs\", kind = \"shared\", {servers}, file_system = \"moosefs\", metadata = [\"n4\"] }} }}\n\
         storage.glusterfs = {{ path = \"/mnt/glusterfs\", kind = \"shared\", {servers}, file_system = \"glusterfs\" }} }}"
    );
    let on = deployed_on(
        4,
        &storage,
        "app = \"kernel-stencil\"\nclass = \"S\"\nmpi = \"mpich5\"\nmapping = \"2Nx1P\"",
    );
    let site = yielding(&ssh_site(4, &storage));
    put_slides(
        &on,
        &site,
        "class = [\"one\", \"nine\"]\nmapping = \"2Nx1P\"\nlayout = [\"delegated\", \"segmented\", \"per-process\"]\n\
         [variants.lab.run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n",
    );
    // only areas into which a campaign writes are deployed
    let file = "pfs-delegation/campaigns/layouts.toml";
    let args = ["install", "lab", "--file", file, "--tags", "storage"];
    on.start(&args).wait(LIMIT).expect(0);
    let args = ["reproduce", "pfs-delegation", "--measure"];
    on.start(&args).wait(LIMIT).expect(0);
    let args = ["reproduce", "pfs-delegation", "--json"];
    let measured = on.start(&args).wait(LIMIT).expect(0);
    let found: Value = serde_json::from_str(&measured.stdout).expect("JSON");
    let claims = found["claims"].as_array().expect("claims");
    let claim = |id: &str| claims.iter().find(|c| c["id"] == id).expect("the claim");
    let fewest = &claim("delegation-fewest")["here"];
    for file_system in ["moosefs", "glusterfs"] {
        assert_eq!(fewest["by"][file_system]["holds"], true, "{fewest:#}");
    }
    let most = claim("per-process-most");
    eprintln!("{most:#}\n{:#}", claim("alike-with-few-clients"));
    assert_eq!(most["print"]["holds"], true);
    assert!(
        most["here"]["by"]["moosefs"]["holds"].is_boolean(),
        "{most:#}"
    );
    let report = fs::read_to_string(
        on.campaign
            .dir()
            .join("reports/papers/pfs-delegation/report.md"),
    );
    let report = report.expect("a report");
    eprintln!("{report}");
    for text in [
        "print: centralized, 128 clients",
        "moosefs: 2 clients, 9 checkpoints",
        "glusterfs: 2 clients, 9 checkpoints",
        "pvfs2, by its law",
        "orangefs is left out",
    ] {
        assert!(report.contains(text), "{text}: {report}");
    }
}

/// Waits until the run writes, kills a server, and returns cause and detail of the failure with its time since the kill.
fn failure_after(on: &OnLab, node: &str, server: &str) -> (String, String, Duration) {
    let running = on.start(&["run", "campaign.toml"]);
    wait_until("the first data of the run", LIMIT, || {
        let found = on
            .lab
            .node("n1")
            .shell("find /mnt/pfs -name 'part.*' -size +1M | head -1");
        !found.is_empty()
    });
    on.lab
        .node(node)
        .shell(&format!("pkill -KILL -x {server} && touch /shared/killed"));
    let killed = Instant::now();
    let ended = running.wait(LIMIT);
    let took = killed.elapsed();
    let failures = on.campaign.failures();
    let last = failures.last().cloned();
    let (cause, detail) =
        last.unwrap_or_else(|| panic!("no failure: {}{}", ended.stdout, ended.stderr));
    (cause, detail, took)
}

#[test]
fn a_run_whose_file_system_loses_a_server_fails_by_this_cause() {
    require!(Tool::MooseFs, Tool::Ansible, Tool::Mpich5);
    let on = deployed_with(
        MOOSEFS,
        "app = \"script\"\nmpi = \"mpich5\"\nmapping = \"2Nx1P\"\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 45",
    );
    // each process reads the other's data, of which the lost server has a half
    on.set_script(
        "mine=$PMI_RANK; other=$((1 - mine))\n\
        for k in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=old.$mine.$k bs=1M count=2 conv=fsync 2>/dev/null || exit 1; done\n\
        dd if=/dev/zero of=part.$mine bs=1M count=4 conv=fsync 2>/dev/null\n\
        until [ -e /shared/killed ]; do sleep 0.2; done\n\
        cat old.$other.* >/dev/null || exit 1\n\
        echo SUCCESS",
    );
    install(&on);
    let (cause, detail, _) = failure_after(&on, "n2", "mfschunkserver");
    assert_eq!(cause, "node-lost", "{detail}");
    let part = "has 1 of its 2 data servers: none is running on n2";
    assert!(detail.contains(part), "{detail}");
    assert_gone(&on);
}

#[test]
fn a_run_whose_metadata_server_is_killed_fails_by_this_cause_within_two_minutes() {
    require!(Tool::MooseFs, Tool::Ansible, Tool::Mpich5);
    let on = deployed_with(
        MOOSEFS,
        "app = \"script\"\nmpi = \"mpich5\"\nmapping = \"2Nx1P\"\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 800",
    );
    // without cvc's watch it would write for ever: each call fails after the client's time limit
    on.set_script(
        "mine=$PMI_RANK\n\
        dd if=/dev/zero of=part.$mine bs=1M count=4 conv=fsync 2>/dev/null\n\
        until [ -e /shared/killed ]; do sleep 0.2; done\n\
        while :; do dd if=/dev/zero of=more.$mine bs=1M count=2 conv=fsync 2>/dev/null; sleep 1; done",
    );
    install(&on);
    let (cause, detail, took) = failure_after(&on, "n3", "mfsmaster");
    eprintln!("{cause}: {detail}; {took:?} after the kill");
    assert_eq!(cause, "node-lost", "{detail}");
    assert!(detail.contains("has lost its servers"), "{detail}");
    assert!(took < Duration::from_secs(120), "{took:?}");
    // the same servers start again, and what the run left is removed with them
    install(&on);
    assert_gone(&on);
}
