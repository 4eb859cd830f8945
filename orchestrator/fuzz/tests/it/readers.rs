//! Ten thousand inputs for every reader, the same each time. More and others: `CVC_FUZZ_INPUTS=1000000 CVC_FUZZ_RUN=2 cargo test -p cvc-fuzz`.
//! A reader that hangs or takes too much memory is ended by the time limit of tests, and by the limit here.

use cvc_fuzz::{TARGETS, input, seeds, target};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{env, panic};

/// Inputs for each reader.
const INPUTS: u64 = 10_000;
/// Maximum length of a seed.
const MAX_SEED_BYTES: u64 = 20 << 10;
/// Maximum length of all seeds.
const MAX_ALL_BYTES: u64 = 300 << 10;
/// Memory of a test: readers are given kilobytes.
const MAX_MEMORY_BYTES: u64 = 4 << 30;
/// Bytes of an input that are shown.
const SHOWN: usize = 400;

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}: `{text}` is not a number"))
    })
}

#[track_caller]
fn withstands(name: &str) {
    let (_, hard) = getrlimit(Resource::RLIMIT_AS).expect("a limit");
    setrlimit(Resource::RLIMIT_AS, MAX_MEMORY_BYTES.min(hard), hard).expect("a limit");
    let (target, seeds) = (
        target(name).expect("a target of this name"),
        seeds(name).expect("seeds"),
    );
    let run = number("CVC_FUZZ_RUN", 1);
    for number in 0..number("CVC_FUZZ_INPUTS", INPUTS) {
        let bytes = input(target, &seeds, run, number);
        if let Err(problem) = panic::catch_unwind(|| (target.check)(&bytes)) {
            let hex: String = bytes
                .iter()
                .take(SHOWN)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            eprintln!(
                "{name}: input {number} of run {run}, {} bytes: {hex}",
                bytes.len()
            );
            panic::resume_unwind(problem);
        }
    }
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
    darshan_logs_are_withstood: "darshan-log",
    heads_of_deltas_are_withstood: "delta-head",
    manifests_of_deltas_are_withstood: "delta-series",
    hashes_of_deltas_are_withstood: "delta-signature",
    states_of_deltas_are_withstood: "delta-state",
    descriptors_are_withstood: "descriptor",
    dftracer_traces_are_withstood: "dftracer-trace",
    dmtcp_events_are_withstood: "dmtcp-events",
    dmtcp_texts_are_withstood: "dmtcp-text",
    event_logs_are_withstood: "event-log",
    images_are_withstood: "image",
    results_of_other_programs_are_withstood: "import-json",
    tables_for_import_are_withstood: "import-table",
    journals_are_withstood: "journal",
    line_files_are_withstood: "line-file",
    manifests_are_withstood: "manifest",
    counts_of_metadata_operations_are_withstood: "metadata-counts",
    mount_tables_are_withstood: "mountinfo",
    node_lists_are_withstood: "node-list",
    programs_are_withstood: "program",
    outputs_of_programs_are_withstood: "program-output",
    relay_lines_are_withstood: "relay-line",
    sacct_is_withstood: "sacct",
    scontrol_is_withstood: "scontrol",
    sentinel_answers_are_withstood: "sentinel-answer",
    sentinel_requests_are_withstood: "sentinel-request",
    sinfo_is_withstood: "sinfo",
    squeue_json_is_withstood: "squeue-json",
    squeue_text_is_withstood: "squeue-text",
    ssh_logs_are_withstood: "ssh-log",
    strace_traces_are_withstood: "strace-trace",
}

#[test]
fn every_target_is_tested() {
    assert_eq!(
        TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(),
        TESTED
    );
}

#[test]
fn seeds_are_small() {
    let mut all = 0;
    for target in TARGETS {
        for seed in seeds(target.name).expect("seeds") {
            let bytes = seed.path.metadata().expect("metadata").len();
            assert!(
                bytes <= MAX_SEED_BYTES,
                "{} has {bytes} bytes",
                seed.path.display()
            );
            all += bytes;
        }
    }
    assert!(all <= MAX_ALL_BYTES, "{all} bytes");
}
