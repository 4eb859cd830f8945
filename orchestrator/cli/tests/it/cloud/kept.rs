//! Tests of instances that are kept between campaigns.

use crate::{
    cloud::on_cloud::{OnCloud, ec2_site},
    common::cluster::LIMIT,
};
use cvc_testkit::{Cloud, Lab, Tool, require};
use std::fs;

const MATRIX: &str = "[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 2\nmpi = \"mpich5\"\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n";

#[test]
fn the_next_campaign_takes_kept_instances_over_and_down_ends_them() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let lab = Lab::builder().nodes(1).build();
    let cloud = Cloud::start(&lab);
    let text = format!(
        "{}{MATRIX}",
        ec2_site(&cloud, 1, "", "install = false\nkeep = \"30m\"")
    );
    let cloud = OnCloud::new(lab, cloud, "first", &text);
    let run = |args: &[&str]| cloud.on.start(args).wait(LIMIT);
    let output = run(&["run", "campaign.toml"]).expect(0);
    // the image contains all software, and a single instance needs no ssh keys of others
    assert!(
        output.stderr.contains("nothing to set up") && output.stderr.contains("kept until"),
        "{}",
        output.stderr
    );
    let alive = || {
        cloud
            .cloud
            .instances()
            .iter()
            .filter(|i| i.state == "running")
            .count()
    };
    assert_eq!((alive(), cloud.cloud.count("RunInstances")), (1, 1));
    // no run is left, and the instance stays
    run(&["run", "campaign.toml"]).expect(0);
    assert_eq!(alive(), 1);
    // a sweep does not remove it
    let output = run(&["sweep"]).expect(0);
    assert!(output.stdout.contains("kept until"), "{}", output.stdout);
    assert_eq!(alive(), 1);
    // another campaign in the same directory takes the instance over
    let second = fs::read_to_string(cloud.on.campaign.dir().join("campaign.toml"))
        .expect("the campaign")
        .replace("name = \"first\"", "name = \"second\"");
    cloud.on.campaign.put("second.toml", &second);
    let output = run(&["run", "second.toml"]).expect(0);
    assert!(
        output
            .stderr
            .contains("takes over the kept instances of campaign first"),
        "{}",
        output.stderr
    );
    assert_eq!((alive(), cloud.cloud.count("RunInstances")), (1, 1));
    // the instance belongs to the second campaign now, so that `cvc down` of the first does not affect it
    run(&["down", "campaign.toml"]).expect(0);
    assert_eq!(alive(), 1);
    run(&["down", "second.toml"]).expect(0);
    cloud.cloud.assert_nothing_left();
}
