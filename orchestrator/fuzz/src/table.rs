//! The table of all targets.

use crate::targets::{
    agents, darshan, deltas, files, images, imports, install, inventories, nodes, programs, slurm,
    spec_files, ssh, tables, traces,
};

/// A reader under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the target and of its seeds' directory.
    pub name: &'static str,
    /// Passes bytes to the reader, and panics if a property does not hold.
    pub check: fn(&[u8]),
    /// Words of the format, which are inserted into inputs.
    pub words: &'static [&'static str],
}

const fn target_of(name: &'static str, check: fn(&[u8]), words: &'static [&'static str]) -> Target {
    Target { name, check, words }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target_of(
        "agent-request",
        agents::agent_request,
        agents::REQUEST_WORDS,
    ),
    target_of(
        "ansible-answer",
        inventories::answer,
        inventories::ANSWER_WORDS,
    ),
    target_of("ansible-events", install::ansible_events, install::WORDS),
    target_of("archive", files::archive, files::ARCHIVE_WORDS),
    target_of(
        "campaign-file",
        spec_files::campaign_file,
        spec_files::CAMPAIGN_WORDS,
    ),
    target_of("checkpoint-dir", images::checkpoint_dir, images::DIR_WORDS),
    target_of("csv", tables::csv, tables::WORDS),
    target_of("darshan-log", darshan::log, darshan::WORDS),
    target_of("delta-head", deltas::head, deltas::HEAD_WORDS),
    target_of("delta-series", deltas::series, deltas::SERIES_WORDS),
    target_of(
        "delta-signature",
        deltas::signature,
        deltas::SIGNATURE_WORDS,
    ),
    target_of("delta-state", deltas::state, deltas::STATE_WORDS),
    target_of(
        "descriptor",
        spec_files::descriptor,
        spec_files::DESCRIPTOR_WORDS,
    ),
    target_of("dftracer-trace", traces::dftracer, traces::DFTRACER_WORDS),
    target_of("dmtcp-events", images::dmtcp_events, images::EVENT_WORDS),
    target_of("dmtcp-text", images::dmtcp_text, images::TEXT_WORDS),
    target_of("event-log", files::event_log, files::LINE_WORDS),
    target_of("image", images::image, images::IMAGE_WORDS),
    target_of("import-json", imports::json, imports::JSON_WORDS),
    target_of("import-table", imports::table, imports::TABLE_WORDS),
    target_of("journal", files::journal, files::LINE_WORDS),
    target_of("line-file", files::lines, files::LINE_WORDS),
    target_of("manifest", files::manifest, files::MANIFEST_WORDS),
    target_of("metadata-counts", traces::counters, traces::COUNTER_WORDS),
    target_of("mountinfo", nodes::mountinfo, nodes::MOUNT_WORDS),
    target_of("node-list", slurm::node_list, slurm::LIST_WORDS),
    target_of("program", programs::program, programs::PROGRAM_WORDS),
    target_of("program-output", programs::output, programs::OUTPUT_WORDS),
    target_of("relay-line", agents::relay_line, agents::EVENT_WORDS),
    target_of("sacct", slurm::sacct, slurm::TEXT_WORDS),
    target_of("scontrol", slurm::scontrol, slurm::TEXT_WORDS),
    target_of(
        "sentinel-answer",
        nodes::sentinel_answer,
        nodes::ANSWER_WORDS,
    ),
    target_of(
        "sentinel-request",
        nodes::sentinel_request,
        nodes::REQUEST_WORDS,
    ),
    target_of("sinfo", slurm::sinfo, slurm::TEXT_WORDS),
    target_of("squeue-json", slurm::squeue_json, slurm::JSON_WORDS),
    target_of("squeue-text", slurm::squeue_text, slurm::TEXT_WORDS),
    target_of("ssh-log", ssh::log, ssh::WORDS),
    target_of("strace-trace", traces::strace, traces::STRACE_WORDS),
];

/// Returns the target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
