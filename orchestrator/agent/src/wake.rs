//! When to look into the spool: at once where the kernel tells of changes, and now and then besides, because it does not tell of what
//! another machine writes on shared storage. Looking costs the node that is measured, so it is rarer the longer nothing has happened.

use camino::Utf8Path;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::inotify::{AddWatchFlags, InitFlags, Inotify},
};
use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{sync::Notify, time::Instant};

/// Files that take their name in a directory.
pub(super) const ARRIVALS: AddWatchFlags = AddWatchFlags::IN_MOVED_TO;
/// Files that are made in a directory, or grow there.
pub(super) const GROWTH: AddWatchFlags = AddWatchFlags::IN_CREATE.union(AddWatchFlags::IN_MODIFY);

/// Changes in a directory that this machine makes.
pub(super) struct Changes(Inotify);

impl Changes {
    /// Watches a directory. `None` if the kernel has no more watches for this user.
    pub(super) fn of(directory: &Utf8Path, which: AddWatchFlags) -> Option<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok()?;
        inotify.add_watch(directory.as_std_path(), which).ok()?;
        Some(Self(inotify))
    }

    /// Forgets the changes until now.
    pub(super) fn drain(&self) {
        loop {
            match self.0.read_events() {
                Ok(_) | Err(Errno::EINTR) => {}
                // there are no more, or the next look finds them
                Err(_) => return,
            }
        }
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Requests that arrive in a spool, for tasks: a thread waits, since to wait for a descriptor in a task is not safe code.
pub struct Arrivals {
    told: Arc<Notify>,
    are_told: bool,
    /// Ends the thread when it is closed; `None` without one.
    _thread: Option<UnixStream>,
}

impl Arrivals {
    pub(super) fn of(directory: &Utf8Path, which: AddWatchFlags) -> Self {
        let told = Arc::new(Notify::new());
        let thread = Changes::of(directory, which)
            .zip(UnixStream::pair().ok())
            .map(|(changes, (here, there))| {
                let told = Arc::clone(&told);
                std::thread::spawn(move || {
                    while let Ok(false) = wait(&there, Some(&changes), PollTimeout::NONE) {
                        told.notify_one();
                    }
                });
                here
            });
        Self {
            told,
            are_told: thread.is_some(),
            _thread: thread,
        }
    }

    /// Arrivals that somebody else tells of.
    pub fn told_by(told: Arc<Notify>) -> Self {
        Self {
            told,
            are_told: true,
            _thread: None,
        }
    }

    /// Whether changes by this machine are told.
    pub(super) fn are_told(&self) -> bool {
        self.are_told
    }

    /// Waits for a change. May be dropped and called again.
    pub(super) async fn next(&self) {
        self.told.notified().await;
    }
}

/// Waits for changes or until something is to be read from a stream, its end included. Returns whether that is so.
pub(super) fn wait(
    stream: &UnixStream,
    changes: Option<&Changes>,
    limit: PollTimeout,
) -> io::Result<bool> {
    let mut fds = vec![PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
    fds.extend(changes.map(|changes| PollFd::new(changes.as_fd(), PollFlags::POLLIN)));
    match poll(&mut fds, limit) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let readable = fds[0].any().unwrap_or(false);
    if let Some(changes) = changes {
        changes.drain();
    }
    Ok(readable)
}

/// The delay between looks, where changes are not told: a fiftieth of the time for which nothing has happened, within limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) shortest: Duration,
    pub(super) longest: Duration,
}

impl Pace {
    const PART: u32 = 50;

    pub(super) fn delay(&self, since_last: Duration) -> Duration {
        (since_last / Self::PART).clamp(self.shortest, self.longest)
    }
}

/// When a file changed last, by this machine's clock: the clock of the machine that writes it, or of a file server, may differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastChange {
    modified: Option<SystemTime>,
    noticed: Instant,
}

impl LastChange {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            modified: None,
            noticed: now,
        }
    }

    /// Takes note of a time of change.
    pub(super) fn look(&mut self, modified: Option<SystemTime>, now: Instant) {
        if modified != self.modified {
            *self = Self {
                modified,
                noticed: now,
            };
        }
    }

    /// Time since a change was noticed.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.noticed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rare_when_nothing_happens() {
        let pace = Pace {
            shortest: Duration::from_millis(10),
            longest: Duration::from_millis(500),
        };
        let delay = |ms: u64| pace.delay(Duration::from_millis(ms)).as_millis();
        assert_eq!(
            [0, 500, 2_000, 25_000, 3_600_000].map(delay),
            [10, 10, 40, 500, 500]
        );
        // in an hour in which nothing happens
        let (mut looks, mut passed) = (0, Duration::ZERO);
        while passed < Duration::from_secs(3600) {
            passed += pace.delay(passed);
            looks += 1;
        }
        assert!(looks < 7500, "{looks}, instead of 360000");
    }

    #[test]
    fn a_file_whose_time_is_in_the_future_changed_when_that_was_noticed() {
        let begin = Instant::now();
        let after = |s: u64| begin + Duration::from_secs(s);
        let ahead = |s: u64| Some(SystemTime::now() + Duration::from_secs(3600 + s));
        let (first, second) = (ahead(0), ahead(2));
        let mut last = LastChange::new(begin);
        last.look(first, after(10));
        assert_eq!(last.age(after(10)), Duration::ZERO);
        last.look(first, after(12));
        assert_eq!(
            last.age(after(12)),
            Duration::from_secs(2),
            "nobody touches it any more"
        );
        last.look(second, after(13));
        assert_eq!(last.age(after(13)), Duration::ZERO);
    }

    #[test]
    fn changes_of_a_directory_are_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8Path::from_path(dir.path()).expect("UTF-8");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let changes = Arrivals::of(path, ARRIVALS);
            assert!(changes.are_told());
            for name in ["a", "b"] {
                std::fs::write(path.join("x"), "request").expect("writes");
                std::fs::rename(path.join("x"), path.join(name)).expect("renames");
                let told = tokio::time::timeout(Duration::from_secs(60), changes.next()).await;
                assert_eq!(told, Ok(()), "{name}");
            }
        });
    }
}
