//! Tests of unknown names and of an unreachable cloud: they are reported early, and nothing is launched.

use super::{ONE, ends, small, text};
use crate::cluster_faults::steps::turn;
use cvc_testkit::{Cloud, Tool, require};

#[test]
fn wrong_names_are_reported_before_anything_is_launched() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = small("names", "");
    let good = text(&cloud.cloud, 1, "", ONE);
    let image = Cloud::image(&cloud.cloud, "x86_64");
    let wrong = [
        (
            // a well-formed name of an instance type: only the cloud knows that it does not exist
            good.replace("c5.xlarge", "c5.8xlarge"),
            "unknown instance type c5.8xlarge; its family has c5.",
        ),
        (
            good.replace(&image, "ami-0123456789abcdef0"),
            "ami-0123456789abcdef0",
        ),
        (
            good.replace("region =", "profile = \"nobodys\"\nregion ="),
            "nobodys",
        ),
        (
            good.replace("region =", "zones = [\"us-east-1x\"]\nregion ="),
            "unknown zone us-east-1x",
        ),
    ];
    for (text, told) in wrong {
        cloud.on.campaign.rewrite(&text);
        let output = cloud.ends(&["run", "campaign.toml"], 3);
        assert!(output.stderr.contains(told), "{told}: {}", output.stderr);
        assert!(output.stderr.lines().count() < 12, "{}", output.stderr);
        cloud.ends(&["plan", "campaign.toml"], 0);
        cloud.assert_over();
    }
    assert_eq!(cloud.cloud.count("RunInstances"), 0);
    assert!(
        cloud.cloud.calls().len() < 100,
        "{}",
        cloud.cloud.calls().len()
    );
}

#[test]
fn missing_credentials_and_endpoints_are_reported_soon() {
    require!(Tool::Lab, Tool::Moto, Tool::Mpich5, Tool::Ansible);
    let _turn = turn();
    let cloud = small("nobody", "");
    let keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    let output = ends(cloud.start_without(&["run", "campaign.toml"], &keys), 3);
    assert!(
        output.stderr.contains("no credentials are configured")
            && output.stderr.contains("aws configure"),
        "{}",
        output.stderr
    );
    ends(cloud.start_without(&["plan", "campaign.toml"], &keys), 0);
    assert!(cloud.cloud.calls().is_empty());
    cloud.assert_over();

    // nothing listens at this address, so each attempt is refused at once
    let deaf = [("AWS_ENDPOINT_URL", "http://127.0.0.1:9")];
    let output = ends(cloud.start_with(&["run", "campaign.toml"], &deaf), 3);
    assert!(
        output.stderr.contains("onnection refused") && output.stderr.contains("try again"),
        "{}",
        output.stderr
    );
    ends(cloud.start_with(&["plan", "campaign.toml"], &deaf), 0);
    cloud.assert_over();
}
