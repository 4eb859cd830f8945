//! Campaigns on the nodes of an ssh site.

use crate::common::cluster::{OnLab, ssh_site};
use cvc_testkit::{Lab, Tool, require};

#[test]
fn mappings_over_nodes_and_both_libraries_run_and_leave_nothing() {
    require!(Tool::Lab, Tool::Mpich5, Tool::OpenMpi);
    let lab = Lab::builder().nodes(4).build();
    let text = format!(
        "{}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = [\"1Nx4P\", \"2Nx2P\", \"4Nx1P\", \"3Nx1P+1Nx1P\"]\n\
         mpi = [\"mpich5\", \"openmpi\"]\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 60\n",
        ssh_site(4, "")
    );
    let on = OnLab::new(lab, "mappings", &text);
    let said = on.run();
    eprintln!("{}\n{}", said.stdout, said.stderr);
    said.expect(0);
    on.campaign.assert_whole(8);
    on.assert_nothing_left(&["n1", "n2", "n3", "n4"]);
}
