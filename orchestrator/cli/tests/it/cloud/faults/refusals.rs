//! What a cloud cannot know, and a cloud that cannot be reached: told soon, with nothing launched.

use super::{ONE, ends, small, text};
use crate::cluster_faults::steps::turn;
use cvc_testkit::{Cloud, Tool, require};

#[test]
fn wrong_names_are_told_before_anything_is_launched() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = small("names", "");
    let good = text(&cloud.cloud, 1, "", ONE);
    let image = Cloud::image(&cloud.cloud, "x86_64");
    let wrong = [
        (good.replace("c5.xlarge", "c5.enormous"), "unknown instance type c5.enormous; its family has c5."),
        (good.replace(&image, "ami-0123456789abcdef0"), "ami-0123456789abcdef0"),
        (good.replace("region =", "profile = \"nobodys\"\nregion ="), "nobodys"),
        (good.replace("region =", "zones = [\"us-east-1x\"]\nregion ="), "unknown zone us-east-1x"),
    ];
    for (text, told) in wrong {
        cloud.on.campaign.rewrite(&text);
        let said = cloud.ends(&["run", "campaign.toml"], 3);
        assert!(said.stderr.contains(told), "{told}: {}", said.stderr);
        assert!(said.stderr.lines().count() < 12, "{}", said.stderr);
        cloud.ends(&["plan", "campaign.toml"], 0);
        cloud.assert_over();
    }
    assert_eq!(cloud.cloud.count("RunInstances"), 0);
    assert!(cloud.cloud.calls().len() < 100, "{}", cloud.cloud.calls().len());
}

#[test]
fn without_credentials_and_without_an_endpoint_it_is_told_soon() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = small("nobody", "");
    let keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    let said = ends(cloud.start_without(&["run", "campaign.toml"], &keys), 3);
    assert!(said.stderr.contains("no credentials are configured") && said.stderr.contains("aws configure"), "{}", said.stderr);
    ends(cloud.start_without(&["plan", "campaign.toml"], &keys), 0);
    assert!(cloud.cloud.calls().is_empty());
    cloud.assert_over();

    // nobody listens there: each attempt is refused at once
    let deaf = [("AWS_ENDPOINT_URL", "http://127.0.0.1:9")];
    let said = ends(cloud.start_with(&["run", "campaign.toml"], &deaf), 3);
    assert!(said.stderr.contains("onnection refused") && said.stderr.contains("try again"), "{}", said.stderr);
    ends(cloud.start_with(&["plan", "campaign.toml"], &deaf), 0);
    cloud.assert_over();
}
