//! Application descriptors: how a program is started, checked and measured.

pub mod descriptor;
pub mod embedded;
mod formula;
pub mod learn;
pub mod load;
pub mod replay;
pub mod size;
pub mod source_file;
mod templates;

use crate::{
    app::{descriptor::Descriptor, source_file::SourceFile},
    point::Point,
    strategy::CheckpointLayout,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A descriptor and the file from which it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadedApp {
    /// The descriptor.
    pub descriptor: Descriptor,
    /// The file.
    pub path: PathBuf,
    /// BLAKE3 digest (hexadecimal) of the canonical JSON of the descriptor, so that comments and formatting do not matter. Copied files enter by
    /// their contents, not by their paths.
    pub digest: String,
    /// The files that are copied to become input files, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceFile>,
}

/// Returns the values that templates of a descriptor may use at a point.
pub fn template_values(
    app: &Descriptor,
    point: &Point,
    program: &str,
    rundir: &str,
    storage: &str,
) -> Value {
    let vars = app
        .workload(&point.class)
        .map(|w| json!(w.vars))
        .unwrap_or_else(|_| json!({}));
    json!({
        "program": program,
        "class": point.class,
        "processes": point.processes(),
        "mapping": point.mapping.to_string(),
        "nodes": point.mapping.nodes(),
        "threads": point.threads().unwrap_or(1),
        "mpi": point.mpi,
        "rundir": rundir,
        "storage": storage,
        "user": point.user,
        "w": vars,
        "own_checkpoint": point.checkpointer.has_own_files(),
        "layout": app.layout_of(point).word(),
        "per_process": matches!(
            app.layout_of(point),
            CheckpointLayout::PerProcess | CheckpointLayout::Log
        ),
        "per_node": app.layout_of(point) == CheckpointLayout::PerNode,
        "strategy": point.strategy.way_of_program(),
        "writers": point.writers.word(),
        "when_late": point.when_late.word(),
    })
}

/// The smallest MPI program, a kernel of cvc: its images contain only memory of the MPI library and DMTCP.
pub const SMALLEST: &str = "kernel-idle";

/// The shortest workload of this program.
pub const SMALLEST_WORKLOAD: &str = "S";
