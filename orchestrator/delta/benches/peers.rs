//! Compares deltas of checkpoints with other tools, in one run: `cargo bench -p cvc-delta --bench peers`.
//!
//! - `hashing`: hashing a state, compared with reading the same files, with one thread and with all cores, from the cache and from disk;
//! - `deltas`: the last state as a delta against the previous one, image by image: `xdelta3 -1` and default, `zstd -1 --patch-from`; also
//!   `gzip -1` of the images, and `bsdiff` for the smallest changed image only, for its size;
//! - `ranks`: bytes that a full state stores for the images of all ranks, before compression;
//! - `packets`: packets of blocks, compared with all blocks as one stream: size, and time to restore one block and the whole state;
//! - `series`: all states as a series, with the changes and the stored bytes of each;
//! - `repositories`: the same states in repositories of `restic` and `borg`: size, time to store, time to restore the last state.
//!
//! `CVC_DELTA_STATES` lists the directories of the states in order, separated by `:`; without it, states are synthesised. `CVC_DELTA_ROUNDS` sets
//! the number of measurements; medians are printed. `CVC_DELTA_PARTS` selects parts of this list, separated by `,`. Missing tools are reported as
//! skipped. Times labelled `sync` include waiting until the data are on disk, as a series does; times labelled `in memory` are of a series in
//! `/dev/shm`.

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
mod common;
#[path = "../tests/it/process.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod process;

use cvc_delta::{
    Addressing, BlockSize, Codec, Method, Series, SeriesOptions, Source, SourceFile, sign,
};
use process::{DATA, PAGE, Process};
use rayon::prelude::*;
use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

/// Number of pages of a synthesised image; the next constant is the number of pages that change in a step.
const PAGES: u64 = 24_000;
const CHANGED: u64 = 700;

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Returns the processor time of this process and of all children that it has waited for, seconds. Other programs on the machine hardly affect it.
fn processor_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // fields 14 to 17 of proc(5), in hundredths of a second, after the program name, which may contain spaces
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

/// Runs a program and returns the time, seconds; `None` if it is missing or fails.
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

/// Returns the total length of all files below a path, bytes.
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

/// Returns the states that the environment lists, or synthesises some.
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

/// Resources that a tool needed: medians over the rounds.
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

/// Returns the pairs of images with the same name in two states.
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

/// Runs a tool on all pairs; returns the size of its output and the time.
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

/// Returns a directory in memory, where writing does not wait for a disk.
fn in_memory() -> Option<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").ok()
}

/// Resources that a series of two states needs, medians.
#[derive(Clone)]
struct Own {
    full_s: f64,
    full_processor_s: f64,
    full_bytes: u64,
    delta_s: f64,
    delta_processor_s: f64,
    hash_s: f64,
    bytes: u64,
    changed: u64,
    new: u64,
    kept: u64,
    restore_s: f64,
}

impl Own {
    fn measure(
        scratch: &Path,
        old: &Path,
        new: &Path,
        pairs: &[(PathBuf, PathBuf)],
        rounds: usize,
    ) -> Self {
        let options = SeriesOptions {
            method: Method::Incremental,
            ..SeriesOptions::default()
        };
        let (mut full, mut delta, mut hash, mut restore) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut full_processor_s, mut delta_processor_s) = (0.0, 0.0);
        let mut last = None;
        for round in 0..rounds {
            let dir = scratch.join(format!("delta-{round}"));
            let mut series = Series::create(&dir, options).unwrap();
            let mut first = None;
            let begin = processor_s();
            full.push(seconds(|| first = Some(series.add(old, &|_| {}).unwrap())));
            let middle = processor_s();
            full_processor_s += (middle - begin) / rounds as f64;
            let mut second = None;
            delta.push(seconds(|| second = Some(series.add(new, &|_| {}).unwrap())));
            delta_processor_s += (processor_s() - middle) / rounds as f64;
            hash.push(second.as_ref().unwrap().hash_s);
            let back = scratch.join("back");
            restore.push(seconds(|| series.restore(2, &back, &|_| {}).unwrap()));
            for (_, file) in pairs {
                let restored = back.join(file.file_name().unwrap());
                assert!(fs::read(file).unwrap() == fs::read(restored).unwrap());
            }
            fs::remove_dir_all(&back).unwrap();
            fs::remove_dir_all(&dir).unwrap();
            last = first.zip(second);
        }
        let (first, second) = last.unwrap();
        Self {
            full_s: median(full),
            full_processor_s,
            full_bytes: first.file_bytes,
            delta_s: median(delta),
            delta_processor_s,
            hash_s: median(hash),
            bytes: second.file_bytes,
            changed: second.changed_bytes,
            new: second.new_bytes.unwrap_or(0),
            kept: first.signature_bytes,
            restore_s: median(restore),
        }
    }

    fn tell(&self, how: &str) {
        println!(
            "{how}: in full {:.3} s; delta {:.3} s, of it {:.3} s to read and hash; restored in {:.3} s, and compared with the original",
            self.full_s, self.delta_s, self.hash_s, self.restore_s
        );
    }
}

