//! Tests of repeats that are divided among fleets.

use crate::{
    cloud::on_cloud::{OnCloud, ec2_site},
    common::cluster::LIMIT,
};
use cvc_testkit::{Cloud, Lab, Tool, require};
use std::fs;

#[test]
fn each_fleet_is_launched_for_its_repeats_and_given_back_before_the_next() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let lab = Lab::builder().nodes(1).build();
    let cloud = Cloud::start(&lab);
    let matrix = "[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 2\nmpi = \"mpich5\"\n[run]\nrepeats = 2\nfleets = 2\nretries = 0\ntimeout_s = 300\n";
    let text = format!("{}{matrix}", ec2_site(&cloud, 1, "", "install = false"));
    let cloud = OnCloud::new(lab, cloud, "fleets", &text);
    let told = cloud
        .on
        .start(&["run", "campaign.toml"])
        .wait(LIMIT)
        .expect(0)
        .stderr;
    assert!(
        told.contains("fleet 1 of 2") && told.contains("fleet 2 of 2"),
        "{told}"
    );
    assert_eq!(cloud.cloud.count("RunInstances"), 2);
    cloud.cloud.assert_nothing_left();
    let campaign = &cloud.on.campaign;
    campaign.assert_whole(2);
    let journal = fs::read_to_string(campaign.root().join("journal.jsonl")).expect("a journal");
    let kinds = ["lease-acquired", "run-finished", "lease-released"];
    let order: Vec<&str> = journal
        .lines()
        .filter_map(|line| {
            kinds
                .into_iter()
                .find(|kind| line.contains(&format!("\"{kind}\"")))
        })
        .collect();
    assert_eq!(order, [kinds, kinds].concat(), "{journal}");
    let report =
        fs::read_to_string(campaign.dir().join("reports/fleets/report.md")).expect("a report");
    assert!(
        report.contains("intervals include the variation between 2 fleets"),
        "{report}"
    );
}
