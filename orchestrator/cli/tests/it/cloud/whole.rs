//! Tests of whole campaigns on a cloud.

use crate::cloud::on_cloud::{OnCloud, ec2_site};
use cvc_testkit::{Cloud, Lab, Tool, require};

const MATRIX: &str = "[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nmapping = [\"1Nx2P\", \"2Nx1P\"]\nmpi = [\"mpich5\"]\n\
                      [run]\nrepeats = 1\nretries = 0\ntimeout_s = 300\n";

#[test]
fn instances_are_launched_set_up_used_and_given_back() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let lab = Lab::builder().nodes(1).build();
    let cloud = Cloud::start(&lab);
    let text = format!("{}{MATRIX}", ec2_site(&cloud, 2, "", "install = false"));
    let cloud = OnCloud::new(lab, cloud, "whole", &text);
    cloud.run().expect(0);
    cloud.on.campaign.assert_whole(2);
    cloud.assert_nothing_left();
}
