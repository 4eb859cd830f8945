//! Compares zone tables with DMTCP's own tools, in one run: `cargo bench -p cvc-image --bench image`.
//!
//! - plain images of 1 GiB with 200 and 3000 area headers, compared with `mtcp_restart --simulate`, which only lists;
//! - a gzip-compressed image, compared with `gzip -dc` to a temporary file followed by the listing;
//! - a directory of gzip-compressed images, with all cores and with one.
//!
//! Then medians of alternating runs are printed, with their ratios. DMTCP is searched in `CVC_DMTCP_ROOT`, on PATH and in /usr/local; without it,
//! comparisons that need it are reported as skipped.

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

#[path = "../tests/it/common/mod.rs"]
mod common;

use common::{Area, Kind, child, file, header_page, parent};
use criterion::{Criterion, criterion_group};
use cvc_image::{ReadDirOptions, read_dir_with, read_image};
use std::{
    fs::{self, File},
    hint::black_box,
    io::{BufWriter, Seek, SeekFrom, Write},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

const GIB: u64 = 1 << 30;
const DIR_IMAGES: usize = 8;

/// Returns areas with `bytes` bytes of data and about `headers` headers, as DMTCP 4.2 writes them: segments of libraries, and one region in runs.
fn areas(headers: usize, bytes: u64) -> Vec<Area> {
    let libraries = headers / 10;
    let library = 64 << 10;
    let mut areas = vec![
        file(0x5000_0000_0000, 1 << 20, 5, "/home/u/prog"),
        parent(0x5000_0002_0000 + (1 << 21), 132 << 10, 3, "[heap]"),
    ];
    areas.push(child(0x5000_0002_0000 + (1 << 21), 132 << 10, 3, false));
    let pairs = ((headers - libraries - 4) / 2) as u64;
    let used: u64 =
        areas.iter().map(|area| area.data as u64).sum::<u64>() + library * libraries as u64;
    let run = ((bytes - used) / pairs) & !4095;
    let start = 0x7e00_0000_0000;
    areas.push(parent(start, pairs * (run + 4096), 3, ""));
    for i in 0..pairs {
        areas.push(child(start + i * (run + 4096), 4096, 3, true));
        areas.push(child(start + i * (run + 4096) + 4096, run, 3, false));
    }
    for i in 0..libraries as u64 {
        areas.push(file(
            0x7f00_0000_0000 + i * library,
            library,
            5,
            &format!("/usr/lib/x86_64-linux-gnu/libnumber{}.so.6", i / 5),
        ));
    }
    areas
}

/// Writes data into a buffer.
type Fill<'a> = &'a mut dyn FnMut(&mut [u8]);

/// Writes an image; `fill` provides the data, without it they are a hole in the file.
fn write_image(path: &Path, areas: &[Area], mut fill: Option<Fill<'_>>) {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    out.write_all(&common::v4_header("prog", "/home/u/prog", 42_000))
        .unwrap();
    let mut buffer = vec![0; 1 << 16];
    for area in areas {
        out.write_all(&header_page(Kind::V4, area)).unwrap();
        match &mut fill {
            None => {
                out.seek(SeekFrom::Current(i64::try_from(area.data).unwrap()))
                    .unwrap();
            }
            Some(fill) => {
                let mut left = area.data;
                while left > 0 {
                    let part = left.min(buffer.len());
                    fill(&mut buffer[..part]);
                    out.write_all(&buffer[..part]).unwrap();
                    left -= part;
                }
            }
        }
    }
    out.write_all(&common::end_marker()).unwrap();
    out.flush().unwrap();
}

/// Returns a generator of realistic memory contents in equal parts: machine code, doubles of a smooth field with noise, integers, and noise.
fn realistic(seed: u64) -> impl FnMut(&mut [u8]) {
    let code = fs::read(std::env::current_exe().unwrap()).unwrap();
    let mut state = seed | 1;
    let mut at = 0usize;
    move |buffer| {
        for page in buffer.chunks_mut(4096) {
            let mut random = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state
            };
            let kind = random() % 10;
            let from = usize::try_from(random()).unwrap() % (code.len() - 4096);
            match kind {
                0..4 => page.copy_from_slice(&code[from..from + page.len()]),
                4..7 => {
                    for value in page.chunks_exact_mut(8) {
                        at += 1;
                        #[expect(clippy::cast_precision_loss, reason = "any smooth field will do")]
                        let smooth = ((at / 64) as f64 * 1e-3).sin() as f32;
                        value.copy_from_slice(
                            &(f64::from(smooth) + (random() % 16) as f64 / 1024.0).to_le_bytes(),
                        );
                    }
                }
                7..9 => page.chunks_exact_mut(4).for_each(|value| {
                    value.copy_from_slice(&u32::try_from(random() % 1000).unwrap().to_le_bytes())
                }),
                _ => page
                    .chunks_exact_mut(8)
                    .for_each(|value| value.copy_from_slice(&random().to_le_bytes())),
            }
        }
    }
}

