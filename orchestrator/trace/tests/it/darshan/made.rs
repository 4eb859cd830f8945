//! Generates logs with every module in every version. The files `tests/data/darshan/made-*.txt.gz` have the output of `darshan-parser` and
//! `darshan-dxt-parser` (Darshan's main branch of April 2026) for them.

use super::{
    fixtures::{is_head, same},
    printed,
    text::{read, squeeze},
    write::{Order, Out, Written, WrittenModule, dxt, job},
};
use std::{env, fs, path::Path};

const FILES: [(u64, &[u8]); 4] = [
    (11, b"/scratch/run/out.h5"),
    (22, b"/home/user/input.nc"),
    (33, b"/scratch/run/out.h5:/group/data set"),
    (0xfedc_ba98_7654_3210, b"heatmap:POSIX"),
];
const TEXT: &[u8] = b"/home/user/solver --grid 64\next4\t/\nlustre\t/scratch\nnfs\t/home";

/// Generator of reproducible numbers: small, large and negative ones.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn int(&mut self) -> u64 {
        let number = self.next();
        match number % 5 {
            0 => 0,
            1 => u64::MAX,
            2 => number << 20,
            _ => number % 100_000,
        }
    }

    fn float(&mut self) -> f64 {
        (self.next() % 100_000_000) as f64 / 65536.0
    }
}

/// Returns records of counters for two files: one of a single rank, one of all ranks.
fn counters(order: Order, [before, ints, floats]: [usize; 3], seed: u64) -> Vec<u8> {
    let (mut out, mut numbers) = (Out::new(order), Numbers(seed));
    for (id, rank) in [(11, 3), (22, u64::MAX)] {
        out.words(&[id, rank]);
        (0..before).for_each(|_| out.word(22));
        (0..ints).for_each(|_| out.word(numbers.int()));
        (0..floats).for_each(|_| out.float(numbers.float()));
    }
    out.bytes
}

/// Returns records of files and ranks: integers are computed from their index, times are 0.5 s, and `behind` further words follow.
pub(super) fn counters_of(
    records: &[(u64, u64)],
    [before, ints, floats, behind]: [usize; 4],
    int: impl Fn(u64) -> u64,
) -> Vec<u8> {
    let mut out = Out::new(Order::Little);
    for &(id, rank) in records {
        out.words(&[id, rank]);
        (0..before).for_each(|_| out.word(22));
        (0..ints).for_each(|place| out.word(int(place as u64)));
        (0..floats).for_each(|_| out.float(0.5));
        (0..behind).for_each(|_| out.word(u64::MAX));
    }
    out.bytes
}

/// Returns POSIX records of an old version that also counts streams: the 7th counter is the number of `fopen` calls.
fn oldest_posix(order: Order) -> Vec<u8> {
    let (mut out, mut numbers) = (Out::new(order), Numbers(7));
    for (id, fopens) in [(11, 0), (22, 5), (22, u64::MAX)] {
        out.words(&[id, 1]);
        (0..6).for_each(|_| out.word(numbers.int()));
        out.word(fopens);
        (0..61).for_each(|_| out.word(numbers.int()));
        (0..15).for_each(|_| out.float(numbers.float()));
    }
    out.bytes
}

fn heatmap(order: Order, bins_of_ranks: &[u64]) -> Vec<u8> {
    let mut out = Out::new(order);
    let mut numbers = Numbers(99);
    for (rank, &bins) in (0..).zip(bins_of_ranks) {
        out.words(&[FILES[3].0, rank]);
        out.float(0.1);
        out.words(&[bins, 0x7fff_0000, 0x7fff_8000]);
        (0..2 * bins).for_each(|_| out.word(numbers.next()));
    }
    out.bytes
}

fn lustre(order: Order) -> Vec<u8> {
    let mut out = Out::new(order);
    let component = |out: &mut Out, fields: [u64; 7], pool: &[u8]| {
        out.words(&fields);
        out.text(pool, 16);
    };
    out.words(&[11, 0, 2, 3]);
    component(&mut out, [1 << 20, 1, 0, 0x12, 0, 1 << 30, 1], b"flash");
    component(&mut out, [4 << 20, 2, 4, 0, 1 << 30, u64::MAX, 0], b"");
    out.words(&[5, 17, 23]);
    out.words(&[22, 0, 1, 1]);
    component(&mut out, [1 << 20, 1, 0, 1, 0, u64::MAX, 0], b"");
    out.words(&[9]);
    out.bytes
}

