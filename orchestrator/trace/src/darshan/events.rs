//! Converts the reads and writes of DXT to events.

use super::{
    header::DarshanHeader,
    log::DarshanLog,
    module::DarshanModule,
    summary::DarshanSummary,
    visitor::{DarshanRecordId, DarshanVisitor, DxtRecord, DxtSegment},
};
use crate::{
    event::{Api, Event, FileId, Op, ProcessId},
    sink::{Missing, Process, Sink, TraceError},
};
use std::{
    collections::{HashMap, hash_map::Entry},
    io::{self, Read, Seek},
    path::Path,
};

/// Maximum number of files that are distinguished; also that of ranks. The largest machines have 600,000 cores. A table of this size takes 18 MB, and
/// 27 MB while it grows for the last time.
const MAX_KNOWN: usize = 900_000;
/// Value in `processes` for a rank without events so far.
const UNANNOUNCED: u32 = u32::MAX;
/// Maximum total length of the names that wait for the first event of their file, bytes. Further files are announced to the sink at once, even if
/// they have no events.
const MAX_WAITING_BYTES: usize = 8 << 20;

/// Reads a log with DXT. Each segment becomes an event, in the order of the log: record by record.
///
/// Times are in nanoseconds since the start of the job. The rest of the log is skipped.
///
/// # Errors
/// The system cannot read the log, it is not a log of Darshan 3 with a header, or the sink fails.
pub fn read_dxt(path: &Path, sink: &mut impl Sink) -> Result<(), TraceError> {
    read_dxt_of(DarshanLog::open(path)?, sink)
}

/// Reads a log with DXT that is already open, as [`read_dxt`] does.
///
/// # Errors
/// The system cannot read the rest of the log, or the sink fails.
pub fn read_dxt_of<R: Read + Seek>(
    log: DarshanLog<R>,
    sink: &mut impl Sink,
) -> Result<(), TraceError> {
    read_unreported(log, &[], sink)
}

/// Reads the events of a log whose counters have already been summed. Missing parts that were reported before are not reported again.
///
/// # Errors
/// The same as for [`read_dxt`].
pub fn read_dxt_after(
    path: &Path,
    summary: &DarshanSummary,
    sink: &mut impl Sink,
) -> Result<(), TraceError> {
    if !summary.header.has_events() {
        return Ok(());
    }
    read_unreported(DarshanLog::open(path)?, &summary.missing, sink)
}

fn read_unreported<R: Read + Seek>(
    log: DarshanLog<R>,
    reported: &[Missing],
    sink: &mut impl Sink,
) -> Result<(), TraceError> {
    log.read(&mut Events {
        sink,
        reported,
        files: HashMap::new(),
        next_file: 0,
        waiting: Vec::new(),
        processes: Vec::new(),
        next_process: 0,
        event: Event {
            process: ProcessId(0),
            thread: 0,
            file: FileId(0),
            op: Op::Read,
            api: Api::Posix,
            offset: None,
            bytes: 0,
            start_ns: 0,
            duration_ns: 0,
            failed: false,
        },
        further_file: None,
        further_process: None,
    })
}

/// Whether the file of a record has been announced to the sink.
enum FileAnnouncement {
    /// Not yet; its name begins at this offset in [`Events::waiting`].
    Waiting(u32),
    Announced(FileId),
}

struct Events<'a, S> {
    sink: &'a mut S,
    /// Missing parts that were reported before.
    reported: &'a [Missing],
    files: HashMap<DarshanRecordId, FileAnnouncement>,
    next_file: u32,
    /// Names of files that are not announced yet, each followed by a zero byte.
    waiting: Vec<u8>,
    /// The process of every rank, or [`UNANNOUNCED`].
    processes: Vec<u32>,
    next_process: u32,
    /// The fields that all events of a record have in common.
    event: Event,
    further_file: Option<FileId>,
    further_process: Option<ProcessId>,
}