fn gzip_1(plain: &Path, compressed: &Path) {
    let status = Command::new("gzip")
        .args(["-1", "-c"])
        .stdin(File::open(plain).unwrap())
        .stdout(File::create(compressed).unwrap())
        .status();
    assert!(status.unwrap().success());
    fs::remove_file(plain).unwrap();
}

struct Inputs {
    _dir: tempfile::TempDir,
    few: PathBuf,
    many: PathBuf,
    gzip: PathBuf,
    temporary: PathBuf,
    directory: PathBuf,
    mtcp_restart: Option<PathBuf>,
}

fn inputs() -> &'static Inputs {
    static INPUTS: OnceLock<Inputs> = OnceLock::new();
    INPUTS.get_or_init(|| {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let at = |name: &str| dir.path().join(name);
        write_image(&at("few"), &areas(200, GIB), None);
        write_image(&at("many"), &areas(3000, GIB), None);
        write_image(
            &at("plain"),
            &areas(2800, 256 << 20),
            Some(&mut realistic(1)),
        );
        gzip_1(&at("plain"), &at("gzip"));
        fs::create_dir(at("dir")).unwrap();
        for i in 0..DIR_IMAGES {
            write_image(
                &at("plain"),
                &areas(1000, 32 << 20),
                Some(&mut realistic(i as u64 + 2)),
            );
            gzip_1(
                &at("plain"),
                &at("dir").join(format!("ckpt_prog_98ff-{}-1.dmtcp", 41_000 + 1000 * i)),
            );
        }
        let sizes = read_image(&at("gzip")).unwrap();
        eprintln!(
            "gzip image: {} MiB inflated, {} MiB on disk, {} area headers",
            sizes.uncompressed_bytes >> 20,
            sizes.file_bytes >> 20,
            sizes.area_headers
        );
        let mtcp_restart = common::dmtcp::bin().map(|bin| bin.join("mtcp_restart"));
        Inputs {
            few: at("few"),
            many: at("many"),
            gzip: at("gzip"),
            temporary: at("temporary"),
            directory: at("dir"),
            _dir: dir,
            mtcp_restart,
        }
    })
}

fn zone_table(path: &Path) {
    black_box(read_image(black_box(path)).unwrap().zones);
}

/// Prints the zone table with the program as a user starts it: as a process, like the tool it is compared with.
fn zone_table_process(path: &Path) {
    let status = Command::new(cvc_testkit::node_program())
        .arg("image")
        .arg(path)
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
}

fn simulate(mtcp_restart: &Path, image: &Path) {
    // The exit code is not 0 if the image's program is not on this machine.
    Command::new(mtcp_restart)
        .arg("--simulate")
        .arg(image)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
}

/// Does what DMTCP's readdmtcp script does.
fn gunzip_and_simulate(inputs: &Inputs) {
    let (from, to) = (
        File::open(&inputs.gzip).unwrap(),
        File::create(&inputs.temporary).unwrap(),
    );
    assert!(
        Command::new("gzip")
            .arg("-dc")
            .stdin(from)
            .stdout(to)
            .status()
            .unwrap()
            .success()
    );
    if let Some(mtcp_restart) = &inputs.mtcp_restart {
        simulate(mtcp_restart, &inputs.temporary);
    }
    fs::remove_file(&inputs.temporary).unwrap();
}