fn lustre_v1(order: Order) -> Vec<u8> {
    let mut out = Out::new(order);
    for (id, targets) in [(11, [4, 5, 6].as_slice()), (22, &[1])] {
        out.words(&[id, 0, 64, 1, u64::MAX, 1 << 20, targets.len() as u64]);
        out.words(targets);
    }
    out.bytes
}

/// Returns DXT records in two streams, as written by two ranks.
fn dxt_streams(order: Order, threads: bool) -> Vec<Vec<u8>> {
    let rank = |rank: u64| {
        let mut out = Out::new(order);
        let writes = [
            (rank * 4096, 4096),
            (rank * 4096 + 16384, 100),
            (1 << 40, 1),
        ];
        dxt(&mut out, [11, rank], &writes, &[(0, 512)], threads);
        dxt(&mut out, [22, rank], &[], &[(77, 1 << 33), (0, 0)], threads);
        out.bytes
    };
    vec![rank(0), rank(1)]
}

/// Returns a DXT record with a single write.
pub(super) fn one_segment(offset: u64, bytes: u64) -> Vec<u8> {
    let mut out = Out::new(Order::Little);
    dxt(&mut out, [11, 0], &[(offset, bytes)], &[], false);
    out.bytes
}

fn names(order: Order, lengths: bool) -> Vec<u8> {
    let mut out = Out::new(order);
    for (id, name) in FILES {
        out.word(id);
        if lengths {
            out.half(name.len() as u32);
            out.text(name, name.len());
        } else {
            out.text(name, name.len() + 1);
        }
    }
    out.bytes
}

pub(super) fn module(place: usize, version: u32, bytes: Vec<u8>) -> WrittenModule {
    let streams = vec![bytes];
    WrittenModule {
        place,
        version,
        streams,
    }
}

/// Returns a log with every module in its newest version, and one unknown module.
pub(super) fn newest(order: Order, compression: u8) -> Written {
    let dxt = |place, version, threads| WrittenModule {
        place,
        version,
        streams: dxt_streams(order, threads),
    };
    Written {
        version: "3.41",
        order,
        compression,
        partial: 1 << 9,
        job: job(order, true, 1_600_000_060, TEXT),
        names: names(order, false),
        modules: vec![
            module(1, 4, counters(order, [0, 69, 17], 1)),
            module(2, 3, counters(order, [0, 51, 17], 2)),
            module(3, 3, counters(order, [0, 3, 5], 3)),
            module(4, 2, counters(order, [1, 94, 17], 4)),
            module(5, 3, counters(order, [0, 9, 8], 5)),
            module(6, 1, counters(order, [1, 120, 17], 6)),
            module(8, 2, lustre(order)),
            module(9, 2, counters(order, [0, 14, 15], 7)),
            dxt(10, 2, true),
            dxt(11, 3, true),
            module(14, 1, vec![1; 100]),
            // one record has a bin too many, as Darshan 3.4.0 to 3.4.3 may write
            module(15, 1, heatmap(order, &[6, 7, 6])),
            module(40, 1, vec![2; 100]),
        ],
    }
}

/// Returns a log of Darshan 3.3 with every module in the previous version.
fn older() -> Written {
    let order = Order::Little;
    let dxt = |place, version| WrittenModule {
        place,
        version,
        streams: dxt_streams(order, false),
    };
    Written {
        version: "3.21",
        order,
        compression: 1,
        partial: 0,
        job: job(order, false, 1_600_000_060, TEXT),
        names: names(order, false),
        modules: vec![
            module(1, 3, counters(order, [0, 64, 17], 1)),
            module(2, 2, counters(order, [0, 51, 15], 2)),
            module(3, 2, counters(order, [0, 1, 4], 3)),
            module(4, 1, counters(order, [0, 94, 17], 4)),
            module(5, 2, counters(order, [0, 2, 4], 5)),
            module(7, 1, lustre_v1(order)),
            module(8, 1, counters(order, [0, 14 - 1, 15], 7)),
            dxt(9, 1),
            dxt(10, 2),
        ],
    }
}

/// Returns a log with every module in its first version.
fn oldest() -> Written {
    let order = Order::Little;
    Written {
        version: "3.00",
        order,
        compression: 0,
        partial: 0,
        job: job(order, false, 1_600_000_060, TEXT),
        names: names(order, true),
        modules: vec![
            module(1, 1, oldest_posix(order)),
            module(2, 1, counters(order, [0, 51, 15], 2)),
            module(3, 1, counters(order, [0, 1, 2], 3)),
            module(4, 1, counters(order, [0, 2, 2], 5)),
            module(6, 1, lustre_v1(order)),
            WrittenModule {
                place: 9,
                version: 1,
                streams: dxt_streams(order, false),
            },
        ],
    }
}

