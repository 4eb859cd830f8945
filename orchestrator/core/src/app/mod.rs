//! Application descriptors: how a program is started, checked and measured.

pub mod descriptor;
pub mod embedded;
pub mod learn;
pub mod load;
pub mod source_file;
mod templates;

use crate::{
    app::{descriptor::Descriptor, source_file::SourceFile},
    point::Point,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A descriptor and the file that it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadedApp {
    /// The descriptor.
    pub descriptor: Descriptor,
    /// The file.
    pub path: PathBuf,
    /// BLAKE3 digest (hexadecimal) of the canonical JSON of the descriptor: comments and layout do not enter. Of files that are copied, the
    /// content enters, and not where they are.
    pub digest: String,
    /// The files that its input files are copies of, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceFile>,
}

/// The values that templates of a descriptor may use.
pub fn template_values(
    app: &Descriptor,
    point: &Point,
    program: &str,
    rundir: &str,
    storage: &str,
) -> Value {
    let vars = app
        .workloads
        .get(&point.class)
        .map(|w| json!(w.vars))
        .unwrap_or_else(|| json!({}));
    json!({
        "program": program,
        "class": point.class,
        "processes": point.processes(),
        "mapping": point.mapping.to_string(),
        "nodes": point.mapping.nodes(),
        "mpi": point.mpi,
        "rundir": rundir,
        "storage": storage,
        "user": point.user,
        "w": vars,
        "own_checkpoint": point.checkpointer.has_own_files(),
    })
}

/// The smallest MPI program, which comes with cvc: what its images hold is the MPI library's and DMTCP's.
pub const SMALLEST: &str = "kernel-idle";

/// Its shortest workload.
pub const SMALLEST_WORKLOAD: &str = "S";
