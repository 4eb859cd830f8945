//! Limits how many tests run at the same time, for tests that measure or fill the machine. Each test may run in its own process.

use nix::fcntl::{Flock, FlockArg};
use std::{
    fs::{self, File},
    path::Path,
    thread,
    time::Duration,
};

/// Delay between attempts to get a seat.
const DELAY: Duration = Duration::from_millis(20);

/// A seat held by a test. It becomes free when this value is dropped or the test's process ends.
#[must_use]
pub struct Turn {
    _seat: Flock<File>,
}

/// Waits for one of `seats` seats that all tests with this `name` share.
pub fn turn(name: &str, seats: usize) -> Turn {
    turn_in(&crate::campaign::cache().join("turns"), name, seats)
}

fn turn_in(directory: &Path, name: &str, seats: usize) -> Turn {
    fs::create_dir_all(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    loop {
        for seat in 0..seats {
            let path = directory.join(format!("{name}-{seat}"));
            let file = File::options()
                .create(true)
                .append(true)
                .open(&path)
                .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            if let Ok(seat) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                return Turn { _seat: seat };
            }
        }
        thread::sleep(DELAY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_turn_waits_until_one_of_the_seats_is_free() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().to_owned();
        let turns = [turn_in(&path, "a", 2), turn_in(&path, "a", 2)];
        drop(turn_in(&path, "b", 1));
        let (sender, third) = mpsc::channel();
        let waits = thread::spawn(move || sender.send(turn_in(&path, "a", 2)));
        assert!(
            third.recv_timeout(Duration::from_millis(200)).is_err(),
            "both seats are taken"
        );
        drop(turns);
        drop(third.recv_timeout(Duration::from_secs(60)).expect("a turn"));
        waits.join().expect("a thread").expect("sent");
    }
}
