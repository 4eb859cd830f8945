//! Deltas of checkpoints against what one would take instead, in one run: `cargo bench -p cvc-delta --bench peers`.
//!
//! - the last of the states against the one before, image by image: `xdelta3 -1` and by default, `zstd -1 --patch-from`; against `gzip -1` of the
//!   images, `bsdiff` on the smallest one alone, for size;
//! - all states as a series: against repositories of `restic` and `borg`: size, time to store, time to restore the last state;
//! - hashing a state against `cat` of the same files, both from the cache.
//!
//! `CVC_DELTA_STATES` names the states in their order, directories with `:` between them; else some are synthesised. `CVC_DELTA_ROUNDS` says how
//! often each is measured; medians are printed. What is not there is reported as skipped.

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

#[path = "../../image/tests/it/common/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod common;
#[path = "../tests/it/process.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod process;

use cvc_delta::{Addressing, BlockSize, Method, Series, SeriesOptions, Source, sign};
use process::{DATA, PAGE, Process};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

/// Pages of a synthesised image, and how many of them change in a step.
const PAGES: u64 = 24_000;
const CHANGED: u64 = 700;

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Processor time of this process and of all that it has waited for, seconds: what other programs of the machine hardly change.
fn processor_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // behind the name, which may have spaces: fields 14 to 17 of proc(5), in hundredths
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(4);
    ticks.filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Runs a program; none if it is not there or fails.
