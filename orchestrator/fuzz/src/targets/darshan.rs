//! Targets for logs of Darshan.

use super::scratch::side;
use cvc_show::{PlotSink, trace_page};
use cvc_trace::document::{CounterRecords, TraceHead, compare, document};
use cvc_trace::{All, CsvRecords, Perfetto};
use cvc_trace::{
    DarshanLog, DarshanModule, DarshanVisitor, DxtRecord, DxtSegment, Event, FileId, Missing,
    Process, ProcessId, Sink,
    findings::{RequestedSettings, Thresholds, facts_of_profile, facts_of_summary, findings},
    profile::Profiler,
    read_dxt_of, summarize_each,
};
use std::{
    io::{self, Cursor},
    path::Path,
};

pub(crate) const WORDS: &[&str] = &[
    "3.41\0\0\0\0",
    "3.21\0\0\0\0",
    "3.00\0\0\0\0",
    "75d\0\0\0\0\0",
    "\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}",
    "\0\0\0\0\0\0\0\0",
    "x\u{1}",
    "BZh9",
    "\next4\t/\n",
];

/// The DXT segments of POSIX and of MPI-IO, each as offset and length.
#[derive(Default)]
struct Segments([Vec<(u64, i64)>; 2]);

impl DarshanVisitor for Segments {
    fn dxt_segment(&mut self, record: &DxtRecord, segment: &DxtSegment) -> io::Result<()> {
        let module = match record.module {
            DarshanModule::DxtPosix => 0,
            DarshanModule::DxtMpiIo => 1,
            other => panic!("{other:?} has no segments"),
        };
        self.0[module].push((segment.index, segment.length));
        Ok(())
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        assert!(!missing.part.is_empty() && !missing.problem.is_empty());
        Ok(())
    }
}

/// Numbers of processes, files and events.
#[derive(Default)]
struct Told([u64; 3]);

impl Sink for Told {
    fn process(&mut self, id: ProcessId, _: &Process) -> io::Result<()> {
        assert_eq!(u64::from(id.0), self.0[0]);
        self.0[0] += 1;
        Ok(())
    }

    fn file(&mut self, id: FileId, _: &[u8]) -> io::Result<()> {
        assert_eq!(u64::from(id.0), self.0[1]);
        self.0[1] += 1;
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        assert!(u64::from(event.process.0) < self.0[0] && u64::from(event.file.0) < self.0[1]);
        self.0[2] += 1;
        Ok(())
    }

    fn missing(&mut self, _: &Missing) -> io::Result<()> {
        Ok(())
    }
}

fn open(data: &[u8]) -> Option<DarshanLog<Cursor<&[u8]>>> {
    match DarshanLog::from_source(Cursor::new(data), Path::new("log")) {
        Ok(log) => Some(log),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

fn segments(data: &[u8]) -> Option<[Vec<(u64, i64)>; 2]> {
    let mut segments = Segments::default();
    // reading never fails: damage is reported as missing data
    open(data)?.read(&mut segments).expect("reads");
    Some(segments.0)
}

/// Checks the reader of logs: every segment becomes an event, and a truncated log has no segments that the whole log lacks.
pub(crate) fn log(data: &[u8]) {
    let Some(whole) = segments(data) else {
        return;
    };
    let mut told = Told::default();
    read_dxt_of(open(data).expect("opened before"), &mut told).expect("reads");
    let count: usize = whole.iter().map(Vec::len).sum();
    assert_eq!(told.0[2], count as u64);
    everything(data);
    if side(data, 4) == 0 {
        let end = side(data, 0xffff) as usize % (data.len() + 1);
        let shorter = segments(&data[..end]).unwrap_or_default();
        for (whole, shorter) in whole.iter().zip(&shorter) {
            assert!(whole.starts_with(shorter));
        }
    }
}

/// Computes all reports about a log, from its counters and from its events; no number may cause a panic.
fn everything(data: &[u8]) {
    let again = || open(data).expect("opened before");
    let mut csv = CsvRecords::new(Vec::new()).expect("a header");
    let mut records = CounterRecords::default();
    let mut each = |record: &cvc_trace::RecordSums<'_>| {
        records.add(record);
        csv.add(record)
    };
    let summary = summarize_each(again(), Some(&mut each)).expect("reads");
    let (mut profiler, mut perfetto, mut plots) = (
        Profiler::default(),
        Perfetto::default(),
        PlotSink::default(),
    );
    let mut sinks = All(vec![&mut profiler, &mut perfetto, &mut plots]);
    read_dxt_of(again(), &mut sinks).expect("reads");
    perfetto.write(io::sink()).expect("written");
    let profile = profiler.finish();
    let mut facts = facts_of_summary(&summary);
    facts.add_events(&facts_of_profile(&profile));
    let found = findings(&facts, RequestedSettings::default(), &Thresholds::default());
    let shown = document(TraceHead::default(), &profile, &found, None)
        .with_counters(std::slice::from_ref(&summary), records);
    if let Some(counted) = shown.counted() {
        let of_files = shown.files.iter().map(|f| f.writes.bytes);
        assert!(counted.written_bytes <= of_files.fold(0, u64::saturating_add));
    }
    compare((&profile, &shown), (&profile, &shown));
    trace_page(&shown, &plots.finish()).expect("a page");
}
