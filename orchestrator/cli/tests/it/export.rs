//! Tests of `cvc export` as users type it: tables that can be read by their schema, a crate that the validator accepts, and an artefact that cvc can
//! read again.

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
    // without the facts that only the user knows
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

/// A campaign imported from printed tables, which needs no MPI library.
const IMPORT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../experiments/papers/thesis/import/cloud.toml"
);

#[test]
fn an_artefact_has_the_report_that_was_written_and_is_replaced_only_if_asked() {
    let c = campaign("given", TEXT);
    c.cvc(&["import", IMPORT]).expect(0);
    let export = ["export", "thesis-cloud", "--artifact", "out/a.zip"];
    let told = c.cvc(&export).expect(0).stdout;
    assert!(
        told.starts_with("out/a.zip: ") && told.ends_with(", without a report\n"),
        "{told}"
    );
    let refused = c.cvc(&export).expect(2).stderr;
    assert!(
        refused.contains("out/a.zip exists") && refused.contains("--replace"),
        "{refused}"
    );
    c.cvc(&["report", "thesis-cloud"]).expect(0);
    // a quick build has no Parquet
    let form = if cfg!(feature = "parquet") {
        "--parquet"
    } else {
        "--csv"
    };
    let replace = [&export[..], &["--replace", form, "out/tables"]].concat();
    let told = c.cvc(&replace).expect(0).stdout;
    assert!(
        told.contains("out/tables: 6 files\n")
            && told.ends_with(", with the report in reports/thesis-cloud\n"),
        "{told}"
    );
    let first = fs::read(c.dir().join("out/a.zip")).expect("a zip");
    c.cvc(&replace).expect(0);
    assert!(first == fs::read(c.dir().join("out/a.zip")).expect("a zip"));
    let names = String::from_utf8_lossy(&first);
    assert!(names.contains("thesis-cloud/data/report/report.html"));

    c.put("mine.zip", "mine");
    let refused = c
        .cvc(&[
            "export",
            "thesis-cloud",
            "--artifact",
            "mine.zip",
            "--replace",
        ])
        .expect(2)
        .stderr;
    assert!(
        refused.contains("mine.zip exists and is not an artifact of cvc"),
        "{refused}"
    );
    assert_eq!(fs::read(c.dir().join("mine.zip")).expect("kept"), b"mine");
    let refused = c.cvc(&["export", "thesis-cloud", "--csv", "out/t", "--keep-names"]);
    assert!(refused.expect(2).stderr.contains("--artifact"));
}

#[test]
fn an_artefact_of_a_damaged_campaign_is_refused_with_the_line() {
    let c = campaign("given", TEXT);
    c.cvc(&["import", IMPORT]).expect(0);
    let journal = c.dir().join("campaigns/thesis-cloud/journal.jsonl");
    let text = fs::read_to_string(&journal).expect("a journal");
    fs::write(&journal, text.replacen("run-finished", "run-finishee", 1)).expect("damaged");
    let refused = c.cvc(&["export", "thesis-cloud", "--artifact", "a.zip"]);
    assert!(refused.code.is_some_and(|code| code != 0), "{refused:?}");
    assert!(
        refused.stderr.contains("journal.jsonl") && refused.stderr.contains("line"),
        "{}",
        refused.stderr
    );
    assert!(!c.dir().join("a.zip").exists());
}

#[test]
fn a_killed_export_leaves_a_whole_artefact_or_none() {
    let c = campaign("given", TEXT);
    c.cvc(&["import", IMPORT]).expect(0);
    let export = ["export", "thesis-cloud", "--artifact", "a.zip", "--replace"];
    c.cvc(&export).expect(0);
    let whole = fs::read(c.dir().join("a.zip")).expect("a zip");
    fs::remove_file(c.dir().join("a.zip")).expect("removed");
    for wait_ms in [1, 20, 50, 80, 120, 200, 300, 500] {
        let mut running = c.start(&export);
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        let was_alive = running.is_alive();
        running.kill();
        match fs::read(c.dir().join("a.zip")) {
            Ok(found) => assert!(found == whole, "half a file after {wait_ms} ms"),
            Err(_) => assert!(was_alive, "no file"),
        }
    }
    c.cvc(&export).expect(0);
    let left: Vec<_> = fs::read_dir(c.dir())
        .expect("the directory")
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(".artifact"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
