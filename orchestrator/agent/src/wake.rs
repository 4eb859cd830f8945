//! Decides when to check the spool: immediately if the kernel announces changes, and also periodically, because the kernel does not announce writes
//! of another machine to shared storage. Each check takes processor time from the run that is measured, so the interval grows while nothing happens.

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

/// Events of files that are renamed into a directory.
pub(super) const ARRIVALS: AddWatchFlags = AddWatchFlags::IN_MOVED_TO;
/// Events of files that are created in a directory, or grow there.
pub(super) const GROWTH: AddWatchFlags = AddWatchFlags::IN_CREATE.union(AddWatchFlags::IN_MODIFY);

/// Kernel notifications of changes that this machine makes in a directory.
pub(super) struct WakeChanges(Inotify);

impl WakeChanges {
    /// Starts to watch a directory; `None` if the kernel has no more watches for this user.
    pub(super) fn of(directory: &Utf8Path, which: AddWatchFlags) -> Option<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok()?;
        inotify.add_watch(directory.as_std_path(), which).ok()?;
        Some(Self(inotify))
    }

    /// Discards all notifications until now.
    pub(super) fn drain(&self) {
        loop {
            match self.0.read_events() {
                Ok(_) | Err(Errno::EINTR) => {}
                // no notifications are left, or the next check finds them
                Err(_) => return,
            }
        }
    }
}

impl AsFd for WakeChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Notifications of requests that arrive in a spool, for async tasks. A thread waits for them, because waiting for a file descriptor in a task would
/// need unsafe code.
pub struct Arrivals {
    notify: Arc<Notify>,
    are_notified: bool,
    /// Closing this stream ends the thread; `None` if there is no thread.
    _thread: Option<UnixStream>,
}

impl Arrivals {
    pub(super) fn of(directory: &Utf8Path, which: AddWatchFlags) -> Self {
        let notify = Arc::new(Notify::new());
        let thread = WakeChanges::of(directory, which)
            .zip(UnixStream::pair().ok())
            .map(|(changes, (here, there))| {
                let notify = Arc::clone(&notify);
                std::thread::spawn(move || {
                    while let Ok(Awaited::Change) = wait(&there, Some(&changes), PollTimeout::NONE)
                    {
                        notify.notify_one();
                    }
                });
                here
            });
        Self {
            notify,
            are_notified: thread.is_some(),
            _thread: thread,
        }
    }

    /// Creates notifications that the caller triggers through `notify`.
    pub fn notified_by(notify: Arc<Notify>) -> Self {
        Self {
            notify,
            are_notified: true,
            _thread: None,
        }
    }

    /// Returns whether changes by this machine are announced.
    pub(super) fn are_notified(&self) -> bool {
        self.are_notified
    }

    /// Waits for a change. Its future can be dropped, and the method called again.
    pub(super) async fn next(&self) {
        self.notify.notified().await;
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// The stream has data, or has ended.
    Input,
    /// Something changed, or the time is over.
    Change,
}

/// Waits until something changes, a stream has data or ends, or the time is over.
pub(super) fn wait(
    stream: &UnixStream,
    changes: Option<&WakeChanges>,
    limit: PollTimeout,
) -> io::Result<Awaited> {
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
    Ok(if readable {
        Awaited::Input
    } else {
        Awaited::Change
    })
}

/// The interval between checks, if changes are not announced: a fiftieth of the time since the last change, within limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct PollInterval {
    pub(super) shortest: Duration,
    pub(super) longest: Duration,
}

impl PollInterval {
    const PART: u32 = 50;

    pub(super) fn delay(&self, since_last: Duration) -> Duration {
        (since_last / Self::PART).clamp(self.shortest, self.longest)
    }
}

/// When a file changed last, by this machine's clock. The clock of the writing machine or of a file server may differ, so only changes of the
/// modification time are used.
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

    /// Records the file's modification time, as seen now.
    pub(super) fn look(&mut self, modified: Option<SystemTime>, now: Instant) {
        if modified != self.modified {
            *self = Self {
                modified,
                noticed: now,
            };
        }
    }

    /// Returns the time since the last change was noticed.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.noticed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_become_rare_when_nothing_happens() {
        let interval = PollInterval {
            shortest: Duration::from_millis(10),
            longest: Duration::from_millis(500),
        };
        let delay = |ms: u64| interval.delay(Duration::from_millis(ms)).as_millis();
        assert_eq!(
            [0, 500, 2_000, 25_000, 3_600_000].map(delay),
            [10, 10, 40, 500, 500]
        );
        // counts the checks in an hour without events
        let (mut looks, mut passed) = (0, Duration::ZERO);
        while passed < Duration::from_secs(3600) {
            passed += interval.delay(passed);
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
            "no further access"
        );
        last.look(second, after(13));
        assert_eq!(last.age(after(13)), Duration::ZERO);
        // the writing machine's clock was set back
        last.look(first, after(20));
        assert_eq!(last.age(after(20)), Duration::ZERO);
    }

    #[test]
    fn changes_of_a_directory_are_announced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8Path::from_path(dir.path()).expect("UTF-8");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let changes = Arrivals::of(path, ARRIVALS);
            assert!(changes.are_notified());
            for name in ["a", "b"] {
                std::fs::write(path.join("x"), "request").expect("writes");
                std::fs::rename(path.join("x"), path.join(name)).expect("renames");
                let change = tokio::time::timeout(Duration::from_secs(60), changes.next()).await;
                assert_eq!(change, Ok(()), "{name}");
            }
        });
    }
}
