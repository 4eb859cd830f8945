//! Compares readers of traces with other tools, in one run: `cargo bench -p cvc-trace --bench peers`.
//!
//! - a Darshan log with two million DXT segments, read to per-file patterns: compared with `darshan-dxt-parser`, which prints the segments
//!   (`CVC_DARSHAN_DXT_PARSER` or on PATH), and PyDarshan, which loads them (`CVC_PYDARSHAN` names a Python that has it, else `python3`);
//! - 200 MB of strace text: compared with `cat`, as the limit of the disk.
//!
//! Medians of alternating runs are printed with their ratios. Missing tools are reported as skipped.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark tells what it measured"
)]
#![allow(
    clippy::unwrap_used,
    clippy::allow_attributes,
    missing_docs,
    reason = "a benchmark"
)]

#[path = "../tests/it/darshan/write.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod write;

use cvc_trace::{profile::Profiler, read_trace};
use std::{
    env,
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};
use write::{Order, Out, Written, WrittenModule, job};

/// Number of ranks in the log, and of segments per rank, half of them writes.
const RANKS: u64 = 8;
const SEGMENTS: u64 = 250_000;
const ROUNDS: usize = 5;

fn log() -> Vec<u8> {
    let mut names = Out::new(Order::Little);
    names.word(11);
    names.text(b"/scratch/shared.dat", 20);
    let records = |rank: u64| {
        let mut out = Out::new(Order::Little);
        out.words(&[11, rank, 0]);
        out.text(b"node", 64);
        out.words(&[SEGMENTS / 2, SEGMENTS / 2]);
        for i in 0..SEGMENTS {
            let place = (i % (SEGMENTS / 2)) * RANKS + rank;
            out.words(&[place * 4096, 4096]);
            let start = i as f64 * 1e-4 + rank as f64 * 1e-6;
            out.float(start);
            out.float(start + 3e-5);
        }
        out.bytes
    };
    let written = Written {
        version: "3.41",
        order: Order::Little,
        compression: 0,
        partial: 0,
        job: job(
            Order::Little,
            true,
            1_600_000_060,
            b"solver\next4\t/scratch",
        ),
        names: names.bytes,
        modules: vec![WrittenModule {
            place: 10,
            version: 1,
            streams: (0..RANKS).map(records).collect(),
        }],
    };
    written.bytes()
}

fn strace() -> String {
    let mut text = String::with_capacity(210 << 20);
    let mut at = 1_700_000_000.0;
    text.push_str("1700000000.000000 openat(AT_FDCWD</run>, \"out.dat\", O_WRONLY|O_CREAT, 0644) = 3</run/out.dat> <0.000020>\n");
    while text.len() < 200 << 20 {
        at += 0.000_1;
        let _ = writeln!(
            text,
            "{at:.6} write(3</run/out.dat>, \"\"..., 65536) = 65536 <0.000031>"
        );
    }
    text
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn cvc(path: &Path) {
    let mut profiler = Profiler::default();
    read_trace(&[path.to_owned()], &mut profiler, None).unwrap();
    let profile = profiler.finish();
    assert!(profile.events > 0);
    for file in &profile.files {
        for usage in file.uses.values() {
            std::hint::black_box((usage.reads.pattern(), usage.writes.pattern()));
        }
    }
}

fn command(mut command: Command) -> Option<f64> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut worked = false;
    let took = seconds(|| worked = command.status().is_ok_and(|status| status.success()));
    worked.then_some(took)
}

/// Python program that loads all POSIX segments, as users of PyDarshan do.
const PYTHON: &str = "import sys, darshan\n\
    report = darshan.DarshanReport(sys.argv[1], read_all=False)\n\
    report.mod_read_all_dxt_records('DXT_POSIX')\n\
    frames = report.records['DXT_POSIX'].to_df()\n\
    sum(len(f['write_segments']) + len(f['read_segments']) for f in frames)\n";

fn main() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.darshan");
    fs::write(&path, log()).unwrap();
    let parser = env::var("CVC_DARSHAN_DXT_PARSER").unwrap_or("darshan-dxt-parser".into());
    let python = env::var("CVC_PYDARSHAN").unwrap_or("python3".into());
    let (mut own, mut parsed, mut loaded) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        own.push(seconds(|| cvc(&path)));
        let mut call = Command::new(&parser);
        call.arg(&path);
        parsed.extend(command(call));
        let mut call = Command::new(&python);
        call.args(["-c", PYTHON]).arg(&path);
        loaded.extend(command(call));
    }
    let own = median(own);
    println!(
        "{} segments of DXT to per-file patterns: {own:.3} s",
        RANKS * SEGMENTS
    );
    for (name, times) in [("darshan-dxt-parser", parsed), ("PyDarshan", loaded)] {
        if times.len() < ROUNDS {
            eprintln!("skipped: {name} is not here, or cannot read the log");
        } else {
            let theirs = median(times);
            println!("{name}: {theirs:.3} s, {:.1} times as long", theirs / own);
        }
    }

    let text = directory.path().join("strace.1");
    fs::write(&text, strace()).unwrap();
    let bytes = fs::metadata(&text).unwrap().len() as f64 / 1e6;
    let (mut own, mut cat) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        own.push(seconds(|| cvc(&text)));
        let mut call = Command::new("cat");
        call.arg(&text);
        cat.extend(command(call));
    }
    let own = median(own);
    println!(
        "{bytes:.0} MB of strace text to patterns: {own:.3} s, {:.0} MB/s",
        bytes / own
    );
    if cat.len() == ROUNDS {
        println!("cat: {:.3} s", median(cat));
    }
}
