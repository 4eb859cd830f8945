//! The contract of a tracer.

use super::{places::Places, records, totals::Totals};
use crate::{
    mpi::{Launcher, Missing},
    run::Findings,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::record::{Source, names};
use std::{collections::BTreeMap, fmt, fs, io};

/// Stands for a dot and the name of the node in words of [`Instrumentation::prefix`], and for nothing where there is only one node.
pub const NODE: &str = "{node}";

/// What a tracer adds to the launch of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instrumentation {
    /// Directories that must be there first, on every node.
    pub dirs: Vec<Utf8PathBuf>,
    /// Words before the command that is traced, in which [`NODE`] may be.
    pub prefix: Vec<String>,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// Environment of the ranks alone, such as libraries that launchers must not load.
    pub rank_env: BTreeMap<String, String>,
}

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the trace {path}: {problem}")]
pub struct TraceError {
    /// Which file.
    pub path: Utf8PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

impl TraceError {
    /// The system cannot read this file.
    pub fn io(path: &Utf8Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |error| Self {
            path: path.to_owned(),
            problem: error.to_string(),
        }
    }
}

/// Records the I/O of a run.
pub trait Tracer: Send + Sync {
    /// Name in campaign files.
    fn name(&self) -> &'static str;

    /// Name for people.
    fn title(&self) -> &'static str;

    /// Finds its program or library on this machine.
    ///
    /// # Errors
    /// When it is not installed.
    fn find(&self) -> Result<Utf8PathBuf, Missing>;

    /// Returns what it adds to the launch of a run that works in this directory.
    fn instrument(
        &self,
        tool: &Utf8Path,
        work: &Utf8Path,
        family: &dyn Launcher,
    ) -> Instrumentation;

    /// Returns the name in the working directory of what it records, a file or a directory of files, which is fetched from every node and kept
    /// beside the run.
    fn trace(&self) -> Option<&'static str>;

    /// Hands the operations that it has recorded of a run to `totals`, in memory that does not grow with their number. `trace` is its file or
    /// directory, with what was fetched from other nodes.
    ///
    /// # Errors
    /// When the trace cannot be read, or is none. What was handed over before stays; mere gaps are told to `totals`.
    fn add_up(
        &self,
        trace: &Utf8Path,
        totals: &mut Totals<'_>,
    ) -> Result<(), cvc_trace::TraceError>;

    /// Makes records of what it has recorded of a run: how large the trace is, and what [`add_up`](Self::add_up) comes to.
    ///
    /// # Errors
    /// When the trace cannot be read. What is recorded before stays, and so do records of what could be read.
    fn read(
        &self,
        trace: &Utf8Path,
        places: Places<'_>,
        to: &mut Findings,
    ) -> Result<(), TraceError> {
        let files = files_of(trace)?;
        let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        to.count(names::TRACE_FILES, files.len() as f64, Source::Trace, &[]);
        to.bytes(names::TRACE_BYTES, bytes as f64, Source::FileSize, &[]);
        let mut totals = Totals::new(places);
        let read = self.add_up(trace, &mut totals);
        if read.is_ok() || !totals.is_empty() {
            records::write(&totals, trace.file_name(), to);
        }
        read.map_err(|error| TraceError {
            path: trace.to_owned(),
            problem: error.to_string(),
        })
    }

    /// What its absence costs, for the doctor.
    fn cost_of_absence(&self) -> &'static str;
}

impl fmt::Debug for dyn Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The files of a trace with their lengths in bytes, in the order of their names.
///
/// # Errors
/// When the file or the directory cannot be read.
pub fn files_of(trace: &Utf8Path) -> Result<Vec<(Utf8PathBuf, u64)>, TraceError> {
    let metadata = fs::metadata(trace).map_err(TraceError::io(trace))?;
    if !metadata.is_dir() {
        return Ok(vec![(trace.to_owned(), metadata.len())]);
    }
    let mut files = Vec::new();
    for entry in trace.read_dir_utf8().map_err(TraceError::io(trace))? {
        let entry = entry.map_err(TraceError::io(trace))?;
        files.push((
            entry.path().to_owned(),
            entry
                .metadata()
                .map_err(TraceError::io(entry.path()))?
                .len(),
        ));
    }
    files.sort();
    Ok(files)
}
