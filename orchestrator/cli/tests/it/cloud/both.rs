//! Tests of a cluster and a cloud in the same campaign.

use crate::{
    cloud::on_cloud::{OnCloud, ec2_site},
    common::cluster::{LIMIT, slurm_site, ssh_site},
};
use cvc_testkit::{Cloud, Lab, Tool, require, wait_until};
use serde_json::Value;
use std::fs;

const MATRIX: &str = "[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = [\"1Nx4P\", \"2Nx2P\", \"4Nx1P\"]\nmpi = \"mpich5\"\n\
                      [run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n";

#[test]
fn one_file_compares_a_slurm_site_and_an_ec2_site() {
    require!(
        Tool::Lab,
        Tool::Slurm,
        Tool::Moto,
        Tool::Mpich5,
        Tool::Ansible
    );
    let lab = Lab::builder().nodes(4).login(true).build();
    let slurm = lab.slurm();
    slurm.wait_idle(4);
    let cloud = Cloud::start(&lab);
    let price = "[sites.slurm.price]\nper_core_hour_usd = 0.02\n";
    let text = format!(
        "{}{price}{}{MATRIX}",
        slurm_site("", ""),
        ec2_site(&cloud, 4, "", "")
    );
    let cloud = OnCloud::new(lab, cloud, "both", &text);
    let output = cloud
        .on
        .start(&["run", "campaign.toml"])
        .wait(2 * LIMIT)
        .expect(0);
    cloud.on.campaign.assert_whole(6);
    cloud.assert_nothing_left();
    cloud
        .on
        .assert_nothing_left(&["login", "n1", "n2", "n3", "n4"]);
    assert_eq!(cloud.on.lab.login().shell("squeue -h | wc -l").trim(), "0");
    // software is installed on new instances before the first run
    assert!(
        output.stderr.contains("4 of 4 hosts done"),
        "{}",
        output.stderr
    );
    // the cloud's instances are released as soon as no run is left for them, and every run has its cost
    let report = fs::read_to_string(cloud.on.campaign.dir().join("reports/both/report.md"))
        .expect("the report");
    for word in ["slurm", "cloud", "4Nx1P", "c5.xlarge", "Cost"] {
        assert!(report.contains(word), "{word}: {report}");
    }
    for run in cloud.on.campaign.finishes().keys() {
        let records = cloud.on.campaign.records(run);
        assert!(records.iter().any(|r| r["unit"] == "USD"), "{records:?}");
    }
    let printed = |args: &[&str]| -> Value {
        let text = cloud.on.start(args).wait(LIMIT).expect(0).stdout;
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    };
    let compared = printed(&["compare", "campaign.toml", "--json"])["comparisons"][0].clone();
    assert_eq!(
        (&compared["first"], &compared["second"], &compared["pairs"]),
        (&"slurm".into(), &"cloud".into(), &3.into())
    );
    let differs = |what: &str| {
        compared["environment"]
            .as_array()
            .is_some_and(|all| all.iter().any(|d| d["what"] == what))
    };
    assert!(differs("instance.type"), "{compared}");
    let advised = printed(&["advise", "campaign.toml", "--json"])["advice"][0].clone();
    assert_eq!(advised["objectives"][1], "cost_usd", "{advised}");
    assert_eq!(
        advised["candidates"].as_array().map(Vec::len),
        Some(6),
        "{advised}"
    );
}

/// A script that ends when the test allows it for its site; n1 is the only node of the cluster.
const WAITS: &str = "site=cloud; [ \"$(hostname)\" != n1 ] || site=cluster\necho $site >>/shared/starts.at-once\n\
                     until [ -e /shared/go.$site ]; do sleep 0.05; done\necho SUCCESS\n";

#[test]
fn a_cluster_and_a_cloud_run_at_the_same_time_and_the_cloud_is_given_back_first() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let lab = Lab::builder().nodes(2).build();
    let cloud = Cloud::start(&lab);
    let matrix = "[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich5\"\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 600\n";
    let text = format!(
        "{}{}{matrix}",
        ssh_site(1, ""),
        ec2_site(&cloud, 1, "", "install = false\n")
    );
    let cloud = OnCloud::new(lab, cloud, "at-once", &text);
    cloud.on.set_script(WAITS);
    cloud.count_in("starts.at-once");
    let (shared, campaign) = (cloud.on.lab.shared(), &cloud.on.campaign);
    let cvc = cloud.on.start(&["run", "campaign.toml"]);
    let begun = || {
        fs::read_to_string(shared.join("starts.at-once"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    wait_until("a run on each site", LIMIT, || begun() == 2);
    assert_eq!(campaign.events("run-finished").len(), 0, "both are busy");
    fs::write(shared.join("go.cloud"), "").expect("writes");
    wait_until("the end of the cloud's instances", LIMIT, || {
        !campaign.events("lease-released").is_empty()
    });
    assert_eq!(
        campaign.events("run-finished").len(),
        1,
        "the cluster still works"
    );
    fs::write(shared.join("go.cluster"), "").expect("writes");
    cvc.wait(LIMIT).expect(0);
    campaign.assert_whole(2);
    cloud.assert_nothing_left();
    cloud.on.assert_nothing_left(&["n1"]);
}
