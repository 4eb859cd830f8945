//! Derives a model from a trace of another tracer: Darshan with DXT, strace, DFTracer. They do not record communication, so pauses separate phases.

use super::{
    accesses::ProcessAccesses,
    log::{EventRecord, FileRecord, INDIVIDUAL, POSIX, PhaseError, SYNC, WRITE},
    merge::model_of,
    model::{IoModel, Marks},
};
use crate::{
    event::{Api, Event, FileId, Op, ProcessId},
    profile::usual_gap_ns,
    read::read_trace,
    sink::{Missing, Process, Sink},
};
use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::PathBuf,
};

/// Directories whose files are not data of a program.
const SYSTEM: [&str; 9] = [
    "/bin/", "/dev/", "/etc/", "/lib", "/proc/", "/run/", "/sbin/", "/sys/", "/usr/",
];
/// Maximum number of missing parts that are kept with their messages.
const MOST_MISSING: usize = 8;

/// Returns the model of a trace, given by its files or directories. A phase of a process ends with a pause longer than `gap_ns`; the default is a
/// hundredth of the trace's duration, at least 1 ms.
///
/// # Errors
/// The trace cannot be read, or it has no reads and writes with offsets.
pub fn trace_model(paths: &[PathBuf], gap_ns: Option<u64>) -> Result<IoModel, PhaseError> {
    let mut events = Collected::default();
    let read = read_trace(paths, &mut events, None);
    read.map_err(|error| PhaseError::Unusable(error.to_string()))?;
    let span = events.span_ns.map_or(0, |(start, end)| end - start);
    let gap = gap_ns.unwrap_or_else(|| usual_gap_ns(span));
    let without_places = events.without_places;
    let missing = std::mem::take(&mut events.missing);
    let logs = events.logs(gap);
    if logs.is_empty() {
        let text = "the trace has no reads or writes of files with places: Darshan records them with DXT_ENABLE_IO_TRACE=1";
        return Err(PhaseError::Unusable(text.to_owned()));
    }
    let gap_s = gap as f64 / 1e9;
    let mut model = model_of(logs, 0);
    model.marks = Marks::Gaps { gap_s };
    model.phases_without_ticks = u64::from(model.phase_count());
    model.remarks.push(format!(
        "the trace has no communication: pauses of {gap_s:.3} s separate phases, and whether calls are collective or wait for other processes is unknown"
    ));
    if without_places > 0 {
        let text = format!("{without_places} reads and writes have no place, and are left out");
        model.remarks.push(text);
    }
    let missing = missing.iter();
    model
        .remarks
        .extend(missing.map(|of| format!("{}: {}", of.part, of.problem)));
    Ok(model)
}

/// An operation of a process.
struct Operation {
    file: FileId,
    is_mpi_io: bool,
    record: EventRecord,
}

/// The operations of a trace, in any order.
#[derive(Default)]
struct Collected {
    processes: BTreeMap<ProcessId, Process>,
    files: BTreeMap<FileId, String>,
    operations: BTreeMap<ProcessId, Vec<Operation>>,
    span_ns: Option<(u64, u64)>,
    without_places: u64,
    missing: Vec<Missing>,
}

fn is_data(path: &str) -> bool {
    path.starts_with('/')
        && !SYSTEM.iter().any(|dir| path.starts_with(dir))
        && !path.ends_with(".so")
        && !path.contains(".so.")
}

impl Sink for Collected {
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        self.processes.insert(id, process.clone());
        Ok(())
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        let path = String::from_utf8_lossy(path);
        if is_data(&path) {
            self.files.insert(id, path.into_owned());
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let (start, end) = self.span_ns.unwrap_or((event.start_ns, event.end_ns()));
        self.span_ns = Some((start.min(event.start_ns), end.max(event.end_ns())));
        let kind = match event.op {
            Op::Read => 0,
            Op::Write => WRITE,
            Op::Sync => SYNC,
            _ => return Ok(()),
        };
        if event.failed || !self.files.contains_key(&event.file) {
            return Ok(());
        }
        if kind != SYNC && event.bytes == 0 {
            return Ok(());
        }
        let Some(offset) = event.offset.or((kind == SYNC).then_some(0)) else {
            self.without_places += 1;
            return Ok(());
        };
        let is_mpi_io = event.api == Api::MpiIo;
        // which file pointer an MPI-IO call used is unknown; an explicit offset is assumed
        let how = if is_mpi_io { 0 } else { POSIX | INDIVIDUAL };
        self.operations
            .entry(event.process)
            .or_default()
            .push(Operation {
                file: event.file,
                is_mpi_io,
                record: EventRecord {
                    file: event.file.0,
                    view: u32::MAX,
                    kind: kind | how,
                    ticks: 0,
                    offset: i64::try_from(offset).unwrap_or(i64::MAX),
                    bytes: event.bytes,
                    start_ns: event.start_ns,
                    end_ns: event.end_ns(),
                },
            });
        Ok(())
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        // every trace has mappings of libraries
        if missing.part != "mappings" && self.missing.len() < MOST_MISSING {
            self.missing.push(missing.clone());
        }
        Ok(())
    }
}

impl Collected {
    /// Returns the accesses of each process. For a file accessed through MPI-IO, the POSIX calls that the MPI library makes are omitted.
    fn logs(mut self, gap_ns: u64) -> Vec<ProcessAccesses> {
        let all = self.operations.values().flatten();
        let by_mpi_io: HashSet<FileId> = all.filter(|o| o.is_mpi_io).map(|o| o.file).collect();
        for operations in self.operations.values_mut() {
            operations.retain(|o| o.is_mpi_io || !by_mpi_io.contains(&o.file));
            operations.sort_by_key(|o| o.record.start_ns);
        }
        self.operations
            .retain(|_, operations| !operations.is_empty());
        let mut order: Vec<(Option<u32>, ProcessId)> = self
            .operations
            .keys()
            .map(|id| (self.processes.get(id).and_then(|p| p.rank), *id))
            .collect();
        order.sort_unstable();
        let count = order.len() as u32;
        let begin = self.span_ns.map_or(0, |(start, _)| start);
        let run_ns = self.span_ns.map_or(0, |(start, end)| end - start);
        let mut logs = Vec::new();
        for (rank, (_, id)) in order.into_iter().enumerate() {
            let host = self.processes.get(&id).and_then(|p| p.host.clone());
            let mut log = ProcessAccesses::new(rank as u32, count, host.unwrap_or_default());
            log.run_ns = run_ns;
            let operations = self.operations.remove(&id).unwrap_or_default();
            self.fold(&mut log, operations, (begin, gap_ns));
            logs.push(log);
        }
        logs
    }

    fn fold(
        &self,
        log: &mut ProcessAccesses,
        operations: Vec<Operation>,
        (begin, gap): (u64, u64),
    ) {
        let mut names: BTreeMap<FileId, String> = BTreeMap::new();
        let mut end = 0;
        for Operation {
            file,
            is_mpi_io,
            mut record,
        } in operations
        {
            let Some(path) = self.files.get(&file) else {
                continue;
            };
            record.start_ns -= begin;
            record.end_ns -= begin;
            record.ticks = u32::from(record.start_ns.saturating_sub(end) > gap);
            end = record.end_ns.max(end);
            let name = names.entry(file).or_insert_with(|| {
                log.add_file(FileRecord {
                    file: file.0,
                    processes: 1,
                    is_posix: !is_mpi_io,
                    path: path.clone(),
                })
            });
            log.add_event(name.clone(), None, &record, 0);
        }
        log.close();
    }
}
