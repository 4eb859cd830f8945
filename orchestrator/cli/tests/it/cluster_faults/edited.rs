//! Tests in which the campaign file is edited while runs are in progress on a cluster.

use crate::cluster_faults::steps::{SOON, STEPS, ends, on_lab, scripted, site, turn};
use cvc_testkit::{Lab, Tool, require, wait_until};

const MATRIX: &str = "[matrix]\napp = \"script\"\nprocesses = 1\n";

fn run(repeats: u32) -> String {
    format!("{MATRIX}[run]\nrepeats = {repeats}\nretries = 0\ntimeout_s = 600\n")
}

#[test]
fn what_was_finished_or_under_way_before_an_edit_is_kept() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let on = scripted(
        1,
        "edited",
        "",
        STEPS,
        "processes = 1",
        "repeats = 1\nretries = 0\ntimeout_s = 600",
    );
    // the run ends while no controller is running
    let cvc = on.begin();
    on.wait_start(1);
    cvc.kill();
    on.go(1);
    wait_until("the end of the run", SOON, || on.script_on("n1") == 0);
    on.campaign.rewrite(&format!("{}{}", site(1, ""), run(2)));
    let cvc = on.begin();
    on.wait_start(2);
    assert_eq!(on.campaign.finishes().len(), 1, "the first was fetched");
    // the run is in progress
    cvc.kill();
    on.campaign.rewrite(&format!("{}{}", site(1, ""), run(3)));
    let cvc = on.begin();
    wait_until("it to see the edit", SOON, || {
        cvc.stderr_so_far()
            .contains("runs that the previous session started are finished and fetched first")
    });
    assert_eq!(on.starts().len(), 2, "nothing begins beside it");
    on.go_all();
    ends(cvc, 0);
    assert_eq!(
        on.start_counts().into_values().collect::<Vec<_>>(),
        [1, 1, 1],
        "no run began twice"
    );
    on.campaign.assert_whole(3);
    on.assert_clean(&["n1"]);
}

#[test]
fn a_site_that_was_renamed_or_removed_is_ended_where_it_was_opened() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let on = scripted(
        1,
        "renamed",
        "",
        STEPS,
        "processes = 1",
        "repeats = 1\nretries = 0\ntimeout_s = 600",
    );
    let cvc = on.begin();
    on.wait_start(1);
    cvc.kill();
    on.campaign
        .rewrite(&format!("[sites.here]\nkind = \"local\"\n{}", run(1)));
    let down = on.start(&["down", "campaign.toml"]);
    let ended = ends(down, 0);
    assert!(
        ended.stdout.contains("nothing of renamed is left on lab"),
        "{}",
        ended.stdout
    );
    on.assert_clean(&["n1"]);
    assert_eq!(on.campaign.events("site-closed").len(), 1);
    // the same with a site that is renamed
    on.campaign.rewrite(&format!("{}{}", site(1, ""), run(1)));
    let cvc = on.begin();
    on.wait_start(2);
    cvc.kill();
    on.campaign.rewrite(&format!(
        "{}{}",
        site(1, "").replace("sites.lab", "sites.other"),
        run(1)
    ));
    let cvc = on.begin();
    on.wait_start(3);
    // one rank, not two: the old run was ended first
    on.wait_ranks(&["n1"]);
    on.go_all();
    ends(cvc, 0);
    on.assert_clean(&["n1"]);
}

#[test]
fn a_site_with_another_head_is_ended_at_the_old_one_first_and_left_alone_if_that_is_away() {
    require!(Tool::Lab, Tool::Mpich5);
    let _turn = turn();
    let lab = Lab::builder().nodes(2).build();
    let on = on_lab(
        lab,
        "moved-head",
        &format!("{}{}", site(1, ""), run(1)),
        STEPS,
    );
    let cvc = on.begin();
    on.wait_start(1);
    cvc.kill();
    let on_second = site(1, "").replace("\"n1\"", "\"n2\"");
    on.campaign.rewrite(&format!("{on_second}{}", run(1)));
    let cvc = on.begin();
    on.wait_start(2);
    on.wait_ranks(&["n2"]);
    assert_eq!(on.script_on("n1"), 0, "the old one was ended first");
    cvc.kill();
    // the file names the first node again, and the second node is down
    on.lab.node("n2").kill();
    on.campaign.rewrite(&format!("{}{}", site(1, ""), run(1)));
    let left = ends(on.begin(), 9);
    assert!(
        left.stderr.contains("lab") && left.stderr.contains("n2"),
        "{}",
        left.stderr
    );
    assert_eq!(on.starts().len(), 2, "nothing began in its place");
    let forgotten = on.start(&["down", "campaign.toml", "--forget", "lab"]);
    ends(forgotten, 0);
    on.go_all();
    ends(on.begin(), 0);
    on.assert_clean(&["n1"]);
}