/// Returns a log of Darshan 3.1 with POSIX in its second version.
fn second() -> Written {
    let mut log = oldest();
    log.version = "3.10";
    log.names = names(log.order, false);
    log.modules = vec![module(1, 2, counters(log.order, [0, 64, 15], 1))];
    log
}

/// Returns the log that a process updates while it runs.
fn unfinished() -> Written {
    let mut log = newest(Order::Little, 2);
    log.partial = 0;
    log.job = job(log.order, true, 0, TEXT);
    log.modules
        .retain(|module| [1, 2, 9].contains(&module.place));
    log
}

/// Returns a small log with every kind of record, not compressed.
pub(super) fn uncompressed(order: Order) -> Written {
    let mut log = newest(order, 2);
    log.job.truncate(1150);
    log.modules
        .retain(|module| [1, 8, 10, 15].contains(&module.place));
    log
}

fn all() -> [(&'static str, Written); 6] {
    [
        ("made-newest", newest(Order::Little, 0)),
        ("made-newest-bzip2", newest(Order::Little, 1)),
        ("made-older", older()),
        ("made-oldest", oldest()),
        ("made-second", second()),
        ("made-unfinished", unfinished()),
    ]
}

/// Writes the logs into the directory in `CVC_MADE_LOGS`, if it is set, in order to run Darshan's tools on them: this is how the expected output
/// was made.
#[test]
fn made_logs_are_files_that_are_read() {
    let temporary = tempfile::tempdir().unwrap();
    let dir =
        env::var("CVC_MADE_LOGS").unwrap_or_else(|_| temporary.path().to_str().unwrap().to_owned());
    let small = [("small-uncompressed", uncompressed(Order::Big))];
    for (name, log) in all().into_iter().chain(small) {
        let path = Path::new(&dir).join(format!("{name}.darshan"));
        fs::write(&path, log.bytes()).unwrap();
        let read = cvc_trace::DarshanLog::open(&path).unwrap();
        assert_eq!(read.header().version, log.version, "{name}");
    }
}

/// Returns whether Darshan's tool shows the last two or four times of this log as zero, because it moves too few bytes.
fn old_posix(name: &str) -> bool {
    ["made-older", "made-second"].contains(&name)
}

/// Returns module, rank, record and counter of a line.
fn counter(line: &str) -> Vec<&str> {
    line.split('\t').take(4).collect()
}

#[track_caller]
fn is_as_printed(name: &str) {
    let (_, log) = all().into_iter().find(|(known, _)| *known == name).unwrap();
    let text = read(&log.bytes()).unwrap();
    let theirs = printed(&format!("{name}.parser"));
    // for a run without an end, the tool computes a negative time
    let wanted =
        |line: &&str| is_head(line) && !line.contains("<UNKNOWN>") && !line.contains("time: -");
    let head: Vec<_> = theirs.lines().filter(wanted).collect();
    let ours: Vec<_> = text
        .head
        .iter()
        .map(String::as_str)
        .filter(wanted)
        .collect();
    same(&ours, &head);
    let right = |line: &&str| {
        let zero =
            line.starts_with("POSIX") && line.contains("RANK") && line.contains("\t0.000000\t");
        !(line.is_empty() || line.starts_with('#') || old_posix(name) && zero)
    };
    let counters: Vec<_> = theirs.lines().filter(right).collect();
    let shown: Vec<_> = counters.iter().map(|line| counter(line)).collect();
    let ours = text
        .counters
        .iter()
        .filter(|line| !old_posix(name) || shown.contains(&counter(line)));
    same(&ours.collect::<Vec<_>>(), &counters);
    let theirs = printed(&format!("{name}.dxt"));
    let segments = theirs
        .lines()
        .filter(|line| line.starts_with(" X_") || line.starts_with("# DXT, "))
        .filter(|line| !line.contains("number of threads") && !line.contains("Lustre"));
    // the tool also shows `N/A` for threads and, on Lustre, the storage targets: `[5]`
    let shown = |line: &str| {
        let words = line.split_whitespace();
        let words: Vec<_> = words
            .filter(|word| *word != "N/A" && !word.starts_with('['))
            .collect();
        words.join(" ")
    };
    let segments: Vec<_> = segments.map(shown).collect();
    let ours: Vec<_> = text.dxt.iter().map(|line| squeeze(line)).collect();
    same(&ours, &segments);
}

#[test]
fn the_newest_version_of_every_module_is_as_printed() {
    is_as_printed("made-newest");
}

#[test]
fn bzip2_is_inflated() {
    is_as_printed("made-newest-bzip2");
}

#[test]
fn the_version_before_of_every_module_is_as_printed() {
    is_as_printed("made-older");
}

#[test]
fn the_first_version_of_every_module_is_as_printed() {
    is_as_printed("made-oldest");
}

#[test]
fn the_second_version_of_posix_is_as_printed() {
    is_as_printed("made-second");
}

#[test]
fn the_log_of_a_run_that_was_killed_is_as_printed_and_said_to_be_unfinished() {
    is_as_printed("made-unfinished");
    let text = read(&unfinished().bytes()).unwrap();
    assert_eq!(text.missing.len(), 1);
    assert_eq!(text.missing[0].part, "log");
    let job = text.job.unwrap();
    assert_eq!((job.end, job.run_time_s()), (None, None));
}

#[test]
fn the_other_byte_order_gives_the_same() {
    for compression in [0, 1, 2] {
        let little = read(&newest(Order::Little, compression).bytes()).unwrap();
        let big = read(&newest(Order::Big, compression).bytes()).unwrap();
        assert!(!big.counters.is_empty() && !big.dxt.is_empty());
        // sizes of compressed data differ
        let head = |lines: &[String]| -> Vec<String> {
            let lines = lines.iter().filter(|line| !line.contains(" module: "));
            lines.cloned().collect()
        };
        assert_eq!(head(&big.head), head(&little.head));
        assert_eq!(big.counters, little.counters);
        assert_eq!(big.dxt, little.dxt);
        assert_eq!(big.missing, little.missing);
    }
}

#[test]
fn unread_modules_and_partial_ones_are_named() {
    let text = read(&newest(Order::Little, 0).bytes()).unwrap();
    let parts: Vec<_> = text
        .missing
        .iter()
        .map(|missing| missing.part.as_str())
        .collect();
    assert_eq!(parts, ["module STDIO", "module APMPI", "module number 40"]);
    assert!(text.missing[0].problem.contains("ran out of memory"));
}

#[test]
fn records_of_posix_that_count_streams_too_are_left_out_and_told() {
    let text = read(&oldest().bytes()).unwrap();
    assert_eq!(text.missing.len(), 1);
    assert_eq!(text.missing[0].part, "module POSIX");
    assert!(text.missing[0].problem.starts_with("1 records"));
}

#[test]
fn records_of_an_unknown_version_are_left_out_and_told() {
    let mut log = newest(Order::Little, 0);
    log.modules
        .iter_mut()
        .for_each(|module| module.version += 10);
    let text = read(&log.bytes()).unwrap();
    assert_eq!((text.counters.len(), text.dxt.len()), (0, 0));
    let unknown = text
        .missing
        .iter()
        .filter(|missing| missing.problem.contains("is unknown"));
    assert_eq!(unknown.count(), 11);
}

#[test]
fn the_last_times_of_old_records_of_posix_are_kept() {
    for log in [older(), second()] {
        let text = read(&log.bytes()).unwrap();
        let posix = log.modules.iter().find(|module| module.place == 1).unwrap();
        let end = posix.streams[0].last_chunk().unwrap();
        let value = format!("{:.6}", f64::from_le_bytes(*end));
        let mut lines = text
            .counters
            .iter()
            .filter(|line| line.contains("VARIANCE_RANK_BYTES"));
        let line = lines.rfind(|line| line.starts_with("POSIX	")).unwrap();
        assert_eq!(line.split('\t').nth(4), Some(&*value));
    }
}

/// Here Darshan's tool shifts the reads by one bin, and loses the last bin.
#[test]
fn a_record_with_a_bin_too_few_gets_an_empty_one() {
    let mut log = newest(Order::Little, 0);
    log.modules = vec![module(15, 1, heatmap(log.order, &[3, 2]))];
    let text = read(&log.bytes()).unwrap();
    let mut numbers = Numbers(99);
    (0..6).for_each(|_| _ = numbers.next());
    let [w0, w1, r0, r1] = [(); 4].map(|()| numbers.next());
    let lines = text
        .counters
        .iter()
        .skip(8)
        .map(|line| line.split('\t').nth(4).unwrap());
    let expected = [r0, r1, 0, w0, w1, 0].map(|bytes| bytes.to_string());
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}
