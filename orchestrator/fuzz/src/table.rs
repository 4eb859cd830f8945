//! All targets, and a test for each.

use crate::targets::{agents, files, images, install, inventories, nodes, slurm, spec_files, ssh, tables};

/// A reader under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of the directory of its seeds.
    pub name: &'static str,
    /// Gives bytes to the reader and panics if something does not hold.
    pub check: fn(&[u8]),
    /// Words of the format, which are put into seeds.
    pub words: &'static [&'static str],
}

macro_rules! targets {
    ($($name:ident: $check:expr, $words:expr;)+) => {
        /// Every target.
        pub const TARGETS: &[Target] = &[$(Target { name: stringify!($name), check: $check, words: $words }),+];

        #[cfg(test)]
        mod withstands {
            $(#[test]
            fn $name() {
                crate::harness::withstands(stringify!($name), concat!(module_path!(), "::", stringify!($name)));
            })+
        }
    };
}

targets! {
    agent_request: agents::agent_request, agents::REQUEST_WORDS;
    ansible_answer: inventories::answer, inventories::ANSWER_WORDS;
    ansible_events: install::ansible_events, install::WORDS;
    archive: files::archive, files::ARCHIVE_WORDS;
    campaign_file: spec_files::campaign_file, spec_files::CAMPAIGN_WORDS;
    checkpoint_dir: images::checkpoint_dir, images::DIR_WORDS;
    csv: tables::csv, tables::WORDS;
    descriptor: spec_files::descriptor, spec_files::DESCRIPTOR_WORDS;
    dmtcp_events: images::dmtcp_events, images::EVENT_WORDS;
    dmtcp_text: images::dmtcp_text, images::TEXT_WORDS;
    event_log: files::event_log, files::LINE_WORDS;
    image: images::image, images::IMAGE_WORDS;
    inventory_ini: inventories::ini, inventories::INI_WORDS;
    inventory_yaml: inventories::yaml, inventories::YAML_WORDS;
    journal: files::journal, files::LINE_WORDS;
    line_file: files::lines, files::LINE_WORDS;
    manifest: files::manifest, files::MANIFEST_WORDS;
    mountinfo: nodes::mountinfo, nodes::MOUNT_WORDS;
    node_list: slurm::node_list, slurm::LIST_WORDS;
    relay_line: agents::relay_line, agents::EVENT_WORDS;
    sacct: slurm::sacct, slurm::TEXT_WORDS;
    scontrol: slurm::scontrol, slurm::TEXT_WORDS;
    sentinel_answer: nodes::sentinel_answer, nodes::ANSWER_WORDS;
    sentinel_request: nodes::sentinel_request, nodes::REQUEST_WORDS;
    sinfo: slurm::sinfo, slurm::TEXT_WORDS;
    squeue_json: slurm::squeue_json, slurm::JSON_WORDS;
    squeue_text: slurm::squeue_text, slurm::TEXT_WORDS;
    ssh_log: ssh::log, ssh::WORDS;
}

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