/// Measures deltas of the last state against the previous one.
fn deltas(states: &[PathBuf], scratch: &Path, rounds: usize) {
    let [.., old, new] = states else { return };
    let pairs = pairs(old, new);
    let all: u64 = pairs.iter().map(|(_, new)| bytes_below(new)).sum();
    // all tools get the same images: a directory without other files
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
    let on_disk = Own::measure(scratch, &old, &new, &pairs, rounds);
    let (bytes, kept, changed) = (on_disk.bytes, on_disk.kept, on_disk.changed);
    println!(
        "{} images of {:.1} MiB, {:.2} MiB of pages changed, {:.2} MiB of it new: 1/{:.0} of the images before compression",
        pairs.len(),
        mib(all),
        mib(changed),
        mib(on_disk.new),
        all as f64 / on_disk.new.max(1) as f64
    );
    println!(
        "state kept of the older one: {:.2} MiB, {:.2} % of its images; peers keep and read 100 %",
        mib(kept),
        100.0 * kept as f64 / all as f64
    );
    on_disk.tell("with sync");
    let own = match in_memory() {
        Some(memory) => {
            let own = Own::measure(memory.path(), &old, &new, &pairs, rounds);
            own.tell("in memory");
            own
        }
        None => on_disk.clone(),
    };
    // the other tools do not wait until their files are on disk
    let full = Needed {
        name: "cvc, in full, without sync".into(),
        took_s: own.full_s,
        processor_s: own.full_processor_s,
        bytes: own.full_bytes,
    };
    let with_sync = Needed {
        name: "cvc, delta, with sync".into(),
        took_s: on_disk.delta_s,
        processor_s: on_disk.delta_processor_s,
        bytes,
    };
    let own = Needed {
        name: "cvc, delta, without sync".into(),
        took_s: own.delta_s,
        processor_s: own.delta_processor_s,
        bytes,
    };
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
    tell(&with_sync, &peers);
    let mut peers = Vec::new();
    peers.extend(over_pairs("gzip -1", 1, &pairs, &out, |_, new, out| {
        run("sh", &["-c", "gzip -1 < \"$0\" > \"$1\"", new, out], &[])
    }));
    peers.extend(over_pairs("zstd -3 -T0", 1, &pairs, &out, |_, new, out| {
        run("zstd", &["-3", "-T0", "-q", "-f", new, "-o", out], &[])
    }));
    tell(&full, &peers);
    let is_other =
        |(old, new): &&(PathBuf, PathBuf)| fs::read(old).unwrap() != fs::read(new).unwrap();
    let smallest = pairs
        .iter()
        .filter(is_other)
        .min_by_key(|(_, new)| bytes_below(new))
        .cloned();
    if let Some(pair) = smallest {
        let one = |name: &str, image: &Path| {
            let dir = scratch.join(name);
            fs::create_dir(&dir).unwrap();
            let to = dir.join(image.file_name().unwrap());
            if fs::hard_link(image, &to).is_err() {
                fs::copy(image, &to).unwrap();
            }
            dir
        };
        let (before, after) = (one("one-old", &pair.0), one("one-new", &pair.1));
        let alone = Own::measure(scratch, &before, &after, std::slice::from_ref(&pair), 1);
        let name = format!("bsdiff, of {:.1} MiB alone", mib(bytes_below(&pair.1)));
        let size = over_pairs(&name, 1, &[pair], &out, |old, new, out| {
            run("bsdiff", &[old, new, out], &[])
        });
        if let Some(needed) = size {
            println!(
                "{name}: {:.3} s, {:.2} MiB; cvc's is {:.2} MiB",
                needed.took_s,
                mib(needed.bytes),
                mib(alone.bytes)
            );
        }
    }
}

/// Number of bytes that a thread reads at a time.
const PIECE: u64 = 1 << 20;

