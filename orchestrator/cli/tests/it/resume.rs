//! Tests of runs that lose a node and continue from a checkpoint.

use crate::common::cluster::{LIMIT, OnLab, ssh_site_with};
use cvc_testkit::{Finished, Lab, Tool, campaign::read_json, require, wait_until};
use serde_json::Value;
use std::{fs, path::PathBuf, time::Duration};

/// Descriptor of the built-in stencil with its own checkpoints; it takes some seconds. All nodes of a lab share one machine's cores, so waiting ranks
/// yield their core.
const STENCIL: &str = r#"schema = 1
name = "stencil"
title = "the stencil kernel, some seconds long"
kernel = true
[program]
names = ["kernel-stencil"]
install = "part of cvc"
[command]
args = ["--size", "64", "--steps", "100", "--work", "{{w.work}}", "--ckpt-every", "{{#if own_checkpoint}}{{w.every}}{{else}}0{{/if}}", "--ckpt-dir", "{{storage}}"]
restart_args = ["--size", "64", "--steps", "100", "--work", "{{w.work}}", "--ckpt-every", "{{#if own_checkpoint}}{{w.every}}{{else}}0{{/if}}", "--ckpt-dir", "{{storage}}", "--restart", "{{storage}}"]
env = { OMPI_MCA_mpi_yield_when_idle = "1" }
[workloads.often]
vars = { work = 60, every = 10 }
[workloads.asked]
vars = { work = 60, every = 1000 }
[workloads.long]
vars = { work = 100, every = 1000 }
[success]
pattern = '^Verification = SUCCESSFUL'
forbid = '^Verification = FAILED'
[progress]
step = '^Time step (\d+)'
[checkpoint]
files = ["{{storage}}/kernel-stencil.ckpt"]
restartable = true
SIGNAL
"#;

/// Time limit for an event, long enough for a machine that is busy with other work.
const SOON: Duration = Duration::from_secs(400);
const AREAS: &str = "storage.shared = { path = \"/shared/work\", kind = \"shared\" }\n\
                     storage.local = { path = \"/scratch-local\", kind = \"node-local\" }";

/// Returns the keys of a site for Open MPI, and for DMTCP if needed.
fn libraries(is_dmtcp: bool) -> String {
    let prefix = Tool::Dmtcp
        .find()
        .and_then(|p| Some(p.parent()?.parent()?.to_owned()));
    let dmtcp = prefix.filter(|_| is_dmtcp);
    let dmtcp = dmtcp.map(|p| format!("[sites.lab.dmtcp]\nprefix = \"{}\"\n", p.display()));
    format!(
        "{}[sites.lab.mpi.openmpi]\nfamily = \"openmpi\"\n",
        dmtcp.unwrap_or_default()
    )
}

/// Returns a campaign of one run on two of three nodes.
fn campaign(name: &str, factors: &str, signal: &str, checkpoint: &str) -> OnLab {
    let lab = Lab::builder().nodes(3).scratch_mib(512).build();
    let site = ssh_site_with(3, AREAS, &libraries(factors.contains("dmtcp")));
    let text = format!(
        "{site}[sites.lab.price]\nper_node_hour_usd = 36\n[matrix]\napp = \"stencil\"\n{factors}\n\
         [run]\nrepeats = 1\nretries = 0\ntimeout_s = 600\n[checkpoint]\nresume = true\n{checkpoint}\n"
    );
    let on = OnLab::new(lab, name, &text);
    on.campaign
        .put("apps/stencil.toml", &STENCIL.replace("SIGNAL", signal));
    on
}

impl OnLab {
    /// Returns the program's output so far, from the head node.
    fn printed(&self) -> String {
        self.lab
            .node("n1")
            .shell("cat /root/.cvc/spool/*/*/runs/*.partial/stdout 2>/dev/null || :")
    }

    /// Waits until the program has done this step.
    fn wait_step(&self, step: u32) {
        wait_until(&format!("step {step}"), SOON, || {
            self.printed().contains(&format!("Time step {step}\n"))
        });
    }
}

/// Returns the steps that an attempt computed, from its output.
fn steps(dir: PathBuf) -> Vec<u32> {
    let printed = fs::read_to_string(dir.join("stdout")).expect("its output");
    let steps = printed
        .lines()
        .filter_map(|line| line.strip_prefix("Time step ")?.parse().ok());
    steps.collect()
}

fn value<'a>(records: &'a [Value], name: &str) -> &'a Value {
    let of_name = records.iter().find(|r| r["name"] == name);
    of_name.unwrap_or_else(|| panic!("{name} in {records:#?}"))
}

/// Returns the only run with its last attempt.
fn the_run(on: &OnLab) -> String {
    let mut names = on.campaign.run_names().into_iter();
    names.find(|name| !name.contains('.')).expect("the run")
}