fn directory(inputs: &Inputs, threads: Option<usize>) {
    let options = ReadDirOptions {
        threads: threads.and_then(NonZeroUsize::new),
    };
    let dir = read_dir_with(&inputs.directory, options).unwrap();
    assert_eq!(dir.images.len(), DIR_IMAGES);
    black_box(dir.totals);
}

fn bench_plain(c: &mut Criterion) {
    let inputs = inputs();
    let mut group = c.benchmark_group("plain 1 GiB");
    for (name, path) in [("200 headers", &inputs.few), ("3000 headers", &inputs.many)] {
        group.bench_function(format!("zone table, {name}"), |b| {
            b.iter(|| zone_table(path))
        });
        group.bench_function(format!("cvc-node image, {name}"), |b| {
            b.iter(|| zone_table_process(path))
        });
        match &inputs.mtcp_restart {
            Some(mtcp_restart) => {
                group.bench_function(format!("mtcp_restart --simulate, {name}"), |b| {
                    b.iter(|| simulate(mtcp_restart, path))
                });
            }
            None => eprintln!(
                "SKIPPED mtcp_restart --simulate, {name}: needs DMTCP (set CVC_DMTCP_ROOT)"
            ),
        }
    }
    group.finish();
}

fn bench_gzip(c: &mut Criterion) {
    let inputs = inputs();
    let mut group = c.benchmark_group("gzip 256 MiB");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(8));
    group.bench_function("zone table", |b| b.iter(|| zone_table(&inputs.gzip)));
    group.bench_function("gzip -dc > tmp, listing", |b| {
        b.iter(|| gunzip_and_simulate(inputs))
    });
    group.finish();
}

fn bench_directory(c: &mut Criterion) {
    let inputs = inputs();
    let mut group = c.benchmark_group("directory of 8 gzip images");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(8));
    group.bench_function("one thread", |b| b.iter(|| directory(inputs, Some(1))));
    group.bench_function("all cores", |b| b.iter(|| directory(inputs, None)));
    group.finish();
}

/// Returns the medians of both, seconds. The runs alternate, so that a drift of the machine affects both.
fn medians(runs: usize, mut ours: impl FnMut(), mut theirs: impl FnMut()) -> (f64, f64) {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        for (times, run) in [
            (&mut a, &mut ours as &mut dyn FnMut()),
            (&mut b, &mut theirs),
        ] {
            let start = Instant::now();
            run();
            times.push(start.elapsed().as_secs_f64());
        }
    }
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    (a[runs / 2], b[runs / 2])
}

fn ratio(what: &str, (ours, theirs): (f64, f64)) {
    println!(
        "{what}: {:.3} ms against {:.3} ms: {:.2}x",
        ours * 1e3,
        theirs * 1e3,
        theirs / ours
    );
}

fn ratios() {
    let inputs = inputs();
    println!("\nmedians of alternated runs, ours against the peer: how many times faster");
    if let Some(mtcp_restart) = &inputs.mtcp_restart {
        for (name, path) in [("200", &inputs.few), ("3000", &inputs.many)] {
            ratio(
                &format!("plain, {name} headers, library / mtcp_restart"),
                medians(51, || zone_table(path), || simulate(mtcp_restart, path)),
            );
            ratio(
                &format!("plain, {name} headers, cvc-node process / mtcp_restart"),
                medians(
                    51,
                    || zone_table_process(path),
                    || simulate(mtcp_restart, path),
                ),
            );
        }
    } else {
        println!("plain against mtcp_restart --simulate: skipped, needs DMTCP");
        println!("gzip: without the listing, which needs DMTCP");
    }
    ratio(
        "plain, library, 200 headers / 3000 headers",
        medians(51, || zone_table(&inputs.few), || zone_table(&inputs.many)),
    );
    ratio(
        "gzip / gzip -dc > tmp, listing",
        medians(
            7,
            || zone_table(&inputs.gzip),
            || gunzip_and_simulate(inputs),
        ),
    );
    ratio(
        "directory, all cores / one thread",
        medians(9, || directory(inputs, None), || directory(inputs, Some(1))),
    );
}

criterion_group!(benches, bench_plain, bench_gzip, bench_directory);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    // `cargo test --benches` only checks that the benchmark runs.
    if std::env::args().any(|argument| argument == "--bench") {
        ratios();
    }
}