impl<S: Sink> Events<'_, S> {
    fn announce_file(&mut self, path: &[u8]) -> io::Result<FileId> {
        let id = FileId(self.next_file);
        self.next_file += 1;
        self.sink.file(id, path)?;
        Ok(id)
    }

    fn file(&mut self, record: DarshanRecordId) -> io::Result<FileId> {
        let file = match self.files.get(&record) {
            Some(&FileAnnouncement::Announced(file)) => return Ok(file),
            Some(&FileAnnouncement::Waiting(at)) => {
                let rest = self.waiting.get(at as usize..).unwrap_or_default();
                let name = rest.split(|&byte| byte == 0).next().unwrap_or_default();
                let id = FileId(self.next_file);
                self.next_file += 1;
                self.sink.file(id, name)?;
                id
            }
            None if self.files.len() < MAX_KNOWN => {
                self.announce_file(format!("<record {}>", record.0).as_bytes())?
            }
            None => return self.further_file(),
        };
        self.files.insert(record, FileAnnouncement::Announced(file));
        Ok(file)
    }

    /// Returns the file that stands for all files above the maximum number.
    fn further_file(&mut self) -> io::Result<FileId> {
        if let Some(file) = self.further_file {
            return Ok(file);
        }
        self.report_too_many("files")?;
        let file = self.announce_file(b"<further files>")?;
        self.further_file = Some(file);
        Ok(file)
    }

    /// Returns the process that stands for all ranks that are too high or negative.
    fn further_process(&mut self) -> io::Result<ProcessId> {
        if let Some(process) = self.further_process {
            return Ok(process);
        }
        self.report_too_many("ranks")?;
        let process = self.announce_process(&Process::default())?;
        self.further_process = Some(process);
        Ok(process)
    }

    fn report_too_many(&mut self, what: &str) -> io::Result<()> {
        self.sink.missing(&Missing {
            part: "records of DXT".to_owned(),
            problem: format!(
                "they are of more than {MAX_KNOWN} {what}; further ones are counted as one"
            ),
        })
    }

    fn announce_process(&mut self, process: &Process) -> io::Result<ProcessId> {
        let id = ProcessId(self.next_process);
        self.next_process += 1;
        self.sink.process(id, process)?;
        Ok(id)
    }

    fn process(&mut self, record: &DxtRecord) -> io::Result<ProcessId> {
        let place = usize::try_from(record.rank).unwrap_or(usize::MAX);
        if place >= MAX_KNOWN {
            return self.further_process();
        }
        if self.processes.len() <= place {
            self.processes.resize(place + 1, UNANNOUNCED);
        }
        if self.processes[place] != UNANNOUNCED {
            return Ok(ProcessId(self.processes[place]));
        }
        let host = String::from_utf8_lossy(&record.host).into_owned();
        let process = Process {
            rank: u32::try_from(record.rank).ok(),
            host: Some(host).filter(|host| !host.is_empty()),
            ..Process::default()
        };
        let id = self.announce_process(&process)?;
        self.processes[place] = id.0;
        Ok(id)
    }
}

impl<S: Sink> DarshanVisitor for Events<'_, S> {
    fn wants(&mut self, module: DarshanModule) -> bool {
        matches!(module, DarshanModule::DxtPosix | DarshanModule::DxtMpiIo)
    }

    fn header(&mut self, header: &DarshanHeader) -> io::Result<()> {
        if header.modules.iter().any(|info| self.wants(info.module)) {
            return Ok(());
        }
        self.sink.missing(&Missing {
            part: "modules DXT_POSIX and DXT_MPIIO".to_owned(),
            problem: "the log has neither, so it shows no single operations; hint: DXT_ENABLE_IO_TRACE=1 \
                      in the environment of the run"
                .to_owned(),
        })
    }

    fn name(&mut self, id: DarshanRecordId, name: &[u8]) -> io::Result<()> {
        let full = self.files.len() >= MAX_KNOWN;
        let wait = u32::try_from(self.waiting.len())
            .ok()
            .filter(|_| self.waiting.len() + name.len() < MAX_WAITING_BYTES);
        match self.files.entry(id) {
            Entry::Occupied(_) => return Ok(()),
            Entry::Vacant(_) if full || name.is_empty() => return Ok(()),
            Entry::Vacant(entry) => {
                if let Some(at) = wait {
                    entry.insert(FileAnnouncement::Waiting(at));
                    self.waiting.extend_from_slice(name);
                    self.waiting.push(0);
                    return Ok(());
                }
            }
        }
        let file = self.announce_file(name)?;
        self.files.insert(id, FileAnnouncement::Announced(file));
        Ok(())
    }

    fn dxt_record(&mut self, record: &DxtRecord) -> io::Result<()> {
        self.event.process = self.process(record)?;
        self.event.file = self.file(record.id)?;
        self.event.api = if record.module == DarshanModule::DxtPosix {
            Api::Posix
        } else {
            Api::MpiIo
        };
        Ok(())
    }

    #[inline]
    fn dxt_segment(&mut self, _: &DxtRecord, segment: &DxtSegment) -> io::Result<()> {
        let (start_ns, end_ns) = (nanoseconds(segment.start_s), nanoseconds(segment.end_s));
        let length = u64::try_from(segment.length);
        self.sink.event(&Event {
            thread: segment.thread.unwrap_or(0),
            op: segment.op,
            offset: u64::try_from(segment.offset).ok(),
            bytes: length.unwrap_or(0),
            start_ns,
            duration_ns: end_ns.saturating_sub(start_ns),
            failed: length.is_err(),
            ..self.event
        })
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        if self.reported.contains(missing) {
            return Ok(());
        }
        self.sink.missing(missing)
    }
}

/// Converts seconds to nanoseconds, rounded. Invalid times become 0, and times that are too long become the maximum.
#[inline]
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9 + 0.5) as u64
}
