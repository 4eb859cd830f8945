//! The individual calls in the logs of `trace-mpi-io`.

use super::{
    log::{Log, LogRecord, PhaseError, SYNC, WRITE},
    merge::logs_in,
};
use crate::sink::Missing;
use std::{collections::HashMap, path::Path};

/// A call of a traced process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedCall<'p> {
    /// Path of the file.
    pub path: &'p str,
    /// Kind of the call.
    pub op: CallKind,
    /// Bytes moved.
    pub bytes: u64,
    /// Duration, nanoseconds.
    pub duration_ns: u64,
}

/// Kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Waits until written data are on storage.
    Sync,
}

impl CallKind {
    fn of(kind: u32) -> Self {
        match (kind & SYNC, kind & WRITE) {
            (0, 0) => Self::Read,
            (0, _) => Self::Write,
            _ => Self::Sync,
        }
    }
}

/// Calls `each` for every call in the logs of a directory, process by process. Returns the missing parts of the logs.
///
/// # Errors
/// There is no log, or a log cannot be read.
pub fn traced_calls(
    dir: &Path,
    each: &mut dyn FnMut(&TracedCall<'_>),
) -> Result<Vec<Missing>, PhaseError> {
    let mut missing = Vec::new();
    for path in logs_in(dir)? {
        let mut log = Log::open(&path)?;
        let mut names: HashMap<u32, String> = HashMap::new();
        while let Some(record) = log.next()? {
            match record {
                Ok(LogRecord::File(file)) => {
                    names.insert(file.file, file.path);
                }
                Ok(LogRecord::Event(event)) => {
                    if let Some(path) = names.get(&event.file) {
                        each(&TracedCall {
                            path,
                            op: CallKind::of(event.kind),
                            bytes: event.bytes,
                            duration_ns: event.end_ns.saturating_sub(event.start_ns),
                        });
                    }
                }
                Ok(
                    LogRecord::View(_)
                    | LogRecord::Hint { .. }
                    | LogRecord::Mapped(_)
                    | LogRecord::End { .. },
                ) => {}
                Err(of) => missing.push(of),
            }
        }
    }
    Ok(missing)
}
