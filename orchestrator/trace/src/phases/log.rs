//! Reads the log of a process written by `trace-mpi-io`.

use super::progression::{Fold, Progression};
use crate::sink::Missing;
use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

/// Why a trace does not result in a model.
#[derive(Debug, thiserror::Error)]
pub enum PhaseError {
    /// The system cannot read the file.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file is not a valid log of the tracer.
    #[error("{path}: {problem}", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The logs do not belong together, or some are missing.
    #[error("{0}")]
    Unusable(String),
}

pub const INDIVIDUAL: u32 = 2;
pub const SHARED: u32 = 4;
pub const COLLECTIVE: u32 = 8;
pub const NON_BLOCKING: u32 = 16;
pub const POSIX: u32 = 32;
pub const SYNC: u32 = 64;
pub const WRITE: u32 = 1;

const MAGIC: &[u8; 8] = b"CVCMPIO1";
const HEADER_BYTES: usize = 64;
/// Maximum length of a record, bytes: that of a view with 2^18 segments. Longer records are treated as damage.
const MAX_RECORD_BYTES: usize = 8 << 20;

pub struct LogHeader {
    pub rank: u32,
    pub processes: u32,
    pub host: String,
}

pub struct FileRecord {
    pub file: u32,
    pub processes: u32,
    pub is_posix: bool,
    pub path: String,
}

/// A process's MPI-IO view of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewRecord {
    pub file: u32,
    pub view: u32,
    pub displacement: i64,
    pub etype_bytes: i64,
    pub filetype_bytes: i64,
    pub extent: i64,
    /// Positions and bytes of the pieces of the pattern; `None` if the tracer could not analyse the datatype.
    pub pieces: Option<Vec<(Progression, u64)>>,
}

#[derive(Clone, Copy)]
pub struct EventRecord {
    pub file: u32,
    pub view: u32,
    pub kind: u32,
    pub ticks: u32,
    pub offset: i64,
    pub bytes: u64,
    pub start_ns: u64,
    pub end_ns: u64,
}

pub enum LogRecord {
    File(FileRecord),
    View(ViewRecord),
    Event(EventRecord),
    Hint { file: u32, text: String },
    Mapped(u32),
    End { end_ns: u64 },
}

/// A log that is read from beginning to end.
pub struct Log {
    pub header: LogHeader,
    path: PathBuf,
    from: BufReader<File>,
    body: Vec<u8>,
    has_ended: bool,
}

/// Reads numbers from the front of a record.
struct Numbers<'b>(&'b [u8]);

impl Numbers<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (number, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*number)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }
}

/// Fills the buffer; returns fewer bytes only at the end of the input.
fn read_up_to(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

impl Log {
    pub fn open(path: &Path) -> Result<Self, PhaseError> {
        let io = |source| PhaseError::Io {
            path: path.to_owned(),
            source,
        };
        let mut from = BufReader::with_capacity(1 << 18, File::open(path).map_err(io)?);
        let mut head = [0; HEADER_BYTES];
        let n = read_up_to(&mut from, &mut head).map_err(io)?;
        let header = parse_header(head.get(..n).unwrap_or_default());
        let header = header.ok_or_else(|| PhaseError::Unreadable {
            path: path.to_owned(),
            problem: "not a log of trace-mpi-io, or of another version".to_owned(),
        })?;
        Ok(Self {
            header,
            path: path.to_owned(),
            from,
            body: Vec::new(),
            has_ended: false,
        })
    }

    /// Returns the next record, or a report that the end is missing; `None` after the last record.
    pub fn next(&mut self) -> Result<Option<Result<LogRecord, Missing>>, PhaseError> {
        if self.has_ended {
            return Ok(None);
        }
        let io = |source| PhaseError::Io {
            path: self.path.clone(),
            source,
        };
        let mut head = [0; 8];
        let n = read_up_to(&mut self.from, &mut head).map_err(io)?;
        let mut numbers = Numbers(&head);
        let (what, bytes) = (
            numbers.u32().unwrap_or_default(),
            numbers.u32().unwrap_or_default() as usize,
        );
        let mut problem = (n < 8).then_some("the log is cut off: the process did not end normally");
        if problem.is_none() && bytes > MAX_RECORD_BYTES {
            problem = Some("a record is damaged; the rest is left out");
        }
        if problem.is_none() {
            self.body.resize(bytes, 0);
            let n = read_up_to(&mut self.from, &mut self.body).map_err(io)?;
            if n < bytes {
                problem = Some("the log is cut off: the process did not end normally");
            }
        }
        let record = match problem {
            None => parse_record(what, &self.body),
            Some(_) => None,
        };
        self.has_ended = !matches!(
            record,
            Some(ref record) if !matches!(record, LogRecord::End { .. })
        );
        Ok(Some(record.ok_or_else(|| {
            Missing {
                part: format!("process {}", self.header.rank),
                problem: problem
                    .unwrap_or("a record is damaged; the rest is left out")
                    .to_owned(),
            }
        })))
    }
}

fn parse_header(bytes: &[u8]) -> Option<LogHeader> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let mut numbers = Numbers(rest);
    let (rank, processes, _began) = (numbers.u32()?, numbers.u32()?, numbers.u64()?);
    let header = LogHeader {
        rank,
        processes,
        host: text(numbers.0),
    };
    (bytes.len() == HEADER_BYTES && header.rank < header.processes).then_some(header)
}

/// Returns the text up to the first zero byte, or all of it.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

fn parse_record(what: u32, body: &[u8]) -> Option<LogRecord> {
    let mut n = Numbers(body);
    Some(match what {
        1 => {
            let (file, _mode, processes, is_posix) = (n.u32()?, n.u32()?, n.u32()?, n.u32()? != 0);
            LogRecord::File(FileRecord {
                file,
                processes,
                is_posix,
                path: text(n.0),
            })
        }
        2 => LogRecord::View(parse_view(&mut n)?),
        3 => LogRecord::Event(EventRecord {
            file: n.u32()?,
            view: n.u32()?,
            kind: n.u32()?,
            ticks: n.u32()?,
            offset: n.i64()?,
            bytes: n.u64()?,
            start_ns: n.u64()?,
            end_ns: n.u64()?,
        }),
        4 => LogRecord::Hint {
            file: n.u32()?,
            text: text(n.0),
        },
        5 => LogRecord::Mapped(n.u32()?),
        6 => LogRecord::End { end_ns: n.u64()? },
        _ => return None,
    })
}

fn parse_view(n: &mut Numbers<'_>) -> Option<ViewRecord> {
    let mut view = ViewRecord {
        file: n.u32()?,
        view: n.u32()?,
        displacement: n.i64()?,
        etype_bytes: n.i64()?,
        filetype_bytes: n.i64()?,
        extent: n.i64()?,
        pieces: None,
    };
    let count = n.i64()?;
    if count < 0 {
        return Some(view);
    }
    let mut pieces = Vec::new();
    let mut fold = (Fold::default(), 0);
    for _ in 0..count {
        let (at, bytes) = (n.i64()?, u64::try_from(n.i64()?).ok()?);
        if bytes != fold.1 {
            let (old, size) = std::mem::replace(&mut fold, (Fold::default(), bytes));
            pieces.extend(old.finish().into_iter().map(|p| (p, size)));
        }
        fold.0.push(at);
    }
    let (last, size) = fold;
    pieces.extend(last.finish().into_iter().map(|p| (p, size)));
    view.pieces = Some(pieces);
    Some(view)
}
