//! The interface that receives what readers read.

use crate::event::{Event, FileId, ProcessId};
use std::{fmt, io, path::PathBuf};

/// A process of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its rank in `MPI_COMM_WORLD`, if the trace records it.
    pub rank: Option<u32>,
    /// Its PID, if the trace records it.
    pub pid: Option<u64>,
    /// The node on which it ran, if the trace records it.
    pub host: Option<String>,
    /// Its program, if the trace records it.
    pub program: Option<String>,
}

/// Returns the name of a process: its rank, else its PID.
pub(crate) fn name_of(process: Option<&Process>, id: ProcessId) -> String {
    match process {
        Some(Process {
            rank: Some(rank), ..
        }) => format!("rank {rank}"),
        Some(Process { pid: Some(pid), .. }) => format!("pid {pid}"),
        Some(_) | None => format!("process {}", id.0),
    }
}

/// Receives the contents of a trace, in order.
///
/// A process or file is announced before the first event with its ID. An error of the sink ends the reading and is returned by the reader.
pub trait Sink {
    /// Receives a process. A process is announced again when more about it is known, such as its program after `execve`.
    ///
    /// # Errors
    /// The sink fails, for example when it writes to a file.
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()>;

    /// Receives a file. `path` is as in the trace: bytes, possibly invalid UTF-8, of an absolute or relative path, or a name such as `<STDOUT>` or
    /// `pipe:[7]`.
    ///
    /// # Errors
    /// The same as for [`process`](Self::process).
    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()>;

    /// Receives an operation.
    ///
    /// # Errors
    /// The same as for [`process`](Self::process).
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// Receives a report of a part that the trace should have but lacks, or that the reader cannot show.
    ///
    /// # Errors
    /// The same as for [`process`](Self::process).
    fn missing(&mut self, missing: &Missing) -> io::Result<()>;
}

/// A part that a trace should have but lacks, or that the reader cannot show.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Missing {
    /// Name of the part, such as `module DXT_MPIIO` or `line 17`.
    pub part: String,
    /// What is missing and why: one sentence without initial capital and final full stop.
    pub problem: String,
}

/// Data about a text that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextSummary {
    /// Number of lines read.
    pub lines: u64,
    /// Start of the trace, nanoseconds since 1970, if the trace records it.
    pub began_unix_ns: Option<u64>,
}

/// Why a trace cannot be read at all, or that the sink failed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system cannot read the file.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The file is not a trace of this kind.
    #[error("{path} is not a {kind}: {problem}")]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// The expected kind, such as `Darshan log`.
        kind: &'static str,
        /// The reason.
        problem: String,
    },
    /// The sink failed.
    #[error("cannot write the result: {0}")]
    Sink(io::Error),
}

/// A sink that passes everything to several sinks, in order.
#[derive(Default)]
pub struct All<'a>(pub Vec<&'a mut dyn Sink>);

impl fmt::Debug for All<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sinks", self.0.len())
    }
}

impl Sink for All<'_> {
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|to| to.process(id, process))
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|to| to.file(id, path))
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|to| to.event(event))
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|to| to.missing(missing))
    }
}
