//! Turns of the tests of one program: how many labs there are at the same time.

use std::{
    sync::{Mutex, MutexGuard, TryLockError},
    time::Duration,
};

static SEATS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];

/// Waits for one of two seats. A test holds it as long as its lab: these tests mostly wait, but MPI on many labs at once is more than small
/// machines can do in time.
pub fn turn() -> MutexGuard<'static, ()> {
    loop {
        for seat in &SEATS {
            match seat.try_lock() {
                Ok(held) => return held,
                // of a test that has failed
                Err(TryLockError::Poisoned(held)) => return held.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
