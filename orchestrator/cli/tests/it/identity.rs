//! Tests that the name of a campaign on other machines depends neither on its directory nor on its machine's name.

use crate::{
    cluster_faults::steps::{STEPS, ends, on_lab, scripted, turn},
    common::scripted as scripted_here,
};
use cvc_testkit::{Lab, Tool, require};
use std::fs;

#[test]
fn after_the_machine_was_renamed_and_the_campaign_moved_its_run_is_found_again() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let on = scripted(
        1,
        "moved",
        "",
        STEPS,
        "processes = 1",
        "repeats = 1\nretries = 0\ntimeout_s = 600",
    );
    let cvc = on.begin();
    on.wait_start(1);
    cvc.kill();
    on.lab.exec(&["hostname", "elsewhere"]);
    let (before, moved) = (
        on.campaign.dir().join("campaigns"),
        on.campaign.dir().join("archive/campaigns"),
    );
    fs::create_dir(moved.parent().expect("a directory")).expect("makes");
    fs::rename(&before, &moved).expect("moves");
    let cvc = on.start(&["run", "campaign.toml", "--campaigns", "archive/campaigns"]);
    on.go_all();
    ends(cvc, 0);
    fs::rename(&moved, &before).expect("moves back");
    on.campaign.assert_whole(1);
    assert!(
        on.starts().len() == 1,
        "the agent of the first controller went on: {:?}",
        on.start_counts()
    );
    on.assert_clean(&["n1"]);
}

#[test]
fn a_copy_is_not_run_beside_its_original() {
    require!(Tool::Mpich);
    let c = scripted_here("copied", "echo SUCCESS", "repeats = 1\nretries = 0");
    c.run().expect(0);
    let copies = c.dir().join("copies");
    fs::create_dir(&copies).expect("makes");
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(c.root())
        .arg(&copies)
        .status()
        .expect("cp");
    assert!(copied.success());
    let refused = c
        .cvc(&["run", "campaign.toml", "--campaigns", "copies"])
        .expect(7);
    assert!(
        refused.stderr.contains("is a copy of") && refused.stderr.contains("hint: "),
        "{}",
        refused.stderr
    );
    // afterwards the copy is the campaign itself
    fs::remove_dir_all(c.root()).expect("removes");
    c.cvc(&["run", "campaign.toml", "--campaigns", "copies"])
        .expect(0);
}

#[test]
fn a_job_of_an_earlier_life_of_the_campaign_is_not_taken_for_its_own() {
    require!(Tool::Slurm, Tool::Mpich5);
    let _turn = turn();
    let lab = Lab::builder().nodes(1).login(true).build();
    lab.slurm();
    let mpich5 = Tool::Mpich5.find().expect("the test requires it");
    let text = format!(
        "[sites.slurm]\nkind = \"slurm\"\nlogin = \"login\"\nbase = \"/shared/cvc\"\ninterface = \"eth0\"\ncores = 4\nlost_after_s = 4\n\
         [sites.slurm.slurm]\nnodes = 1\n[sites.slurm.mpi.mpich5]\nfamily = \"mpich\"\nmpiexec = \"{}\"\n\
         [matrix]\napp = \"script\"\nprocesses = 1\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 200\n",
        mpich5.display()
    );
    let on = on_lab(lab, "lives", &text, STEPS);
    on.go_all();
    ends(on.begin(), 0);
    let jobs = || -> Vec<serde_json::Value> {
        on.campaign
            .events("lease-acquired")
            .iter()
            .map(|e| e["by"]["job"].clone())
            .collect()
    };
    let first = jobs();
    // restore an older copy, in which the campaign had just begun
    let journal = on.campaign.root().join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("reads");
    fs::write(&journal, text.split_inclusive('\n').next().expect("a line")).expect("writes");
    fs::remove_dir_all(on.campaign.root().join("runs")).expect("removes");
    // a newer mark would make cvc refuse the copy
    fs::remove_file(on.campaign.root().join("journal.mark")).expect("removes");
    ends(on.begin(), 0);
    on.campaign.assert_whole(1);
    assert!(
        first.len() == 1 && jobs().len() == 1 && first != jobs(),
        "{first:?}, {:?}",
        jobs()
    );
    assert_eq!(on.starts().len(), 2);
}
