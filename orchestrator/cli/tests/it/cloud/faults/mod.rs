//! Tests of faults in a cloud: in each case the right cause is reported with its hint, no run is lost or run twice, nothing is left, and the campaign
//! continues if possible.

mod calls;
mod interrupts;
mod launching;
mod losses;
mod refusals;
mod rests;

use crate::{
    cloud::on_cloud::{OnCloud, ec2_site},
    cluster_faults::steps::STEPS,
    common::cluster::LIMIT,
};
use cvc_testkit::{
    Cloud, Finished, Lab,
    cloud::{CloudBuilder, Instance},
};
use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt};

/// A script that records its start and ends at once.
const AT_ONCE: &str = "echo \"${CVC_RUN%%@*}\" >>/shared/starts\necho SUCCESS\n";

/// One run on one node.
const ONE: &str = "mapping = \"1Nx1P\"\n[run]\nrepeats = 1\nretries = 0\ntimeout_s = 120\n";

/// Returns a campaign of a script on instances. `ec2` contains further keys of the instances' table, `rest` follows the application.
fn scripted(
    builder: CloudBuilder,
    name: &str,
    nodes: u32,
    ec2: &str,
    script: &str,
    rest: &str,
) -> OnCloud {
    let lab = Lab::builder().nodes(1).build();
    let cloud = builder.start(&lab);
    let text = text(&cloud, nodes, ec2, rest);
    let cloud = OnCloud::new(lab, cloud, name, &text);
    // the user on instances is not root
    let shared = cloud.on.lab.shared();
    let open = |mode| fs::Permissions::from_mode(mode);
    fs::write(shared.join("starts"), "").expect("writes");
    fs::set_permissions(shared.join("starts"), open(0o666)).expect("for all users");
    fs::set_permissions(&shared, open(0o1777)).expect("for all users");
    cloud.on.set_script(script);
    cloud
}

/// Returns the text of such a campaign.
fn text(cloud: &Cloud, nodes: u32, ec2: &str, rest: &str) -> String {
    format!(
        "{}[matrix]\napp = \"script\"\nmpi = \"mpich5\"\n{rest}",
        ec2_site(cloud, nodes, "", &format!("install = false\n{ec2}"))
    )
}

/// Returns a campaign with one instance, and one run that ends at once.
fn small(name: &str, ec2: &str) -> OnCloud {
    scripted(Cloud::builder(), name, 1, ec2, AT_ONCE, ONE)
}

/// Returns a campaign whose runs continue when the test allows it.
fn steps(name: &str, nodes: u32, ec2: &str, rest: &str) -> OnCloud {
    scripted(Cloud::builder(), name, nodes, ec2, STEPS, rest)
}

impl OnCloud {
    /// Returns the instances that run or start.
    fn alive(&self) -> Vec<Instance> {
        self.cloud
            .instances()
            .into_iter()
            .filter(|i| matches!(i.state.as_str(), "pending" | "running"))
            .collect()
    }

    /// Starts `cvc` without some environment variables.
    fn start_without(&self, args: &[&str], variables: &[&str]) -> cvc_testkit::Running {
        let mut command = self.on.command(args);
        for variable in variables {
            command.env_remove(variable);
        }
        cvc_testkit::Running::start(command)
    }

    /// Runs `cvc` to its end.
    #[track_caller]
    fn ends(&self, args: &[&str], code: i32) -> Finished {
        crate::cluster_faults::steps::ends(self.on.start(args), code)
    }

    /// Returns why orders failed or ended.
    fn released(&self) -> Vec<String> {
        self.on
            .campaign
            .events("lease-released")
            .iter()
            .map(|e| e["how"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Checks that each order has ended once, and that nothing is left in the cloud and on this machine.
    #[track_caller]
    fn assert_over(&self) {
        let names = |kind: &str| -> Vec<String> {
            self.on
                .campaign
                .events(kind)
                .iter()
                .map(|e| e["lease"].as_str().expect("a lease").to_owned())
                .collect()
        };
        let (intended, released) = (names("lease-intended"), names("lease-released"));
        let set = |all: &[String]| all.iter().cloned().collect::<BTreeSet<_>>();
        assert_eq!(set(&intended), set(&released), "all orders are over");
        assert_eq!(
            (set(&intended).len(), set(&released).len()),
            (intended.len(), released.len()),
            "once: {intended:?} {released:?}"
        );
        let opened = self
            .on
            .campaign
            .journal()
            .iter()
            .rfind(|e| e["event"] == "site-opened" || e["event"] == "site-closed")
            .cloned();
        assert!(
            opened.is_none_or(|e| e["event"] == "site-closed"),
            "the site is closed"
        );
        self.on.campaign.assert_nothing_left();
        self.assert_nothing_left();
    }
}

/// Waits for the end of `cvc`.
#[track_caller]
fn ends(running: cvc_testkit::Running, code: i32) -> Finished {
    let output = running.wait(LIMIT);
    if std::env::var_os("CVC_TEST_SAID").is_some() {
        eprintln!("{}\n{}", output.stdout, output.stderr);
    }
    output.expect(code)
}
