//! What readers hand what they read to.

use crate::event::{Event, FileId, ProcessId};
use std::{io, path::PathBuf};

/// A process of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its rank in `MPI_COMM_WORLD`, where the trace tells.
    pub rank: Option<u32>,
    /// Its number for the system, where the trace tells.
    pub pid: Option<u64>,
    /// The node that it ran on, where the trace tells.
    pub host: Option<String>,
    /// Its program, where the trace tells.
    pub program: Option<String>,
}

/// Takes what a reader finds, in the order in which it stands in the trace.
///
/// A number is told of before the first event that bears it. Errors of a sink end the reading and come back from the reader.
pub trait Sink {
    /// A process. It is told of again when more is known of it, such as its program after an `execve`.
    ///
    /// # Errors
    /// When the sink cannot go on, such as a file that it writes.
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()>;

    /// A file. `path` is as in the trace: bytes, which need not be UTF-8, of a path that may be relative, or a name such as `<STDOUT>` or `pipe:[7]`.
    ///
    /// # Errors
    /// As of [`process`](Self::process).
    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()>;

    /// An operation.
    ///
    /// # Errors
    /// As of [`process`](Self::process).
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// Something that the trace should have and has not, or that it cannot show.
    ///
    /// # Errors
    /// As of [`process`](Self::process).
    fn missing(&mut self, missing: &Missing) -> io::Result<()>;
}

/// Something that a trace should have and has not, or that it cannot show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Of what, such as `module DXT_MPIIO`, `line 17`.
    pub part: String,
    /// What is missing and why, one sentence without a capital at its beginning and a full stop.
    pub problem: String,
}

/// What a reader of text came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextSummary {
    /// How many lines it read.
    pub lines: u64,
    /// The start of the trace in nanoseconds since 1970, where the trace tells it.
    pub began_unix_ns: Option<u64>,
}

/// A trace that cannot be read at all, or a sink that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system cannot read the file.
    #[error("cannot read {path}: {error}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is no trace of this kind.
    #[error("{path} is not a {kind}: {problem}")]
    NotATrace {
        /// Which file.
        path: PathBuf,
        /// What was expected, such as `Darshan log`.
        kind: &'static str,
        /// What speaks against it.
        problem: String,
    },
    /// What takes the events cannot go on.
    #[error("cannot write what was read: {0}")]
    Sink(io::Error),
}
