//! Tests that `cvc doctor FILE` begins with what prevents the campaign from running.

use crate::common::{SITE, campaign};
use cvc_testkit::{Tool, require};

#[test]
fn the_verdict_comes_first_and_names_the_missing_program_and_its_remedy() {
    require!(Tool::Mpich);
    let c = campaign(
        "gone",
        &format!(
            "{SITE}[matrix]\napp = [\"script\", \"absent\"]\nprocesses = [1, 2]\nmpi = \"mpich\"\n"
        ),
    );
    c.script_app("script", "echo SUCCESS", "");
    c.put(
        "apps/absent.toml",
        "schema = 1\nname = \"absent\"\ntitle = \"not there\"\n[program]\nnames = [\"no-such-program\"]\ninstall = \"make it yourself\"\n\
         [command]\nargs = []\n[workloads.any]\n[success]\npattern = 'SUCCESS'\n",
    );
    let told = c.cvc(&["doctor", "campaign.toml"]).expect(5).stdout;
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(
        lines[0], "campaign.toml: 2 of 4 points of campaign gone cannot run here",
        "{told}"
    );
    assert!(
        lines[2].contains("2 points: absent is not installed: no no-such-program in"),
        "{told}"
    );
    assert!(
        told.contains("points: absent 1Nx1P; absent 1Nx2P")
            && told.contains("hint: make it yourself"),
        "{told}"
    );
    // software that the campaign does not use is not checked
    for unused in [
        "strace",
        "Darshan",
        "openmpi",
        "DMTCP",
        "gzip",
        "hwloc-linuxio",
        "compiler",
    ] {
        assert!(!told.contains(unused), "{unused}: {told}");
    }
}

#[test]
fn one_remedy_for_many_points_is_told_once_and_only_hazards_of_the_campaign_follow() {
    require!(Tool::Mpich);
    let site = SITE.replace(
        "kind = \"local\"",
        "kind = \"local\"\ndmtcp.prefix = \"/nonexistent\"",
    );
    let factors = "processes = 1\nmpi = \"mpich\"\ncheckpointer = \"dmtcp\"\ncompression = [\"none\", \"gzip\"]\n";
    let c = campaign(
        "undone",
        &format!("{site}[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\n{factors}"),
    );
    let told = c.cvc(&["doctor", "campaign.toml"]).expect(5).stdout;
    assert_eq!(
        told.matches("or correct `dmtcp.prefix`").count(),
        1,
        "{told}"
    );
    assert!(
        told.starts_with(
            "campaign.toml: 2 of 2 points of campaign undone cannot run here\n\n  all points: "
        ),
        "{told}"
    );
    assert!(
        told.contains("gzip") && told.contains("hwloc-linuxio") && !told.contains("openmpi-btl"),
        "{told}"
    );
    // details of hazards are shown only on request
    assert!(!told.contains("HWLOC_COMPONENTS"), "{told}");
    let whole = c
        .cvc(&["doctor", "campaign.toml", "--hazards"])
        .expect(5)
        .stdout;
    assert!(
        whole.contains("hwloc-linuxio: HWLOC_COMPONENTS=-linuxio")
            && !whole.contains("openmpi-btl"),
        "{whole}"
    );
    let json = c
        .cvc(&["doctor", "campaign.toml", "--json"])
        .expect(5)
        .stdout;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let obstacles = json["verdict"]["obstacles"].as_array().expect("obstacles");
    assert_eq!(
        (
            obstacles.len(),
            obstacles[0]["points"].as_array().map(Vec::len)
        ),
        (1, Some(2)),
        "{json}"
    );
    assert!(
        json["hazards"]
            .as_array()
            .is_some_and(|all| all.iter().any(|h| h["id"] == "hwloc-linuxio")),
        "{json}"
    );
}

#[test]
fn a_campaign_that_can_run_is_told_so_first() {
    require!(Tool::Mpich);
    let c = campaign(
        "fine",
        &format!("{SITE}[matrix]\napp = \"script\"\nprocesses = 1\nmpi = \"mpich\"\n"),
    );
    c.script_app("script", "echo SUCCESS", "");
    let told = c.cvc(&["doctor", "campaign.toml"]).expect(0).stdout;
    assert!(
        told.starts_with("campaign.toml: the 1 point of campaign fine can run here\n"),
        "{told}"
    );
}

#[cfg(not(feature = "ec2"))]
#[test]
fn of_a_cloud_it_tells_what_a_run_stumbles_over_first() {
    let mut c = campaign(
        "aloft",
        "[sites.cloud]\nkind = \"ec2\"\nec2 = { region = \"us-east-1\", instance_types = [\"c7g.large\"], nodes = 2 }\n[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 1\n",
    );
    let program = c.dir().join("cvc-node");
    // the ELF header of a program for x86-64
    let mut header = b"\x7fELF".to_vec();
    header.resize(18, 0);
    header.extend([0x3e, 0]);
    std::fs::write(&program, header).expect("written");
    c.env("CVC_NODE_PROGRAM", &program.to_string_lossy());
    let told = |c: &cvc_testkit::Campaign| {
        c.cvc(&["doctor", "cloud", "--file", "campaign.toml"])
            .expect(4)
            .stdout
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let text = told(&c);
    for part in [
        "is for x86_64, but not for c7g.large",
        "Ansible",
        "this cvc was built without EC2",
        "hint: build it with the feature `ec2`",
    ] {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    let whole = c.cvc(&["doctor", "campaign.toml"]).expect(4).stdout;
    assert!(whole.contains("built without EC2"), "{whole}");
    c.env("CVC_NODE_PROGRAM", "/nonexistent/cvc-node");
    assert!(told(&c).contains("cannot be read"), "{}", told(&c));
}
