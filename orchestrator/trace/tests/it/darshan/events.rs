//! DXT segments as events.

use super::{data, log_bytes, made, printed, write::Order};
use cvc_trace::{
    Api, DarshanLog, Event, FileId, Missing, Op, Process, ProcessId, Sink, TraceError, read_dxt,
    read_dxt_of,
};
use std::io::{self, Cursor};

#[derive(Default)]
struct Kept {
    processes: Vec<Process>,
    files: Vec<Vec<u8>>,
    events: Vec<Event>,
    missing: Vec<Missing>,
    /// Number of events after which the sink fails.
    room: Option<usize>,
}

impl Sink for Kept {
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        assert_eq!(id.0 as usize, self.processes.len());
        self.processes.push(process.clone());
        Ok(())
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        assert_eq!(id.0 as usize, self.files.len());
        self.files.push(path.to_vec());
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        assert!((event.process.0 as usize) < self.processes.len());
        assert!((event.file.0 as usize) < self.files.len());
        if self.room == Some(self.events.len()) {
            return Err(io::Error::other("full"));
        }
        self.events.push(*event);
        Ok(())
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        self.missing.push(missing.clone());
        Ok(())
    }
}

fn kept(bytes: &[u8]) -> Kept {
    let mut kept = Kept::default();
    let log = DarshanLog::from_source(Cursor::new(bytes), "log".as_ref()).unwrap();
    read_dxt_of(log, &mut kept).unwrap();
    kept
}

/// Returns events as lines in the format of `darshan-dxt-parser`.
fn lines(kept: &Kept) -> Vec<String> {
    let line = |event: &Event| {
        let api = match event.api {
            Api::Posix => "X_POSIX",
            Api::MpiIo => "X_MPIIO",
            other => panic!("{other:?}"),
        };
        format!(
            "{api} {} {} {} {}",
            kept.processes[event.process.0 as usize].rank.unwrap(),
            event.op.word(),
            event
                .offset
                .map_or("-1".to_owned(), |offset| offset.to_string()),
            event.bytes,
        )
    };
    kept.events.iter().map(line).collect()
}

#[test]
fn every_segment_becomes_an_event() {
    for name in ["mpich-btioS-simple-np4", "ompi-ompio-btioW-full-np9"] {
        let mut kept = Kept::default();
        read_dxt(&data(&format!("{name}.darshan")), &mut kept).unwrap();
        let theirs = printed(&format!("{name}.dxt"));
        let fields =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        let theirs: Vec<_> = theirs
            .lines()
            .filter(|line| line.starts_with(" X_"))
            .map(fields)
            .collect();
        let expected: Vec<_> = theirs
            .iter()
            .map(|fields| {
                format!(
                    "{} {} {} {} {}",
                    fields[0], fields[1], fields[2], fields[4], fields[5]
                )
            })
            .collect();
        assert_eq!(lines(&kept), expected);
        for (event, fields) in kept.events.iter().zip(&theirs) {
            let seconds = |ns: u64| format!("{:.4}", ns as f64 / 1e9);
            // both are rounded, but from different numbers of digits
            let near = |ours: String, theirs: &str| {
                let [ours, theirs] = [&ours, theirs].map(|time| time.parse::<f64>().unwrap());
                (ours - theirs).abs() < 1.5e-4
            };
            assert!(near(seconds(event.start_ns), &fields[6]));
            assert!(near(seconds(event.end_ns()), &fields[7]));
        }
        assert_eq!(kept.missing, []);
    }
}

#[test]
fn files_have_their_names_and_processes_their_nodes() {
    let kept = kept(&log_bytes("mpich-btioS-full-np4"));
    assert_eq!(
        kept.files,
        [b"/home/hpc/run/mpich-btioS-full-np4/btio.full.out"]
    );
    let ranks: Vec<_> = kept
        .processes
        .iter()
        .map(|process| process.rank.unwrap())
        .collect();
    assert_eq!(ranks, [0, 1, 2, 3]);
    assert!(
        kept.processes
            .iter()
            .all(|process| process.host.as_deref() == Some("vm"))
    );
}

#[test]
fn times_are_nanoseconds_and_threads_are_those_of_the_log() {
    let kept = kept(&made::newest(Order::Big, 1).bytes());
    let first = kept.events[1];
    assert_eq!(
        (first.start_ns, first.duration_ns),
        (750_000_000, 125_000_000)
    );
    assert_eq!(
        (first.op, first.offset, first.bytes),
        (Op::Write, Some(16384), 100)
    );
    assert_eq!(first.thread, 140_000_000_000_064);
    assert_eq!(kept.missing, []);
    assert_eq!(kept.events.len(), 24);
}

#[test]
fn an_offset_that_the_version_does_not_have_is_none() {
    let mut log = made::newest(Order::Little, 0);
    log.modules.retain(|module| module.place == 11);
    log.modules[0].version = 1;
    log.modules[0].streams = vec![made::one_segment(5, 4096)];
    let kept = kept(&log.bytes());
    assert_eq!(kept.events.len(), 1);
    assert_eq!((kept.events[0].offset, kept.events[0].bytes), (None, 4096));
}

#[test]
fn a_file_without_a_name_has_its_number() {
    let mut log = made::newest(Order::Little, 0);
    log.names.clear();
    let kept = kept(&log.bytes());
    assert_eq!(kept.files, [b"<record 11>", b"<record 22>"]);
}

#[test]
fn a_log_without_dxt_is_told() {
    let mut log = made::newest(Order::Little, 0);
    log.modules.retain(|module| module.place < 10);
    let kept = kept(&log.bytes());
    assert_eq!(kept.events.len(), 0);
    assert_eq!(kept.missing.len(), 1);
    assert!(kept.missing[0].problem.contains("DXT_ENABLE_IO_TRACE"));
}

#[test]
fn an_error_of_the_sink_ends_the_reading() {
    let mut kept = Kept {
        room: Some(10),
        ..Kept::default()
    };
    let error = read_dxt(&data("mpich-btioS-full-np4.darshan"), &mut kept)
        .err()
        .unwrap();
    assert!(matches!(error, TraceError::Sink(error) if error.to_string() == "full"));
    assert_eq!(kept.events.len(), 10);
}
