//! Expansion of 10^6 combinations with exclude rules, and the full plan with identifiers and order; beside it what a user would
//! otherwise write: `itertools.product` in Python with the same filter, timed in the same run (its start excluded).

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark tells what it measured"
)]

use criterion::{Criterion, criterion_group, criterion_main};
use cvc_core::campaign::{self, Combination, Spec};
use cvc_core::plan;
use std::{hint::black_box, io::Write, path::Path, process::Stdio, time::Instant};

/// 10 x 10 x 10 x 10 x 10 x 10 combinations.
fn campaign() -> Spec {
    let list = (0..10)
        .map(|i| i.to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let users = (0..6)
        .map(|i| format!("f{i} = [{list}]\n"))
        .collect::<String>();
    let text = format!(
        "schema = 1\nname = 'big'\n[sites.local]\nkind = 'local'\n[matrix]\napp = 'demo'\nclass = 'S'\nprocesses = 4\n[matrix.user]\n{users}\
         [[exclude]]\nwhen = {{ f0 = [1, 2], f1 = 3 }}\nreason = 'first'\n[[exclude]]\nwhen = {{ f2 = 4, f3 = [5, 6, 7] }}\nreason = 'second'\n\
         [[exclude]]\nwhen = {{ f4 = 9, f5 = 9 }}\nreason = 'third'\n[run]\nrepeats = 1\n"
    );
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apps");
    campaign::load_text(Path::new("big.toml"), &text, &[apps]).unwrap_or_else(|e| panic!("{e}"))
}

const PEER: &str = r#"
import itertools, time
began = time.perf_counter()
names = ["f0", "f1", "f2", "f3", "f4", "f5"]
fixed = {"site": "local", "app": "demo", "class": "S", "mapping": "1Nx4P", "mpi": "mpich", "checkpointer": "none", "compression": "none", "storage": "run"}
def excluded(p):
    if p["f0"] in (1, 2) and p["f1"] == 3: return "first"
    if p["f2"] == 4 and p["f3"] in (5, 6, 7): return "second"
    if p["f4"] == 9 and p["f5"] == 9: return "third"
    return None
kept, out = 0, 0
for values in itertools.product(range(10), repeat=6):
    point = {**fixed, **dict(zip(names, values))}
    if excluded(point): out += 1
    else: kept += 1
print(time.perf_counter() - began, kept, out)
"#;

/// Seconds, points kept, points excluded.
fn peer() -> Option<(f64, usize, usize)> {
    let mut child = std::process::Command::new("python3")
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(PEER.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut words = text.split_whitespace();
    Some((
        words.next()?.parse().ok()?,
        words.next()?.parse().ok()?,
        words.next()?.parse().ok()?,
    ))
}

/// Points that run, points that do not.
fn expand(spec: &Spec) -> (usize, usize) {
    spec.expand().fold((0, 0), |(runs, excluded), combination| {
        match black_box(combination) {
            Combination::Runs { .. } => (runs + 1, excluded),
            Combination::Excluded(_) => (runs, excluded + 1),
        }
    })
}

fn benchmark(c: &mut Criterion) {
    let spec = campaign();
    assert_eq!(spec.combinations(), 1_000_000);
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        let counts = expand(&spec);
        ours.push(began.elapsed().as_secs_f64());
        match peer() {
            Some((seconds, kept, out)) => {
                assert_eq!(counts, (kept, out), "the peer filters the same points");
                theirs.push(seconds);
            }
            None => eprintln!("SKIPPED comparison with itertools.product: needs python3"),
        }
    }
    let best = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    if !theirs.is_empty() {
        println!(
            "10^6 combinations: cvc {:.3} s, python3 itertools.product {:.3} s, ratio {:.1}",
            best(&ours),
            best(&theirs),
            best(&theirs) / best(&ours)
        );
    }
    let began = Instant::now();
    let plan = plan::build(&spec);
    println!(
        "a plan with {} identified points, {} excluded: {:.3} s",
        plan.points.len(),
        plan.excluded.len(),
        began.elapsed().as_secs_f64()
    );
    drop(plan);
    let mut group = c.benchmark_group("expand");
    group.sample_size(10);
    group.bench_function("10^6 combinations to points", |b| b.iter(|| expand(&spec)));
    group.bench_function("10^6 combinations to a plan with identifiers", |b| {
        b.iter(|| plan::build(&spec))
    });
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