fn run(program: &str, args: &[&str], envs: &[(&str, &str)]) -> Option<f64> {
    let mut command = Command::new(program);
    command
        .args(args)
        .envs(envs.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut worked = false;
    let took = seconds(|| worked = command.status().is_ok_and(|status| status.success()));
    worked.then_some(took)
}

/// Length of everything below a path, bytes.
fn bytes_below(path: &Path) -> u64 {
    if path.is_dir() {
        fs::read_dir(path)
            .unwrap()
            .map(|entry| bytes_below(&entry.unwrap().path()))
            .sum()
    } else {
        fs::symlink_metadata(path).unwrap().len()
    }
}

/// The states that are named, or some that are made.
fn states(scratch: &Path) -> Vec<PathBuf> {
    if let Some(named) = env::var_os("CVC_DELTA_STATES") {
        return env::split_paths(&named).collect();
    }
    let mut ranks: Vec<Process> = (0..4)
        .map(|n| Process::new(41_000 + n * 1000, PAGES))
        .collect();
    (1..=4_u64)
        .map(|state| {
            let dir = scratch.join(format!("state-{state}"));
            fs::create_dir(&dir).unwrap();
            for process in &mut ranks {
                for page in 0..CHANGED {
                    let address = DATA + (page * 31 % PAGES) * PAGE;
                    process.pages.insert(address, state * 1_000_003 + page);
                }
                process.pages.insert(DATA - state * PAGE, state);
                process.write(&dir.join(format!("ckpt_{}.dmtcp", process.vpid)), false);
            }
            dir
        })
        .collect()
}

/// What a tool needed, as the the median of rounds.
struct Needed {
    name: String,
    took_s: f64,
    processor_s: f64,
    bytes: u64,
}

fn tell(own: &Needed, peers: &[Needed]) {
    println!(
        "{}: {:.3} s, {:.2} s of processors, {:.2} MiB",
        own.name,
        own.took_s,
        own.processor_s,
        mib(own.bytes)
    );
    for peer in peers {
        println!(
            "{}: {:.3} s, {:.2} s of processors, {:.2} MiB: {:.1} times as long, {:.1} times the processors, cvc's is {:.2} of its size",
            peer.name,
            peer.took_s,
            peer.processor_s,
            mib(peer.bytes),
            peer.took_s / own.took_s,
            peer.processor_s / own.processor_s.max(0.01),
            own.bytes as f64 / peer.bytes.max(1) as f64
        );
    }
}

/// The pairs of images of two states with the same name.
fn pairs(old: &Path, new: &Path) -> Vec<(PathBuf, PathBuf)> {
    let old = Source::list(old).unwrap();
    let new = Source::list(new).unwrap();
    let image = |name: &str| Path::new(name).extension().is_some_and(|e| e == "dmtcp");
    new.files
        .iter()
        .filter(|file| image(&file.name))
        .filter_map(|file| {
            let before = old.files.iter().find(|f| f.name == file.name)?;
            Some((before.path.clone(), file.path.clone()))
        })
        .collect()
}

/// Runs a tool over all pairs; the size of what it made, and the time.
fn over_pairs(
    name: &str,
    rounds: usize,
    pairs: &[(PathBuf, PathBuf)],
    out: &Path,
    mut one: impl FnMut(&str, &str, &str) -> Option<f64>,
) -> Option<Needed> {
    let (mut times, mut bytes) = (Vec::new(), 0);
    let before = processor_s();
    for _ in 0..rounds {
        let mut sum = 0.0;
        bytes = 0;
        for (old, new) in pairs {
            fs::remove_file(out).ok();
            let text = |path: &Path| path.to_str().unwrap().to_owned();
            let Some(took) = one(&text(old), &text(new), &text(out)) else {
                eprintln!("skipped: {name} is not here, or fails");
                return None;
            };
            sum += took;
            bytes += fs::metadata(out).unwrap().len();
        }
        times.push(sum);
    }
    Some(Needed {
        name: name.to_owned(),
        took_s: median(times),
        processor_s: (processor_s() - before) / rounds as f64,
        bytes,
    })
}

/// The last state against the one before it.
fn deltas(states: &[PathBuf], scratch: &Path, rounds: usize) {
    let [.., old, new] = states else { return };
    let pairs = pairs(old, new);
    let all: u64 = pairs.iter().map(|(_, new)| bytes_below(new)).sum();
    // the same images for all: a directory with nothing else
    let only = |name: &str, of: fn(&(PathBuf, PathBuf)) -> &PathBuf| {
        let dir = scratch.join(name);
        fs::create_dir(&dir).unwrap();
        for pair in &pairs {
            let file = of(pair);
            let to = dir.join(file.file_name().unwrap());
            if fs::hard_link(file, &to).is_err() {
                fs::copy(file, &to).unwrap();
            }
        }
        dir
    };
    let (old, new) = (only("old", |p| &p.0), only("new", |p| &p.1));
    let options = SeriesOptions {
        method: Method::Incremental,
        ..SeriesOptions::default()
    };
    let (mut times, mut hash, mut bytes, mut kept, mut changed) = (Vec::new(), Vec::new(), 0, 0, 0);
    let (mut full_s, mut full_bytes, mut restores) = (Vec::new(), 0, Vec::new());
    let (mut full_processor_s, mut delta_processor_s) = (0.0, 0.0);
    for round in 0..rounds {
        let dir = scratch.join(format!("delta-{round}"));
        let mut series = Series::create(&dir, options).unwrap();
        let mut first = None;
        let begin = processor_s();
        full_s.push(seconds(|| first = Some(series.add(&old, &|_| {}).unwrap())));
        full_bytes = first.as_ref().unwrap().file_bytes;
        kept = first.unwrap().signature_bytes;
        let middle = processor_s();
        full_processor_s += (middle - begin) / rounds as f64;
        let mut record = None;
        times.push(seconds(|| {
            record = Some(series.add(&new, &|_| {}).unwrap())
        }));
        delta_processor_s += (processor_s() - middle) / rounds as f64;
        let record = record.unwrap();
        (bytes, changed) = (record.file_bytes, record.changed_bytes);
        hash.push(record.hash_s);
        let back = scratch.join("back");
        restores.push(seconds(|| series.restore(2, &back, &|_| {}).unwrap()));
        for (_, file) in &pairs {
            let restored = back.join(file.file_name().unwrap());
            assert!(fs::read(file).unwrap() == fs::read(restored).unwrap());
        }
        fs::remove_dir_all(&back).unwrap();
        fs::remove_dir_all(&dir).unwrap();
    }
    println!(
        "{} images of {:.1} MiB, {:.2} MiB of pages changed",
        pairs.len(),
        mib(all),
        mib(changed)
    );
    println!(
        "state kept of the older one: {:.2} MiB, {:.2} % of its images; peers keep and read 100 %",
        mib(kept),
        100.0 * kept as f64 / all as f64
    );
    let restored = median(restores);
    println!("restored and compared with the original: {restored:.3} s with sync");
    let own = Needed {
        name: "cvc, delta".into(),
        took_s: median(times),
        processor_s: delta_processor_s,
        bytes,
    };
    println!("of it hashing: {:.3} s", median(hash));
    let out = scratch.join("out");
    let mut peers = Vec::new();
    peers.extend(over_pairs(
        "xdelta3 -1",
        rounds,
        &pairs,
        &out,
        |old, new, out| run("xdelta3", &["-1", "-e", "-f", "-s", old, new, out], &[]),
    ));
    peers.extend(over_pairs(
        "xdelta3",
        rounds,
        &pairs,
        &out,
        |old, new, out| run("xdelta3", &["-e", "-f", "-s", old, new, out], &[]),
    ));
    peers.extend(over_pairs(
        "zstd -1 --patch-from",
        rounds,
        &pairs,
        &out,
        |old, new, out| {
            let from = format!("--patch-from={old}");
            run(
                "zstd",
                &["-1", "-q", "-f", "--long=27", &from, new, "-o", out],
                &[],
            )
        },
    ));
    tell(&own, &peers);
    let own = Needed {
        name: "cvc, in full".into(),
        took_s: median(full_s),
        processor_s: full_processor_s,
        bytes: full_bytes,
    };
    let mut peers = Vec::new();
    peers.extend(over_pairs("gzip -1", 1, &pairs, &out, |_, new, out| {
        run("sh", &["-c", "gzip -1 < \"$0\" > \"$1\"", new, out], &[])
    }));
    peers.extend(over_pairs("zstd -3 -T0", 1, &pairs, &out, |_, new, out| {
        run("zstd", &["-3", "-T0", "-q", "-f", new, "-o", out], &[])
    }));
    tell(&own, &peers);
    let smallest = pairs
        .iter()
        .min_by_key(|(_, new)| bytes_below(new))
        .cloned();
    if let Some(pair) = smallest {
        let name = format!("bsdiff, of {:.1} MiB alone", mib(bytes_below(&pair.1)));
        let size = over_pairs(&name, 1, &[pair], &out, |old, new, out| {
            run("bsdiff", &[old, new, out], &[])
        });
        if let Some(needed) = size {
            println!(
                "{name}: {:.3} s, {:.2} MiB",
                needed.took_s,
                mib(needed.bytes)
            );
        }
    }
}

/// How fast a state is hashed, against reading it.
fn hashing(states: &[PathBuf], rounds: usize) {
    let source = Source::list(&states[states.len() - 1]).unwrap();
    let paths: Vec<&str> = source
        .files
        .iter()
        .map(|f| f.path.to_str().unwrap())
        .collect();
    let (mut own, mut cat, mut hash_s) = (Vec::new(), Vec::new(), 0.0);
    // the first one fills the cache
    for _ in 0..=rounds {
        let before = processor_s();
        own.push(seconds(|| {
            sign(&source, Addressing::Address, BlockSize::PAGE, &|_| {}).unwrap();
        }));
        hash_s += processor_s() - before;
        // into a pipe: /dev/null would not even be given the bytes
        let script = "cat \"$@\" | cat > /dev/null";
        let mut args = vec!["-c", script, "sh"];
        args.extend(&paths);
        cat.extend(run("sh", &args, &[]));
    }
    let mut reads = Vec::new();
    let before = processor_s();
    for _ in 0..=rounds {
        reads.push(seconds(|| {
            let mut buffer = vec![0; 1 << 20];
            for path in &paths {
                let mut file = fs::File::open(path).unwrap();
                while std::io::Read::read(&mut file, &mut buffer).unwrap() > 0 {}
            }
        }));
    }
    let read_s = processor_s() - before;
    println!(
        "hashing takes {:.1} times the processor time of reading alone",
        hash_s / read_s.max(0.01)
    );
    let rate = |times: Vec<f64>| mib(source.bytes()) / median(times);
    let (own, reads) = (rate(own), rate(reads));
    println!(
        "hashing: {own:.0} MiB/s; reading from the cache with one thread: {reads:.0} MiB/s ({:.0} %)",
        100.0 * own / reads
    );
    if !cat.is_empty() {
        let cat = rate(cat);
        println!("cat to a pipe: {cat:.0} MiB/s ({:.0} %)", 100.0 * own / cat);
    }
}

/// All states as a series, against repositories.
fn series(states: &[PathBuf], scratch: &Path) {
    let all: u64 = states.iter().map(|state| bytes_below(state)).sum();
    println!("{} states of {:.0} MiB together:", states.len(), mib(all));
    for method in [Method::Incremental, SeriesOptions::default().method] {
        let dir = scratch.join("series");
        let options = SeriesOptions {
            method,
            ..SeriesOptions::default()
        };
        let mut series = Series::create(&dir, options).unwrap();
        let stored = seconds(|| {
            for state in states {
                series.add(state, &|_| {}).unwrap();
            }
        });
        let size = bytes_below(&dir);
        let back = scratch.join("back");
        let last = series.states().last().unwrap().state;
        let restored = seconds(|| series.restore(last, &back, &|_| {}).unwrap());
        println!(
            "cvc, {}: {:.1} MiB, stored in {stored:.2} s, the last restored in {restored:.2} s",
            method.as_str(),
            mib(size)
        );
        fs::remove_dir_all(&back).unwrap();
        fs::remove_dir_all(&dir).unwrap();
    }
    let repository = scratch.join("repository");
    let place = repository.to_str().unwrap();
    let back = scratch.join("back");
    let to = back.to_str().unwrap();
    let restic = [
        ("RESTIC_REPOSITORY", place),
        ("RESTIC_PASSWORD", "x"),
        ("RESTIC_CACHE_DIR", scratch.to_str().unwrap()),
    ];
    let borg = [
        ("BORG_BASE_DIR", scratch.to_str().unwrap()),
        ("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes"),
    ];
    type Step<'a> = &'a dyn Fn(usize, &str) -> Option<f64>;
    let tools: [(&str, Step<'_>, Step<'_>, Step<'_>); 2] = [
        (
            "restic",
            &|_, _| run("restic", &["init"], &restic),
            &|_, state| run("restic", &["backup", state], &restic),
            &|_, _| run("restic", &["restore", "latest", "--target", to], &restic),
        ),
        (
            "borg",
            &|_, _| run("borg", &["init", "-e", "none", place], &borg),
            &|n, state| run("borg", &["create", &format!("{place}::{n}"), state], &borg),
            &|n, _| {
                let script = "mkdir \"$1\" && cd \"$1\" && borg extract \"$0\"";
                run("sh", &["-c", script, &format!("{place}::{n}"), to], &borg)
            },
        ),
    ];
    for (name, begin, store, restore) in tools {
        fs::remove_dir_all(&repository).ok();
        let stored: Option<f64> = begin(0, "").and_then(|_| {
            let each = states.iter().enumerate();
            each.map(|(n, state)| store(n, state.to_str().unwrap()))
                .sum()
        });
        let restored = stored.and_then(|_| restore(states.len() - 1, ""));
        match (stored, restored) {
            (Some(stored), Some(restored)) => println!(
                "{name}: {:.1} MiB, stored in {stored:.2} s, the last restored in {restored:.2} s",
                mib(bytes_below(&repository))
            ),
            _ => eprintln!("skipped: {name} is not here, or fails"),
        }
        fs::remove_dir_all(&back).ok();
    }
}

fn main() {
    let rounds = env::var("CVC_DELTA_ROUNDS").map_or(3, |n| n.parse().unwrap());
    let scratch = tempfile::tempdir().unwrap();
    let states = states(scratch.path());
    assert!(states.len() >= 2, "two states or more");
    hashing(&states, rounds);
    deltas(&states, scratch.path(), rounds);
    series(&states, scratch.path());
}
