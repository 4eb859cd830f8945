//! Tests of campaigns on the nodes of a Slurm site.

use crate::common::cluster::{LIMIT, OnLab, slurm_site, ssh_site};
use cvc_testkit::{Lab, Tool, require};

const MATRIX: &str = "[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = [\"1Nx4P\", \"2Nx2P\", \"4Nx1P\", \"3Nx1P+1Nx1P\"]\n\
                      mpi = [\"mpich5\", \"openmpi\"]\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n";

#[test]
fn one_file_compares_mappings_on_an_ssh_site_and_on_a_slurm_site() {
    require!(Tool::Lab, Tool::Slurm, Tool::Mpich5, Tool::OpenMpi);
    let lab = Lab::builder().nodes(4).login(true).build();
    let slurm = lab.slurm();
    slurm.wait_idle(4);
    let on = OnLab::new(
        lab,
        "both",
        &format!("{}{}{MATRIX}", ssh_site(4, ""), slurm_site("", "")),
    );
    let output = on.run();
    eprintln!("{}\n{}", output.stdout, output.stderr);
    output.expect(0);
    on.campaign.assert_whole(16);
    assert_eq!(
        (
            on.campaign.events("lease-intended").len(),
            on.campaign.events("lease-released").len()
        ),
        (1, 1)
    );
    let report = std::fs::read_to_string(on.campaign.dir().join("reports/both/report.md"))
        .expect("the report");
    for word in ["slurm", "lab", "3Nx1P+1Nx1P"] {
        assert!(report.contains(word), "{word}");
    }
    on.assert_nothing_left(&["login", "n1", "n2", "n3", "n4"]);
    assert_eq!(on.lab.login().shell("squeue -h | wc -l").trim(), "0");
}

#[test]
fn srun_places_ranks_and_each_run_may_be_a_job_of_its_own() {
    require!(Tool::Lab, Tool::Slurm, Tool::Mpich5, Tool::OpenMpi);
    let lab = Lab::builder().nodes(4).login(true).build();
    let slurm = lab.slurm();
    slurm.wait_idle(4);
    let matrix = MATRIX.replace("\"1Nx4P\", \"2Nx2P\", \"4Nx1P\", ", "\"2Nx2P\", ");
    let on = OnLab::new(
        lab,
        "srun",
        &format!(
            "{}{matrix}",
            slurm_site("", "launcher = \"srun\"\nallocation = \"run\"")
        ),
    );
    let output = on.run();
    eprintln!("{}\n{}", output.stdout, output.stderr);
    output.expect(0);
    on.campaign.assert_whole(4);
    assert_eq!(
        (
            on.campaign.events("lease-intended").len(),
            on.campaign.events("lease-released").len()
        ),
        (4, 4)
    );
    on.assert_nothing_left(&["login", "n1", "n2", "n3", "n4"]);
}

/// Takes about 20 s: runs the campaign of `./two-clusters` with a third of its points.
#[test]
fn the_campaign_of_two_clusters_runs_on_the_nodes_of_this_machine() {
    require!(Tool::Lab, Tool::Slurm, Tool::OpenMpi);
    let lab = Lab::builder().nodes(4).login(true).build();
    lab.slurm().wait_idle(4);
    let text = include_str!("../../../../experiments/two-clusters.toml");
    // take the first lines from other test campaigns
    let sites = text.find("[sites.lab]").expect("a site");
    let on = OnLab::new(lab, "two-clusters", &text[sites..]);
    let only = ["run", "campaign.toml", "--only", "mapping=2Nx2P"];
    let output = on.start(&only).wait(LIMIT);
    eprintln!("{}\n{}", output.stdout, output.stderr);
    output.expect(0);
    on.campaign.assert_whole(6);
    let compared = on.start(&["compare", "two-clusters"]).wait(LIMIT);
    assert!(
        compared.stdout.contains("3 equal points"),
        "{}\n{}",
        compared.stdout,
        compared.stderr
    );
    compared.expect(0);
    on.assert_nothing_left(&["login", "n1", "n2", "n3", "n4"]);
}
