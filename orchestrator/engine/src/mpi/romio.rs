//! ROMIO: MPICH's I/O layer, which Open MPI can use as well. It reads hints from a file, and prints the resulting settings.

use super::{
    io_evidence::IoEvidence,
    launch::{Launch, LaunchRequest},
};
use crate::render::Template;
use cvc_core::io_settings::IoValue;
use cvc_core::mpi_io::MpiIo;
use std::collections::BTreeSet;

/// Configures ROMIO to read the hint file and to print its hints.
pub(super) fn configure(request: &LaunchRequest, launch: &mut Launch) {
    launch.files.push(("romio_hints", Template::ROMIO_HINTS));
    launch.env("ROMIO_HINTS", request.run_dir.join("romio_hints"));
    launch.env("ROMIO_PRINT_HINTS", "1");
}

/// Returns the hints of a run, which are values for the hint file's template.
pub(super) fn hints(request: &LaunchRequest) -> Vec<(&'static str, String)> {
    let mut hints = Vec::new();
    if let Some(aggregators) = request.aggregators {
        hints.push(("cb_nodes", aggregators.to_string()));
    }
    if let Some(per_node) = request.aggregators_per_node() {
        // without this ROMIO puts one aggregator on each node, whatever the value of cb_nodes
        hints.push(("cb_config_list", format!("*:{per_node}")));
    }
    if let Some(buffer) = request.cb_buffer {
        hints.push(("cb_buffer_size", buffer.0.to_string()));
    }
    if !hints.is_empty() {
        hints.push(("romio_cb_write", "enable".into()));
        hints.push(("romio_cb_read", "enable".into()));
    }
    for IoValue { key, value, .. } in request.io_of(MpiIo::Romio) {
        if hints.iter().all(|(name, _)| name != key) {
            hints.push((key, value.clone()));
        }
    }
    hints
}

/// Returns all values that ROMIO printed for a hint (`key = cb_nodes   value = 2`).
fn values<'a>(output: &'a str, key: &str) -> BTreeSet<&'a str> {
    output
        .lines()
        .filter_map(|line| {
            let (name, value) = line.trim().strip_prefix("key = ")?.split_once("value = ")?;
            (name.trim() == key).then_some(value.trim())
        })
        .collect()
}

/// Compares the requested hints with the hints that ROMIO printed.
pub(super) fn check(request: &LaunchRequest, stdout: &str, seen: &mut IoEvidence) {
    for (key, wanted) in hints(request) {
        let values = values(stdout, key);
        if values.is_empty() {
            seen.unseen.push(format!(
                "{key} = {wanted}: ROMIO printed no such hint, so no file was opened with it"
            ));
        } else if values.iter().any(|v| *v != wanted) {
            let values: Vec<_> = values.into_iter().collect();
            seen.ignored.push(format!(
                "{key} = {wanted} requested, but ROMIO used {}",
                values.join(" and ")
            ));
        }
    }
    let settings = request.io_of(MpiIo::Romio).map(|of| of.key);
    seen.selected.extend(settings.flat_map(|key| {
        let used = values(stdout, key).into_iter();
        used.map(move |value| format!("{key} = {value}"))
    }));
    let one = |key| values(stdout, key).first().and_then(|v| v.parse().ok());
    seen.aggregators = one("cb_nodes");
    seen.cb_buffer = one("cb_buffer_size");
    seen.selected.extend(
        values(stdout, "romio_aggregator_list")
            .iter()
            .map(|l| format!("aggregators on ranks {l}")),
    );
}
