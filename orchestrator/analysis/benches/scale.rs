//! Measures the cost of a report with many records: synthetic campaigns of 10^5, 10^6 and 10^7 records, 200 for each run. For each campaign it prints
//! CPU time and peak memory of the process that builds the index and writes the report with all its files.
//!
//! The largest campaign needs 8 GB in the directory of temporary files. Without `--bench` (cargo test) only a small campaign is measured, to test the
//! benchmark.
#![allow(
    missing_docs,
    clippy::allow_attributes,
    reason = "a benchmark is not a library"
)]
#![expect(clippy::print_stdout, reason = "a benchmark tells what it measured")]

use camino::{Utf8Path, Utf8PathBuf};
use cvc_analysis::report;
use cvc_core::campaign::Format;
use cvc_core::ids::{PointId, RunId};
use cvc_core::outcome::Outcome;
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::point::{CheckpointerKind, PlannedPoint, Point, Repeat, UserValue};
use cvc_core::record::{Record, Source, Unit, names};
use cvc_journal::{Event, Journal};
use cvc_prediction::holdout::rebuild_index;
use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// Environment variable that selects the measurement which this process makes.
const PART: &str = "CVC_BENCH_PART";
const REPEATS: u32 = 50;
const RANKS: u32 = 16;
const ZONES: [&str; 3] = ["DTAPP", "LB", "SHMEM"];
const RULES: [&str; 2] = ["literal", "structural"];

fn utf8(path: &Path) -> Utf8PathBuf {
    Utf8PathBuf::from_path_buf(path.to_owned()).expect("UTF-8")
}

fn plan(runs: usize) -> Plan {
    let point = |n: usize| {
        let point = Point {
            site: "made-up".into(),
            app: format!("app-{}", n % 8),
            class: "S".into(),
            mapping: "2Nx8P".parse().expect("a mapping"),
            mpi: "mpich".into(),
            checkpointer: CheckpointerKind::Dmtcp,
            storage: "scratch".into(),
            user: [("n".to_owned(), UserValue::Integer(n as i64 / 8))]
                .into_iter()
                .collect(),
            ..Point::default()
        };
        PlannedPoint {
            id: PointId::of(&n.to_le_bytes()),
            point,
            baseline: false,
            expected_failure: None,
        }
    };
    let points: Vec<PlannedPoint> = (0..runs.div_ceil(REPEATS as usize)).map(point).collect();
    let run = |n: usize| {
        let repeat = Repeat::Measured((n / points.len()) as u32 + 1);
        PlannedRun {
            id: RunId::of(&n.to_le_bytes()),
            point: points[n % points.len()].id.clone(),
            repeat,
            block: None,
        }
    };
    let runs = (0..runs).map(run).collect();
    Plan {
        schema: 1,
        campaign: "scale".into(),
        seed: 1,
        points,
        runs,
        excluded: Vec::new(),
        predict: None,
    }
}

fn write_records(run: &RunId, number: usize, out: &mut dyn Write) -> usize {
    let mut count = 0;
    let mut add = |name: &str, value: f64, unit: Unit, labels: &[(&str, &str)]| {
        let labels = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let record = Record {
            run: run.clone(),
            name: name.to_owned(),
            value,
            unit,
            source: Source::Image,
            artefact: None,
            labels,
        };
        serde_json::to_writer(&mut *out, &record).expect("JSON");
        out.write_all(b"\n").expect("writes");
        count += 1;
    };
    let noise = 1.0 + ((number * 7919) % 1000) as f64 * 1e-5;
    for checkpoint in ["1", "2"] {
        let ckpt = ("ckpt", checkpoint);
        add(names::CKPT_LATENCY_S, 2.0 * noise, Unit::Seconds, &[ckpt]);
        for rank in (0..RANKS).map(|r| r.to_string()) {
            // zones by rule: 16 × 6 and 4
            for (zone, rule) in ZONES.iter().flat_map(|zone| RULES.map(|rule| (zone, rule))) {
                add(
                    names::ZONE_BYTES,
                    1e6 * noise,
                    Unit::Bytes,
                    &[ckpt, ("rank", &rank), ("zone", zone), ("rule", rule)],
                );
            }
        }
        add(
            names::CKPT_FILES,
            16.0,
            Unit::Count,
            &[ckpt, ("kind", "rank")],
        );
        add(
            names::CKPT_BYTES,
            1e8 * noise,
            Unit::Bytes,
            &[ckpt, ("kind", "rank")],
        );
    }
    add(names::WALL_S, 60.0 * noise, Unit::Seconds, &[]);
    add("mops", 900.0 * noise, Unit::MopPerSecond, &[]);
    count
}

