//! `cvc export` as users type it, of a campaign that ran: tables that are read by their schema, a crate that the validator takes.

use crate::common::campaign;
use cvc_testkit::{Tool, require};
use serde_json::Value;
use std::{fs, process::Command};

const TEXT: &str = "[sites.here]\nkind = \"local\"\n[matrix]\nsite = \"here\"\napp = [\"script\", \"broken\"]\nprocesses = 1\nmpi = \"mpich\"\n\
                    [run]\nrepeats = 2\nretries = 0\n";

#[test]
fn a_campaign_that_ran_is_exported_and_the_validator_takes_its_crate() {
    require!(Tool::Mpich, Tool::RoCrateValidator);
    let c = campaign("given", TEXT);
    c.script_app("script", "echo SUCCESS", "");
    c.script_app("broken", "exit 3", "");
    c.run();
    let with_all = [
        "export",
        "campaign.toml",
        "--csv",
        "out/tables",
        "--ro-crate",
        "out/crate",
        "--agent",
        "Ada",
        "--license",
        "https://creativecommons.org/licenses/by/4.0/",
    ];
    let told = c.cvc(&with_all).expect(0).stdout;
    assert!(told.contains("out/tables: 6 files"), "{told}");

    let refused = c.cvc(&with_all).expect(2).stderr;
    assert!(
        refused.contains("out/tables exists") && refused.contains("--replace"),
        "{refused}"
    );
    c.cvc(&[&with_all[..], &["--replace"]].concat()).expect(0);
    // without anything that only the user knows
    c.cvc(&["export", "campaign.toml", "--ro-crate", "out/plain"])
        .expect(0);

    let metadata = fs::read(c.dir().join("out/crate/ro-crate-metadata.json")).expect("metadata");
    let metadata: Value = serde_json::from_slice(&metadata).expect("JSON");
    let actions: Vec<&Value> = metadata["@graph"]
        .as_array()
        .expect("entities")
        .iter()
        .filter(|entity| entity["@type"] == "CreateAction")
        .collect();
    let failed = actions
        .iter()
        .filter(|a| a["actionStatus"] == "http://schema.org/FailedActionStatus");
    assert!(
        failed.clone().count() >= 1 && failed.clone().all(|a| a["error"].is_string()),
        "{actions:#?}"
    );
    assert!(failed.count() < actions.len(), "{actions:#?}");

    let validator = Tool::RoCrateValidator.find().expect("it is there");
    for name in ["out/crate", "out/plain"] {
        let checked = Command::new(&validator)
            .args([
                "validate",
                "-p",
                "process-run-crate",
                "-l",
                "REQUIRED",
                "--no-paging",
            ])
            .arg(name)
            .current_dir(c.dir())
            .output()
            .expect("the validator starts");
        let text = String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.success(), "{name}: {text}");
    }
}