/// Reads files in pieces, with all threads of the pool, each into its own buffer.
fn read(source: &Source) {
    for file in &source.files {
        let opened = fs::File::open(&file.path).unwrap();
        (0..file.bytes.div_ceil(PIECE))
            .into_par_iter()
            .for_each_init(
                || vec![0; PIECE as usize],
                |buffer, n| {
                    let bytes = (file.bytes - n * PIECE).min(PIECE) as usize;
                    opened
                        .read_exact_at(&mut buffer[..bytes], n * PIECE)
                        .unwrap();
                },
            );
    }
}

/// Evicts files from the system's cache; `None` if that fails.
fn forget(source: &Source) -> Option<()> {
    for file in &source.files {
        let from = format!("if={}", file.path.display());
        run("dd", &[&from, "iflag=nocache", "count=0"], &[])?;
    }
    Some(())
}

/// Measures the speed of hashing a state, and of only reading its files.
fn hashing(states: &[PathBuf], rounds: usize) {
    let source = Source::list(&states[states.len() - 1]).unwrap();
    let hash = || {
        sign(&source, Addressing::Address, BlockSize::PAGE, &|_| {}).unwrap();
    };
    let alone = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    let rate = |times: Vec<f64>| mib(source.bytes()) / median(times);
    // the first reading fills the cache; then both alternate, so that other load affects both equally
    read(&source);
    let (mut own, mut all, mut one) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        own.push(seconds(hash));
        all.push(seconds(|| read(&source)));
        one.push(seconds(|| alone.install(|| read(&source))));
    }
    let (own, all, one) = (rate(own), rate(all), rate(one));
    println!(
        "from the cache: hashing {own:.0} MiB/s; reading alone {all:.0} MiB/s with all cores ({:.0} %), {one:.0} MiB/s with one thread ({:.0} %)",
        100.0 * own / all,
        100.0 * own / one
    );
    let (mut own, mut all) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        if forget(&source).is_none() {
            eprintln!("skipped: reading from the disk: the cache cannot be emptied");
            return;
        }
        own.push(seconds(hash));
        forget(&source);
        all.push(seconds(|| read(&source)));
    }
    let (own, all) = (rate(own), rate(all));
    println!(
        "from the disk: hashing {own:.0} MiB/s; reading alone {all:.0} MiB/s with all cores ({:.0} %)",
        100.0 * own / all
    );
}

/// Measures how many bytes a full state stores for the images of all ranks.
fn ranks(states: &[PathBuf], scratch: &Path) {
    let source = Source::list(&states[0]).unwrap();
    // ranks are the largest group of images of one program; the others are launchers
    let program = |name: &str| name.rsplit_once('_').map(|(program, _)| program.to_owned());
    let mut by_program: BTreeMap<String, Vec<&SourceFile>> = BTreeMap::new();
    for file in source.files.iter().filter(|f| f.name.ends_with(".dmtcp")) {
        by_program
            .entry(program(&file.name).unwrap_or_default())
            .or_default()
            .push(file);
    }
    let Some(images) = by_program.into_values().max_by_key(Vec::len) else {
        return;
    };
    let dir = scratch.join("ranks");
    fs::create_dir(&dir).unwrap();
    for file in &images {
        let to = dir.join(&file.name);
        if fs::hard_link(&file.path, &to).is_err() {
            fs::copy(&file.path, &to).unwrap();
        }
    }
    let options = SeriesOptions {
        codec: Codec::None,
        ..SeriesOptions::default()
    };
    let place = scratch.join("of-ranks");
    let record = Series::create(&place, options)
        .unwrap()
        .add(&dir, &|_| {})
        .unwrap();
    println!(
        "{} images of ranks, {:.1} MiB together: in full {:.1} MiB before compression, {:.1} % of their sum",
        images.len(),
        mib(record.content_bytes),
        mib(record.file_bytes),
        100.0 * record.file_bytes as f64 / record.content_bytes as f64
    );
    fs::remove_dir_all(&place).unwrap();
}

/// A full state, with the times of restoring it.
struct Stored {
    dir: PathBuf,
    bytes: u64,
    block_s: Vec<f64>,
    whole_s: Vec<f64>,
    processor_s: f64,
}

