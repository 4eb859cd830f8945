//! Measures the memory that reading takes, in a separate process, because all tests share one process.

use super::write::{Order, Out};
use cvc_trace::{DarshanVisitor, Event, FileId, Missing, Process, ProcessId, Sink, read_dxt};
use flate2::{Compression, write::ZlibEncoder};
use std::{
    env, fs,
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::Path,
    process::Command,
};

/// Maximum peak memory, KiB, including that of a test process that does nothing.
const LIMIT_KIB: u64 = 64 << 10;

#[derive(Default)]
struct Counted {
    events: u64,
    files: u64,
    processes: u64,
    missing: Vec<Missing>,
}

impl Sink for Counted {
    fn process(&mut self, _: ProcessId, _: &Process) -> io::Result<()> {
        self.processes += 1;
        Ok(())
    }

    fn file(&mut self, _: FileId, _: &[u8]) -> io::Result<()> {
        self.files += 1;
        Ok(())
    }

    fn event(&mut self, _: &Event) -> io::Result<()> {
        self.events += 1;
        Ok(())
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        self.missing.push(missing.clone());
        Ok(())
    }
}

struct Everything;

impl DarshanVisitor for Everything {}

/// Writes a log whose names and records come from functions; takes as little memory as reading it.
fn write_log(
    path: &Path,
    modules: &[(usize, u32)],
    names: impl Fn(&mut dyn Write),
    records: impl Fn(&mut dyn Write),
) {
    let mut file = BufWriter::new(fs::File::create(path).unwrap());
    let mut at = 1328;
    file.write_all(&vec![0; 1328]).unwrap();
    let mut put = |file: &mut BufWriter<fs::File>, region: &dyn Fn(&mut dyn Write)| {
        let mut zlib = ZlibEncoder::new(&mut *file, Compression::fast());
        region(&mut zlib);
        zlib.finish().unwrap();
        let end = file.stream_position().unwrap();
        let map = [at, end - at];
        at = end;
        map
    };
    let job = super::write::job(Order::Little, true, 1_600_000_060, b"solver");
    put(&mut file, &|out| out.write_all(&job).unwrap());
    let names = put(&mut file, &names);
    let map = put(&mut file, &records);
    let mut head = Out::new(Order::Little);
    head.text(b"3.41", 8);
    head.words(&[6_567_223, 0, 0]);
    head.words(&names);
    for place in 0..64 {
        let used = modules.iter().any(|&(known, _)| known == place);
        head.words(&if used { map } else { [0; 2] });
    }
    for place in 0..64 {
        let version = modules.iter().find(|&&(known, _)| known == place);
        head.half(version.map_or(0, |&(_, version)| version));
    }
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&head.bytes).unwrap();
    file.flush().unwrap();
}

/// Returns the head of a DXT record, which precedes the segments.
fn dxt_head(id: u64, rank: u64, counts: [u64; 2]) -> Vec<u8> {
    let mut out = Out::new(Order::Little);
    out.words(&[id, rank, 0]);
    out.text(b"node", 64);
    out.words(&counts);
    out.bytes
}

/// Reads the log in `CVC_MEMORY_LOG`, and prints what it contains and the peak memory. The other tests of this file start this test in a process.
/// Without the variable it reads a log with one segment.
#[test]
fn read_in_a_process_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let asked = env::var("CVC_MEMORY_LOG").ok();
    let path = asked.clone().unwrap_or_else(|| {
        let path = dir.path().join("log");
        let segment = super::made::one_segment(4096, 7);
        write_log(
            &path,
            &[(10, 1)],
            |_| {},
            |out| {
                out.write_all(&segment).unwrap();
            },
        );
        path.to_str().unwrap().to_owned()
    });
    let mut counted = Counted::default();
    read_dxt(Path::new(&path), &mut counted).unwrap();
    let log = cvc_trace::DarshanLog::open(Path::new(&path)).unwrap();
    log.read(&mut Everything).unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let peak = peak.trim().strip_suffix(" kB").unwrap();
    let Counted {
        events,
        files,
        processes,
        missing,
    } = counted;
    assert!(asked.is_some() || (events, files, processes) == (1, 1, 1));
    let missing = missing.len();
    let line = format!(
        "peak={peak} events={events} files={files} processes={processes} missing={missing}\n"
    );
    io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Returns the peak memory in KiB, and the numbers of events, files, processes and missing parts.