/// Checks that the only run was continued from its first attempt after at least `least` steps, and that the steps of both parts add up. Returns the
/// first step of the second part.
fn assert_continued(on: &OnLab, cause: &str, least: u32) -> u32 {
    let finished = on.campaign.finishes();
    assert!(
        finished.len() == 1 && finished.values().all(|n| *n == 2),
        "{finished:?}"
    );
    let kept = on.campaign.events("checkpoint-kept");
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0]["bytes"].as_u64().expect("bytes") > 0);
    let failures = on.campaign.failures();
    assert!(
        failures.len() == 1 && failures[0].0 == cause,
        "{failures:?}"
    );
    let run = the_run(on);
    let (first, second) = (
        on.campaign.run_dir(&format!("{run}.failed-1")),
        on.campaign.run_dir(&run),
    );
    assert_eq!(read_json(&second.join("run.json"))["resumed_from"], 1);
    assert_eq!(read_json(&second.join("facts.json"))["resumed_from"], 1);
    let (before, after) = (steps(first.clone()), steps(second.clone()));
    let again = after.first().copied().expect("steps");
    assert!(
        again > least && again <= before.len() as u32 + 1,
        "{before:?} {after:?}"
    );
    assert_eq!(after.last(), Some(&100));
    let records = on.campaign.records(&run);
    assert_eq!(value(&records, "resumed_from")["value"], 1.0);
    let seconds = |dir: &PathBuf| {
        read_json(&dir.join("exit.json"))["wall_s"]
            .as_f64()
            .expect("seconds")
    };
    let (wall, both) = (
        value(&records, "wall_s")["value"]
            .as_f64()
            .expect("seconds"),
        seconds(&first) + seconds(&second),
    );
    assert!((wall - both).abs() < 0.1, "{wall} {both}");
    let cost = value(&records, "cost_usd");
    let label = |name: &str| -> f64 {
        let text = cost["labels"][name].as_str().expect("text");
        text.parse().expect("a number")
    };
    // a node costs one cent per second
    let (used, usd) = (label("seconds"), cost["value"].as_f64().expect("dollars"));
    assert!(
        used > both && (usd - used * label("nodes") * 0.01).abs() < 0.01,
        "{cost}"
    );
    again
}

/// Runs a campaign, and calls `then` when the program has reached a step. Returns how `cvc run` ended.
fn run_with(on: &OnLab, step: u32, then: impl FnOnce(&OnLab)) -> Finished {
    let cvc = on.start(&["run", "campaign.toml"]);
    on.wait_step(step);
    then(on);
    let output = cvc.wait(LIMIT);
    eprintln!("{}\n{}", output.stdout, output.stderr);
    for (cause, detail) in on.campaign.failures() {
        eprintln!("{cause}: {detail}");
    }
    output
}

/// Runs `cvc interrupt` for a node.
fn interrupt(on: &OnLab, node: &str, notice: &str) {
    let args = [
        "interrupt",
        "lab",
        "--node",
        node,
        "--notice",
        notice,
        "campaign.toml",
    ];
    let told = on.start(&args).wait(SOON).expect(0);
    assert!(
        told.stdout
            .contains(&format!("a rehearsed notice goes to {node}")),
        "{}",
        told.stdout
    );
}

/// Checks that nothing is left on these nodes and on shared storage.
fn assert_clean(on: &OnLab, nodes: &[&str]) {
    on.assert_nothing_left(nodes);
    let left = on
        .lab
        .node("n1")
        .shell("ls /shared/work /scratch-local 2>/dev/null | grep -v : || :");
    assert_eq!(left.trim(), "");
    assert!(!on.campaign.root().join("interrupt").exists());
}

/// Waits until DMTCP has taken a checkpoint. The next one, which would replace it, follows some seconds later.
fn wait_images(on: &OnLab) {
    wait_until("a checkpoint", SOON, || {
        let logs = "ls /shared/work/*/*/dmtcp/dmtcp_coordinator_db*.json 2>/dev/null | wc -l";
        on.lab
            .node("n1")
            .shell(logs)
            .trim()
            .parse::<u32>()
            .is_ok_and(|n| n >= 1)
    });
}

const OWN: &str =
    "class = \"often\"\nmapping = \"2Nx1P\"\ncheckpointer = \"application\"\nstorage = \"shared\"";
const IMAGES: &str =
    "class = \"long\"\nmapping = \"2Nx1P\"\ncheckpointer = \"dmtcp\"\nstorage = \"shared\"";
const SERIES: &str = "moment = { every_s = 10, count = 90, compare = false }";

#[test]
fn a_run_that_loses_a_node_continues_from_its_own_checkpoint() {
    require!(Tool::Lab, Tool::OpenMpi);
    let on = campaign("own", OWN, "", "");
    run_with(&on, 35, |on| on.lab.node("n2").poweroff()).expect(0);
    let again = assert_continued(&on, "node-lost", 30);
    assert_eq!(again % 10, 1, "it begins after a checkpoint: {again}");
    assert_clean(&on, &["n1", "n3"]);
}

