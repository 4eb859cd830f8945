//! The contract of a tracer.

use super::{records, totals::Totals};
use crate::{
    mpi::{Launcher, Missing},
    run::Findings,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::record::{Source, names};
use std::{collections::BTreeMap, fmt, fs, io};

/// Placeholder in words of [`Instrumentation::prefix`]. It is replaced by a dot and the node's name, or by nothing if there is only one node.
pub const NODE: &str = "{node}";

/// What a tracer adds to the launch of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instrumentation {
    /// Directories that must exist before the launch, on every node.
    pub dirs: Vec<Utf8PathBuf>,
    /// Words in front of the traced command; they may contain [`NODE`].
    pub prefix: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Environment variables of the ranks alone, such as libraries that launchers must not load.
    pub rank_env: BTreeMap<String, String>,
}

impl Instrumentation {
    /// Returns the words in front of the traced command, for a run on one node.
    pub fn words_here(&self) -> Vec<String> {
        self.prefix
            .iter()
            .map(|word| word.replace(NODE, ""))
            .collect()
    }

    /// Returns these additions, changed for a restart of the run: the restart's trace is stored next to the run's trace.
    pub fn for_restart(&self, tracer: &dyn Tracer, work: &Utf8Path) -> Self {
        let (Some(of_run), Some(of_restart)) = (tracer.trace(), tracer.restart_trace()) else {
            return Self::default();
        };
        let (from, to) = (work.join(of_run), work.join(of_restart));
        let moved = |text: &String| text.replace(from.as_str(), to.as_str());
        let values = |all: &BTreeMap<String, String>| {
            all.iter()
                .map(|(name, value)| (name.clone(), moved(value)))
                .collect()
        };
        Self {
            dirs: self
                .dirs
                .iter()
                .map(|dir| moved(&dir.to_string()).into())
                .collect(),
            prefix: self.prefix.iter().map(moved).collect(),
            env: values(&self.env),
            rank_env: values(&self.rank_env),
        }
    }
}

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the trace {path}: {problem}")]
pub struct TraceError {
    /// The file.
    pub path: Utf8PathBuf,
    /// The problem.
    pub problem: String,
}

impl TraceError {
    /// Returns a function that converts an I/O error on this file to a [`TraceError`].
    pub fn io(path: &Utf8Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |error| Self {
            path: path.to_owned(),
            problem: error.to_string(),
        }
    }
}

/// A tracer, which records the I/O of a run.
pub trait Tracer: Send + Sync {
    /// Name in campaign files.
    fn name(&self) -> &'static str;

    /// Display name.
    fn title(&self) -> &'static str;

    /// Finds its program or library on this machine.
    ///
    /// # Errors
    /// The tracer is not installed.
    fn find(&self) -> Result<Utf8PathBuf, Missing>;

    /// Returns the name of the tracer's library, if cvc compiles it together with the kernels for each MPI library; [`find`](Self::find) then returns
    /// an empty path.
    fn compiled(&self) -> Option<&'static str> {
        None
    }

    /// Checks that the tracer's program or library can trace programs of this family of MPI libraries.
    ///
    /// # Errors
    /// The tracer was built for another family.
    fn check_family(&self, _tool: &Utf8Path, _family: &dyn Launcher) -> Result<(), Missing> {
        Ok(())
    }

    /// Returns what the tracer adds to the launch of a run in this working directory.
    fn instrument(
        &self,
        tool: &Utf8Path,
        work: &Utf8Path,
        family: &dyn Launcher,
    ) -> Instrumentation;

    /// Returns the name of the run's trace in the working directory. The trace is a file, or a directory of files; it is fetched from every node and
    /// kept with the run.
    fn trace(&self) -> Option<&'static str>;

    /// Returns the name of the restart's trace in the working directory.
    fn restart_trace(&self) -> Option<String> {
        self.trace().map(|trace| format!("restart-{trace}"))
    }

    /// Adds the recorded operations of a run to `totals`, with memory that does not grow with their number. `trace` is the trace's file or directory,
    /// including the files fetched from other nodes.
    ///
    /// # Errors
    /// The trace cannot be read, or it is not a trace. Operations added before the error stay in `totals`. Gaps in the trace are no error, but are
    /// noted in `totals`.
    fn add_up(
        &self,
        trace: &Utf8Path,
        totals: &mut Totals<'_>,
    ) -> Result<(), cvc_trace::TraceError>;

    /// Records the size of a run's trace, and the sums from [`add_up`](Self::add_up), in `to`.
    ///
    /// # Errors
    /// The trace cannot be read. Earlier records stay, and so do records of the readable part.
    fn read(
        &self,
        trace: &Utf8Path,
        totals: &mut Totals<'_>,
        to: &mut Findings,
    ) -> Result<(), TraceError> {
        let files = files_of(trace)?;
        let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        to.count(names::TRACE_FILES, files.len() as f64, Source::Trace, &[]);
        to.bytes(names::TRACE_BYTES, bytes as f64, Source::FileSize, &[]);
        let read = self.add_up(trace, totals);
        if read.is_ok() || !totals.is_empty() {
            records::write(totals, trace.file_name(), to);
        }
        read.map_err(|error| TraceError {
            path: trace.to_owned(),
            problem: error.to_string(),
        })?;
        self.find_phases(trace, to)
    }

    /// Records the I/O phases of a run, if its trace shows them.
    ///
    /// # Errors
    /// The trace cannot be read.
    fn find_phases(&self, _trace: &Utf8Path, _to: &mut Findings) -> Result<(), TraceError> {
        Ok(())
    }

    /// Records the results of a restart's trace. `started` are the sums of the run before the restart.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    fn read_restart(
        &self,
        trace: &Utf8Path,
        started: &Totals<'_>,
        to: &mut Findings,
    ) -> Result<(), TraceError> {
        let files = files_of(trace)?;
        let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        to.bytes(
            names::RESTART_TRACE_BYTES,
            bytes as f64,
            Source::FileSize,
            &[],
        );
        let mut totals = Totals::new(started.places());
        let read = self.add_up(trace, &mut totals);
        if read.is_ok() || !totals.is_empty() {
            records::write_restart(started, &totals, trace.file_name(), to);
        }
        read.map_err(|error| TraceError {
            path: trace.to_owned(),
            problem: error.to_string(),
        })
    }

    /// Describes the effect of a missing tracer, for `cvc doctor`.
    fn cost_of_absence(&self) -> &'static str;
}

impl fmt::Debug for dyn Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the files of a trace with their lengths in bytes, sorted by name.
///
/// # Errors
/// The file or the directory cannot be read.
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