#[track_caller]
fn measure(path: &Path) -> [u64; 5] {
    let test = "darshan::memory::read_in_a_process_of_its_own";
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("CVC_MEMORY_LOG", path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("peak="));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    let figure = |name: &str| {
        let (_, rest) = line.split_once(&format!("{name}=")).unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    let figures = ["peak", "events", "files", "processes", "missing"].map(figure);
    assert!(figures[0] < LIMIT_KIB, "{line}");
    figures
}

#[test]
fn millions_of_segments_take_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let segments = 3_000_000_u64;
    write_log(
        &path,
        &[(10, 1)],
        |_| {},
        |out| {
            out.write_all(&dxt_head(1, 0, [segments, 0])).unwrap();
            for number in 0..segments {
                let time = (number as f64).to_bits();
                let segment = [number << 20, 4096, time, time].map(u64::to_le_bytes);
                out.write_all(segment.as_flattened()).unwrap();
            }
        },
    );
    let [peak, events, ..] = measure(&path);
    assert_eq!(events, segments);
    // 96 MB of segments
    assert!(peak < 24 << 10, "{peak}");
}

#[test]
fn counts_that_are_not_true_take_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let huge = [i64::MAX as u64, i64::MAX as u64];
    // the same bytes as records of DXT, heat maps and striping: the first words are an ID, a rank and a count
    let modules = [(8, 1), (8, 2), (10, 2), (11, 1), (15, 1)];
    for module in modules {
        write_log(
            &path,
            &[module],
            |_| {},
            |out| {
                let mut head = Out::new(Order::Little);
                match module.0 {
                    8 => head.words(&[1, 0, huge[0], huge[1], 0, 0, huge[0]]),
                    15 => head.words(&[1, 0, 0, huge[0], 0, 0]),
                    _ => head.bytes = dxt_head(1, 0, huge),
                }
                out.write_all(&head.bytes).unwrap();
                out.write_all(&vec![0; 4 << 20]).unwrap();
            },
        );
        let [peak, ..] = measure(&path);
        assert!(peak < 24 << 10, "{module:?}: {peak}");
    }
}

#[test]
fn a_name_without_end_takes_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let endless = |out: &mut dyn Write| {
        (0..64).for_each(|_| out.write_all(&vec![b'a'; 1 << 20]).unwrap());
    };
    write_log(&path, &[(10, 1)], endless, |out| {
        out.write_all(&dxt_head(1, 0, [0, 0])).unwrap();
    });
    let [peak, _, files, _, missing] = measure(&path);
    assert_eq!((files, missing), (1, 1));
    assert!(peak < 24 << 10, "{peak}");
}

#[test]
fn more_files_and_ranks_than_can_be_told_apart_take_no_more_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let many = 950_000_u64;
    write_log(
        &path,
        &[(10, 1)],
        |out| {
            for id in 0..many {
                out.write_all(&id.to_le_bytes()).unwrap();
                out.write_all(format!("/scratch/run/of/somebody/file-{id}\0").as_bytes())
                    .unwrap();
            }
        },
        |out| {
            for id in 0..many {
                out.write_all(&dxt_head(id, id, [0, 0])).unwrap();
            }
        },
    );
    let [peak, _, files, processes, missing] = measure(&path);
    assert!(peak < 56 << 10, "{peak}");
    assert_eq!((files, processes, missing), (900_001, 900_001, 2));
}
