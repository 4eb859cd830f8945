//! Bandwidth of memory, measured as by the STREAM benchmark, and of exclusive or (XOR).

use super::MIB;
use serde::{Deserialize, Serialize};
use std::{
    hint::black_box,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Elements of each array of a thread: 32 MiB, larger than the caches of a core.
const ELEMENTS: usize = 4 << 20;

/// Bandwidth of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryBandwidth {
    /// Threads that computed at the same time.
    pub threads: usize,
    /// Bandwidth of a = b + s·c on all threads, MiB/s, with 24 bytes for each element as in STREAM: the sum of each thread's best pass.
    pub triad_mib_s: f64,
    /// Bandwidth of a = a ⊕ b on one thread, MiB of b per second.
    pub xor_mib_s: f64,
}

/// Measures the bandwidth of memory with this number of threads for this time.
#[must_use]
pub fn memory_bandwidth(threads: usize, time: Duration) -> MemoryBandwidth {
    let begin = Instant::now();
    let triad = triads(threads, &|| begin.elapsed() >= time);
    MemoryBandwidth {
        threads,
        triad_mib_s: triad.best_mib_s,
        xor_mib_s: xor_mib_s(time),
    }
}

/// Bandwidth of triads, summed over threads.
pub(super) struct Triads {
    /// Sum over threads of the bandwidth of the best pass, MiB/s.
    pub best_mib_s: f64,
    /// Sum over threads of the bandwidth of all passes, MiB/s.
    pub mean_mib_s: f64,
}

/// Computes triads until `is_over` returns true, at least two passes in each thread.
pub(super) fn triads(threads: usize, is_over: &(dyn Fn() -> bool + Sync)) -> Triads {
    let (ready, over) = (Barrier::new(threads), AtomicBool::new(false));
    let of_thread = || {
        let mut a = vec![0.0f64; ELEMENTS];
        let (b, c) = (vec![1.0f64; ELEMENTS], vec![2.0f64; ELEMENTS]);
        // the first pass touches all pages; then all threads begin together
        triad(&mut a, &b, &c);
        ready.wait();
        let (mut passes, mut best_s, mut total_s) = (0u32, f64::INFINITY, 0.0);
        while passes < 2 || !over.load(Ordering::Relaxed) {
            let begin = Instant::now();
            triad(black_box(&mut a), black_box(&b), black_box(&c));
            let seconds = begin.elapsed().as_secs_f64();
            (passes, best_s, total_s) = (passes + 1, best_s.min(seconds), total_s + seconds);
            if is_over() {
                over.store(true, Ordering::Relaxed);
            }
        }
        black_box(a);
        let pass_mib = 24.0 * ELEMENTS as f64 / MIB;
        (pass_mib / best_s, pass_mib * f64::from(passes) / total_s)
    };
    let each: Vec<(f64, f64)> = thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(of_thread)).collect();
        all.into_iter().filter_map(|one| one.join().ok()).collect()
    });
    Triads {
        best_mib_s: each.iter().map(|(best, _)| best).sum(),
        mean_mib_s: each.iter().map(|(_, mean)| mean).sum(),
    }
}

fn triad(a: &mut [f64], b: &[f64], c: &[f64]) {
    for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
        *a = b + 3.0 * c;
    }
}

fn xor_mib_s(time: Duration) -> f64 {
    let mut a = vec![1u64; ELEMENTS];
    let b = vec![2u64; ELEMENTS];
    let begin = Instant::now();
    let mut best_s = f64::INFINITY;
    while begin.elapsed() < time || best_s.is_infinite() {
        let pass = Instant::now();
        let (to, from) = (black_box(&mut a), black_box(&b));
        for (to, from) in to.iter_mut().zip(from) {
            *to ^= from;
        }
        best_s = best_s.min(pass.elapsed().as_secs_f64());
    }
    black_box(a);
    8.0 * ELEMENTS as f64 / MIB / best_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_delivers_something_to_each_number_of_threads() {
        let one = memory_bandwidth(1, Duration::from_millis(20));
        let two = memory_bandwidth(2, Duration::from_millis(20));
        for of in [&one, &two] {
            assert!(
                of.triad_mib_s > 10.0 && of.triad_mib_s.is_finite(),
                "{of:?}"
            );
            assert!(of.xor_mib_s > 10.0 && of.xor_mib_s.is_finite(), "{of:?}");
        }
        assert_eq!((one.threads, two.threads), (1, 2));
    }
}
