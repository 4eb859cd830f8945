//! Tests of schedules, which are reproducible from their seeds, and of the coverage of intervals.

mod calibrate;
mod calibration;

use cvc_simulation::{Story, directory, simulate};

/// Number of schedules; `cargo xtask simulate` carries out more.
const SCHEDULES: u64 = 1000;
/// Further seeds whose schedules have found errors.
const TELLING: [u64; 2] = [1_723, 24_551];

fn story(seed: u64) -> Story {
    let (_made, dir) = directory();
    simulate(seed, &dir)
}

#[test]
fn whatever_breaks_each_run_has_one_end_and_nothing_is_left() {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(seed) = (1..=SCHEDULES).chain(TELLING).nth(number) else {
                        return;
                    };
                    let wrong = story(seed).wrong;
                    assert!(
                        wrong.is_empty(),
                        "seed {seed}: {wrong:?}\nits story: cargo xtask simulate --seed {seed}"
                    );
                }
            });
        }
    });
}

#[test]
fn a_seed_has_one_story() {
    for seed in 1..=60 {
        let (first, second) = (story(seed), story(seed));
        let differs = first
            .lines
            .iter()
            .zip(&second.lines)
            .position(|(a, b)| without_names(a) != without_names(b));
        assert_eq!(
            differs,
            None,
            "seed {seed}: {:?}",
            differs.map(|at| (&first.lines[at], &second.lines[at]))
        );
        assert_eq!(first.lines.len(), second.lines.len(), "seed {seed}");
    }
}

/// Returns a line without directory and lineage, which are random.
fn without_names(line: &str) -> String {
    line.split_whitespace()
        .filter(|word| !word.contains('/'))
        .collect::<Vec<_>>()
        .join(" ")
}