impl Stored {
    /// Restores a block of a file, and then the whole state.
    fn restore(&mut self, file: &SourceFile, at: u64, back: &Path) {
        let mut read = Vec::new();
        self.block_s.push(seconds(|| {
            let mut chain = Series::open(&self.dir).unwrap().chain(1).unwrap();
            chain
                .read(&file.name, at..at + 4096, &mut |bytes| {
                    read.extend_from_slice(bytes);
                    Ok(())
                })
                .unwrap();
        }));
        let mut original = vec![0; read.len()];
        let opened = fs::File::open(&file.path).unwrap();
        opened.read_exact_at(&mut original, at).unwrap();
        assert!(read == original && read.len() == 4096);
        let series = Series::open(&self.dir).unwrap();
        let before = processor_s();
        self.whole_s
            .push(seconds(|| series.restore(1, back, &|_| {}).unwrap()));
        self.processor_s += processor_s() - before;
        fs::remove_dir_all(back).unwrap();
    }
}

/// Compares packets of blocks with one stream, for the last state in full.
fn packets(states: &[PathBuf], scratch: &Path, rounds: usize) {
    let memory = in_memory();
    let scratch = memory.as_ref().map_or(scratch, tempfile::TempDir::path);
    let state = &states[states.len() - 1];
    let source = Source::list(state).unwrap();
    let longest = source.files.iter().max_by_key(|f| f.bytes).unwrap();
    for codec in [Codec::Zstd, Codec::Gzip, Codec::Lz4] {
        let mut both: Vec<Stored> = [SeriesOptions::default().packet_blocks, 0]
            .into_iter()
            .map(|packet_blocks| {
                let dir = scratch.join(format!("packets-{packet_blocks}"));
                let options = SeriesOptions {
                    codec,
                    packet_blocks,
                    ..SeriesOptions::default()
                };
                let mut series = Series::create(&dir, options).unwrap();
                let bytes = series.add(state, &|_| {}).unwrap().file_bytes;
                Stored {
                    dir,
                    bytes,
                    block_s: Vec::new(),
                    whole_s: Vec::new(),
                    processor_s: 0.0,
                }
            })
            .collect();
        // both alternate, so that other load affects both equally
        for round in 0..rounds {
            // blocks distributed over the whole file
            let at = longest.bytes / (rounds as u64 + 1) * (round as u64 + 1) / 4096 * 4096;
            for stored in &mut both {
                stored.restore(longest, at, &scratch.join("back"));
            }
        }
        let [packets, stream] = &both[..] else { return };
        let (block, stream_block) = (
            median(packets.block_s.clone()),
            median(stream.block_s.clone()),
        );
        let (whole, stream_whole) = (
            median(packets.whole_s.clone()),
            median(stream.whole_s.clone()),
        );
        println!(
            "{}: packets {:.2} MiB, stream {:.2} MiB: {:+.1} %; a block {:.1} ms against {:.1} ms: {:.1} times faster; all {whole:.3} s against {stream_whole:.3} s: {:.2} of the time, {:.2} of the processor time",
            codec.as_str(),
            mib(packets.bytes),
            mib(stream.bytes),
            100.0 * (packets.bytes as f64 / stream.bytes as f64 - 1.0),
            1000.0 * block,
            1000.0 * stream_block,
            stream_block / block,
            whole / stream_whole,
            packets.processor_s / stream.processor_s
        );
        for stored in &both {
            fs::remove_dir_all(&stored.dir).unwrap();
        }
    }
}

/// Stores all states as a series.
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
        for record in series.states() {
            println!(
                "  state {}: {:.1} MiB, changed {:.2} MiB, of it elsewhere in the base {:.2} MiB, new {:.2} MiB, stored {:.2} MiB",
                record.state,
                mib(record.content_bytes),
                mib(record.changed_bytes),
                mib(record.moved_bytes),
                mib(record.new_bytes.unwrap_or(0)),
                mib(record.file_bytes)
            );
        }
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
}

/// Stores all states in repositories of other tools.
fn repositories(states: &[PathBuf], scratch: &Path) {
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
    let parts = env::var("CVC_DELTA_PARTS").unwrap_or_default();
    let is_asked = |part: &str| parts.is_empty() || parts.split(',').any(|p| p == part);
    if is_asked("hashing") {
        hashing(&states, rounds);
    }
    if is_asked("deltas") {
        deltas(&states, scratch.path(), rounds);
    }
    if is_asked("ranks") {
        ranks(&states, scratch.path());
    }
    if is_asked("packets") {
        packets(&states, scratch.path(), rounds);
    }
    if is_asked("series") {
        series(&states, scratch.path());
    }
    if is_asked("repositories") {
        repositories(&states, scratch.path());
    }
}