/// Writes a campaign's directory; returns the number of records.
fn make(runs: usize, dir: &Utf8Path) -> usize {
    let plan = plan(runs);
    fs::write(
        dir.join("plan.json"),
        serde_json::to_vec(&plan).expect("JSON"),
    )
    .expect("plan.json");
    // use memory, because syncing is not measured
    let memory = Path::new("/dev/shm");
    let temporary = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    }
    .expect("a directory");
    let path = utf8(&temporary.path().join("journal.jsonl"));
    let mut journal =
        Journal::open(&path, &plan.campaign, |_| Ok(())).unwrap_or_else(|e| panic!("{e}"));
    let mut write = |event| drop(journal.append(event).unwrap_or_else(|e| panic!("{e}")));
    let mut records = 0;
    for (number, run) in plan.runs.iter().enumerate() {
        let of_run = dir.join("runs").join(run.id.as_str());
        fs::create_dir_all(&of_run).expect("a directory");
        let mut out = BufWriter::new(File::create(of_run.join("records.jsonl")).expect("a file"));
        records += write_records(&run.id, number, &mut out);
        out.flush().expect("writes");
        fs::write(
            of_run.join("facts.json"),
            r#"{"mpi":{"version":"9.9"},"kernel":"made-up 1.2.3"}"#,
        )
        .expect("facts.json");
        let (run, attempt) = (run.id.clone(), 1);
        write(Event::RunIntended {
            run: run.clone(),
            attempt,
            nodes: Default::default(),
        });
        write(Event::RunFinished {
            run,
            attempt,
            outcome: Outcome::Succeeded,
            records: None,
            manifest: None,
            not_again: None,
        });
    }
    fs::copy(&path, dir.join("journal.jsonl")).expect("journal.jsonl");
    records
}

/// Returns the user and system time of this process until now.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .expect("a name")
        .1
        .split_whitespace()
        .collect();
    // ticks are hundredths of a second on every current Linux
    let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// Returns the peak memory of this process, MiB.
fn peak_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .expect("a peak");
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<f64>()
        .expect("a number")
        / 1024.0
}

fn write_report(dir: &Utf8Path, records: usize) {
    let began = Instant::now();
    let index = rebuild_index(dir).unwrap_or_else(|e| panic!("{e}"));
    let (indexed, indexed_mib) = (cpu(), peak_mib());
    let made = report::build(&index).unwrap_or_else(|e| panic!("{e}"));
    cvc_show::write_all(&made, &dir.join("report"), &Format::ALL).unwrap_or_else(|e| panic!("{e}"));
    let mib = |path: Utf8PathBuf| fs::metadata(path).expect("it exists").len() >> 20;
    println!(
        "{records:>8} records: index {:.1} s CPU, {indexed_mib:.0} MiB at most, {} MiB on disk; report {:.1} s CPU, {:.0} MiB at most, \
         records.csv {} MiB; {:.0} s in all",
        indexed.as_secs_f64(),
        mib(dir.join("index.sqlite")),
        (cpu() - indexed).as_secs_f64(),
        peak_mib(),
        mib(dir.join("report/csv/records.csv")),
        began.elapsed().as_secs_f64()
    );
}

fn main() {
    if let Ok(part) = std::env::var(PART) {
        let (records, dir) = part.split_once(' ').expect("two words");
        return write_report(Utf8Path::new(dir), records.parse().expect("a number"));
    }
    let bench = std::env::args().any(|a| a == "--bench");
    let sizes: &[usize] = if bench { &[500, 5_000, 50_000] } else { &[5] };
    for runs in sizes {
        let dir = tempfile::tempdir().expect("a directory");
        let records = make(*runs, &utf8(dir.path()));
        let part = format!("{records} {}", dir.path().display());
        let status = Command::new(std::env::current_exe().expect("this program"))
            .env(PART, part)
            .status()
            .expect("starts");
        assert!(status.success(), "{runs}");
    }
}
