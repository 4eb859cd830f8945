//! Turns of the tests of one program: limits how many labs exist at the same time.

use std::sync::{Condvar, Mutex, PoisonError};

/// Maximum number of tests that hold a turn at once.
const SEATS: usize = 2;

static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

/// A seat of a test program, free again once this is dropped.
#[derive(Debug)]
#[must_use = "the turn ends as soon as it is dropped"]
pub struct Turn(());

/// Waits for one of two seats. Hold it as long as the lab: these tests mostly wait, but small machines cannot run MPI on many labs in time.
pub fn turn() -> Turn {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut taken = FREED.wait_while(taken, |taken| *taken >= SEATS).unwrap_or_else(PoisonError::into_inner);
    *taken += 1;
    Turn(())
}

impl Drop for Turn {
    fn drop(&mut self) {
        // also while a failed test unwinds
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        FREED.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    #[test]
    fn at_most_two_tests_have_a_turn_and_a_panic_gives_it_back() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let hold = &|n: usize| {
            let _turn = turn();
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
            assert!(n % 3 != 0, "on purpose");
        };
        let panics = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..12).map(|n| scope.spawn(move || std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hold(n))))).collect();
            threads.into_iter().map(|t| t.join().expect("caught")).filter(Result::is_err).count()
        });
        assert_eq!(panics, 4);
        assert!((1..=SEATS).contains(&most.load(Ordering::SeqCst)), "{most:?}");
        let _both = [turn(), turn()];
    }
}