#[test]
fn a_run_that_loses_a_node_continues_from_images() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::OpenMpi);
    let on = campaign("images", IMAGES, "", SERIES);
    run_with(&on, 10, |on| {
        wait_images(on);
        on.lab.node("n2").poweroff();
    })
    .expect(0);
    assert_continued(&on, "node-lost", 1);
    assert_clean(&on, &["n1", "n3"]);
}

#[test]
fn a_notice_makes_a_program_write_a_checkpoint_which_its_run_continues_from() {
    require!(Tool::Lab, Tool::OpenMpi);
    let on = campaign(
        "notice",
        &OWN.replace("often", "asked"),
        "signal = \"USR1\"",
        "",
    );
    run_with(&on, 20, |on| interrupt(on, "n2", "30s")).expect(0);
    assert_continued(&on, "reclaimed", 20);
    let (_, detail) = on.campaign.failures().remove(0);
    assert!(
        detail.contains(
            "n2: it is taken (rehearsed), announced 30 s before; a checkpoint was taken in "
        ),
        "{detail}"
    );
    let run = the_run(&on);
    let records = on.campaign.records(&run);
    let took = value(&records, "notice_ckpt_s");
    assert!(
        took["value"].as_f64().is_some_and(|s| s > 0.0 && s < 30.0),
        "{took}"
    );
    assert_clean(&on, &["n1", "n2", "n3"]);
}

#[test]
fn a_notice_makes_dmtcp_take_a_checkpoint_which_the_run_continues_from_on_another_node() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::OpenMpi);
    let on = campaign(
        "taken",
        IMAGES,
        "",
        "moment = { every_s = 3000, count = 2, compare = false }",
    );
    run_with(&on, 20, |on| interrupt(on, "n2", "60s")).expect(0);
    assert_continued(&on, "reclaimed", 20);
    let (_, detail) = on.campaign.failures().remove(0);
    assert!(
        detail.contains("announced 60 s before; a checkpoint was taken in "),
        "{detail}"
    );
    assert_clean(&on, &["n1", "n2", "n3"]);
}

#[test]
fn a_checkpoint_on_storage_of_the_node_is_brought_to_the_campaign_and_back() {
    require!(Tool::Lab, Tool::OpenMpi);
    let factors = "class = \"asked\"\nmapping = \"1Nx2P\"\ncheckpointer = \"application\"\nstorage = \"local\"";
    let on = campaign("brought", factors, "signal = \"USR1\"", "");
    run_with(&on, 20, |on| interrupt(on, "n1", "20s")).expect(0);
    assert_continued(&on, "reclaimed", 20);
    let run = the_run(&on);
    let kept = on
        .campaign
        .run_dir(&format!("{run}.failed-1"))
        .join("kept-checkpoint/0/kernel-stencil.ckpt");
    assert!(kept.is_file(), "{}", kept.display());
    assert_clean(&on, &["n1", "n2", "n3"]);
}

#[test]
fn a_notice_too_short_for_a_checkpoint_leaves_the_one_before() {
    require!(Tool::Lab, Tool::Dmtcp, Tool::OpenMpi);
    let on = campaign("short", IMAGES, "", SERIES);
    run_with(&on, 10, |on| {
        wait_images(on);
        interrupt(on, "n2", "0.05s");
    })
    .expect(0);
    assert_continued(&on, "reclaimed", 1);
    let (_, detail) = on.campaign.failures().remove(0);
    assert!(
        detail.contains("no checkpoint was taken: checkpoint ")
            && detail.contains(" s that are left"),
        "{detail}"
    );
    assert_clean(&on, &["n1", "n2", "n3"]);
}

#[test]
fn an_interruption_needs_a_session_and_a_node_of_its_site() {
    require!(Tool::Lab, Tool::OpenMpi);
    let on = campaign("wrong", OWN, "", "");
    let wrong = |on: &OnLab, site: &str, node: &str| {
        let refused = on
            .start(&["interrupt", site, "--node", node, "campaign.toml"])
            .wait(SOON)
            .expect(2);
        refused.stderr
    };
    run_with(&on, 5, |on| {
        let told = wrong(on, "lab", "n7");
        assert!(
            told.contains("the site `lab` has no node `n7`, but n1, n2, n3"),
            "{told}"
        );
        let told = wrong(on, "attic", "n1");
        assert!(
            told.contains("the site `attic` is not open in this session"),
            "{told}"
        );
    })
    .expect(0);
    let told = wrong(&on, "lab", "n1");
    assert!(
        told.contains("is running") && told.contains("start `cvc run`"),
        "{told}"
    );
}
