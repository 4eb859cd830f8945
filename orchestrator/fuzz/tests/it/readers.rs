//! Ten thousand inputs for every reader, the same each time.

use cvc_fuzz::{Campaign, TARGETS, Target, fuzz, seeds, target};
use std::{path::Path, time::Duration};

/// Inputs for each reader.
const INPUTS: u64 = 10_000;
/// Maximum length of a seed.
const MAX_SEED_BYTES: u64 = 20 << 10;
/// Maximum length of all seeds.
const MAX_ALL_BYTES: u64 = 300 << 10;

#[track_caller]
fn withstands(name: &str) {
    let target = target(name).expect("a target of this name");
    let dir = tempfile::tempdir().expect("a directory");
    let program = Path::new(env!("CARGO_BIN_EXE_cvc-fuzz"));
    let campaign = Campaign { program, target, run: 1, inputs: INPUTS, workers: 1, dir: dir.path() };
    let mut tried = 0;
    let failure = fuzz(&campaign, Duration::from_secs(3600), |progress| tried = progress.inputs).expect("workers");
    if let Some(failure) = failure {
        // it stays to be looked at
        let dir = dir.keep();
        panic!("{name} (run 1, files in {}): {failure}", dir.display());
    }
    assert_eq!(tried, INPUTS);
}

macro_rules! readers {
    ($($test:ident: $name:literal,)+) => {
        const TESTED: &[&str] = &[$($name),+];
        $(#[test]
        fn $test() {
            withstands($name);
        })+
    };
}

readers! {
    agent_requests_are_withstood: "agent-request",
    ansible_answers_are_withstood: "ansible-answer",
    ansible_events_are_withstood: "ansible-events",
    archives_are_withstood: "archive",
    campaign_files_are_withstood: "campaign-file",
    checkpoint_directories_are_withstood: "checkpoint-dir",
    tables_are_withstood: "csv",
    descriptors_are_withstood: "descriptor",
    dmtcp_events_are_withstood: "dmtcp-events",
    dmtcp_texts_are_withstood: "dmtcp-text",
    event_logs_are_withstood: "event-log",
    images_are_withstood: "image",
    ini_inventories_are_withstood: "inventory-ini",
    yaml_inventories_are_withstood: "inventory-yaml",
    journals_are_withstood: "journal",
    line_files_are_withstood: "line-file",
    manifests_are_withstood: "manifest",
    mount_tables_are_withstood: "mountinfo",
    node_lists_are_withstood: "node-list",
    relay_lines_are_withstood: "relay-line",
    sacct_is_withstood: "sacct",
    scontrol_is_withstood: "scontrol",
    sentinel_answers_are_withstood: "sentinel-answer",
    sentinel_requests_are_withstood: "sentinel-request",
    sinfo_is_withstood: "sinfo",
    squeue_json_is_withstood: "squeue-json",
    squeue_text_is_withstood: "squeue-text",
    ssh_logs_are_withstood: "ssh-log",
}

#[test]
fn every_target_is_tested() {
    assert_eq!(TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(), TESTED);
}

#[test]
fn every_target_has_a_program_for_libfuzzer() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");
    let manifest = std::fs::read_to_string(format!("{dir}/Cargo.toml")).expect("a manifest");
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
    for Target { name, .. } in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"")), "{name}");
        let program = std::fs::read_to_string(format!("{dir}/fuzz_targets/{name}.rs")).expect("a program");
        assert!(program.contains(&format!("cvc_fuzz::check(\"{name}\", bytes)")), "{program}");
    }
}

#[test]
fn seeds_are_small() {
    let mut all = 0;
    for target in TARGETS {
        for seed in seeds(target.name).expect("seeds") {
            let bytes = seed.path.metadata().expect("metadata").len();
            assert!(bytes <= MAX_SEED_BYTES, "{} has {bytes} bytes", seed.path.display());
            all += bytes;
        }
    }
    assert!(all <= MAX_ALL_BYTES, "{all} bytes");
}
