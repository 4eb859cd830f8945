//! The lock of a campaign, which allows one controller at a time.

use super::error::StoreError;
use camino::Utf8Path;
use cvc_os::proc::ProcessId;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read},
    os::unix::fs::{FileExt, OpenOptionsExt},
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::Duration,
};

/// The lock of a campaign, held until this value is dropped. If the process ends in any way, the kernel releases the lock.
///
/// On some file systems locks do not reach other machines, or have no effect at all. The lock file therefore also names the holder, the process that
/// has the lock. If the holder is on this machine, cvc looks for its process. A holder on another machine writes a sign of life every few seconds.
#[derive(Debug)]
pub struct CampaignLock {
    file: Arc<File>,
    /// The thread that writes signs of life, and a sender: dropping the sender ends the thread.
    beats: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

/// Interval between two signs of life.
const BEAT: Duration = Duration::from_secs(5);

/// Time without a sign of life after which a holder on another machine counts as ended.
pub const SILENCE: Duration = Duration::from_secs(16);

/// Operation of a holder that is a sweep, as in the lock file.
const SWEEP: &str = "cvc sweep";

/// Maximum size of a lock file's content, bytes.
const MAX_BYTES: u64 = 4096;

/// The holder of a lock, as its file names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    pid: u32,
    /// The operation, as in `cvc run`.
    operation: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    host: Option<String>,
    /// Identifier of the machine's current boot.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    boot_id: Option<String>,
    /// Start time of the process in kernel ticks; distinguishes it from a later process with the same number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    start_ticks: Option<u64>,
    /// Number of signs of life that the holder has given so far.
    #[serde(default)]
    beat: u64,
}

impl Holder {
    fn this(operation: &str) -> Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .ok()
            .map(|id| id.trim().to_owned());
        let start_ticks = ProcessId::own().ok().map(|own| own.start_ticks);
        Self {
            pid: std::process::id(),
            operation: operation.to_owned(),
            host: cvc_os::host_name(),
            boot_id,
            start_ticks,
            beat: 0,
        }
    }

    /// Returns whether the holder is another process of this machine that is still alive.
    fn is_alive_here(&self) -> bool {
        let this = Self::this("");
        let is_here = self.host == this.host
            && self.boot_id.is_some()
            && self.boot_id == this.boot_id
            && self.pid != this.pid;
        is_here
            && self.start_ticks.is_some_and(|start_ticks| {
                ProcessId {
                    pid: self.pid,
                    start_ticks,
                }
                .is_alive()
            })
    }

    /// Returns whether the holder is on another machine, so that only signs of life show whether it has ended.
    fn is_elsewhere(&self) -> bool {
        self.host.is_some() && self.host != cvc_os::host_name()
    }

    /// Replaces the content of the lock file with this holder.
    fn write(&self, file: &File) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        file.write_all_at(&text, 0)?;
        file.set_len(text.len() as u64)
    }

    /// Reads the holder from a lock file; `None` if the file names none. A missing holder does not invalidate the lock.
    fn read(file: impl Read) -> Option<Self> {
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text)
            .ok()
            .or_else(|| Self::of_earlier_versions(&text))
    }

    /// Parses the content that earlier versions wrote: the process id, and the operation if it was a sweep.
    fn of_earlier_versions(text: &str) -> Option<Self> {
        let (pid, operation) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let operation = operation.to_owned();
        Some(Self {
            pid: pid.parse().ok()?,
            operation,
            host: None,
            boot_id: None,
            start_ticks: None,
            beat: 0,
        })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.operation.is_empty() {
            write!(f, "`{}`, ", self.operation.escape_debug())?;
        }
        write!(f, "process {}", self.pid)?;
        if let Some(host) = &self.host {
            write!(f, " on {}", host.escape_debug())?;
        }
        if let Some(boot_id) = &self.boot_id {
            write!(f, ", boot {}", boot_id.escape_debug())?;
        }
        Ok(())
    }
}

impl CampaignLock {
    /// Takes the lock for an operation, as in `cvc run`. If another process holds the lock, the error names it.
    pub fn take(path: &Utf8Path, operation: &str) -> Result<Self, StoreError> {
        Self::take_from(path, operation, None)
    }

    /// Takes the lock from a holder on another machine that has given no sign of life for [`SILENCE`]. `beat` is the number of signs of life in the
    /// error that [`Self::take`] returned before that time.
    pub fn take_over(path: &Utf8Path, operation: &str, beat: u64) -> Result<Self, StoreError> {
        Self::take_from(path, operation, Some(beat))
    }

    /// Takes the lock. If the holder is on another machine and may have ended, waits for [`SILENCE`] first.
    pub fn take_waiting(path: &Utf8Path, operation: &str) -> Result<Self, StoreError> {
        match Self::take(path, operation) {
            Err(StoreError::Locked {
                beat: Some(beat), ..
            }) => {
                std::thread::sleep(SILENCE);
                Self::take_over(path, operation, beat)
            }
            taken => taken,
        }
    }

    /// Takes the lock even if the lock file names a holder on another machine. Only the lock of the operating system counts.
    pub fn take_by_system(path: &Utf8Path, operation: &str) -> Result<Self, StoreError> {
        let mut beat = None;
        loop {
            match Self::take_from(path, operation, beat) {
                Err(StoreError::Locked {
                    beat: Some(of_old), ..
                }) if beat != Some(of_old) => beat = Some(of_old),
                taken => return taken,
            }
        }
    }

    fn take_from(path: &Utf8Path, operation: &str, dead: Option<u64>) -> Result<Self, StoreError> {
        let mut options = OpenOptions::new();
        let file = open(
            options.read(true).write(true).create(true).truncate(false),
            path,
        )?;
        let locked = |holder: Option<&Holder>, beat| {
            let holder = holder
                .map(|holder| format!(" ({holder})"))
                .unwrap_or_default();
            StoreError::Locked {
                path: path.into(),
                holder,
                beat,
            }
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(locked(Holder::read(&file).as_ref(), None));
            }
            Err(TryLockError::Error(source)) if has_no_locks(&source) => {
                return Err(StoreError::NoLocks {
                    path: path.into(),
                    source,
                });
            }
            Err(TryLockError::Error(e)) => return Err(StoreError::io("lock", path)(e)),
        }
        if let Some(before) = Holder::read(&file) {
            if before.is_alive_here() {
                return Err(locked(Some(&before), None));
            }
            if before.is_elsewhere() && dead != Some(before.beat) {
                return Err(locked(Some(&before), Some(before.beat)));
            }
        }
        Holder::this(operation)
            .write(&file)
            .map_err(StoreError::io("write", path))?;
        Ok(Self {
            file: Arc::new(file),
            beats: None,
        })
    }

    /// Starts to write signs of life into the lock file, for processes on other machines that the operating system's lock does not reach.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn give_signs_of_life(&mut self, operation: &str) -> io::Result<()> {
        let (sender, ended) = mpsc::channel();
        let (file, mut holder) = (Arc::clone(&self.file), Holder::this(operation));
        let thread = std::thread::Builder::new()
            .name("lock".to_owned())
            .spawn(move || {
                while ended.recv_timeout(BEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
                    holder.beat += 1;
                    // a failed write is repeated at the next sign of life
                    let _ = holder.write(&file);
                }
            })?;
        self.beats = Some((sender, thread));
        Ok(())
    }

    /// Takes the lock for a sweep, for which other commands wait.
    pub fn take_for_sweep(path: &Utf8Path) -> Result<Self, StoreError> {
        Self::take_by_system(path, SWEEP)
    }

    /// Returns whether another process holds the lock. Does not create or change any file.
    pub fn is_held(path: &Utf8Path) -> Result<bool, StoreError> {
        let file = match open(OpenOptions::new().read(true), path) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(false);
            }
            other => other?,
        };
        // a shared lock works with a read-only file on every system, and ends when the file is closed
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(e)) => Err(StoreError::io("lock", path)(e)),
        }
    }

    /// Returns the process id of the sweep that holds the lock, according to the lock file; the holder may have changed meanwhile.
    pub fn sweeping(path: &Utf8Path) -> Option<String> {
        let holder = Holder::read(open(OpenOptions::new().read(true), path).ok()?)?;
        (holder.operation == SWEEP).then(|| holder.pid.to_string())
    }
}

impl Drop for CampaignLock {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.beats.take() {
            drop(sender);
            // ends immediately; until then the thread also has the lock, and may write
            let _ = thread.join();
        }
        // an empty file, so that nobody waits for signs of life
        let _ = self.file.set_len(0);
    }
}

/// Opens a lock file. A symbolic link is refused, because another file would be overwritten; so is a pipe, because opening it may block.
fn open(options: &mut OpenOptions, path: &Utf8Path) -> Result<File, StoreError> {
    let fail = |error: io::Error| {
        // the error that `O_NOFOLLOW` causes for a link
        let is_link = error.raw_os_error() == Some(nix::libc::ELOOP);
        StoreError::io("open", path)(if is_link {
            io::Error::other("it is a link, but a lock must be a file: remove it")
        } else {
            error
        })
    };
    let file = options
        .mode(0o644)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path)
        .map_err(fail)?;
    if file
        .metadata()
        .map_err(StoreError::io("read", path))?
        .is_file()
    {
        return Ok(file);
    }
    Err(StoreError::io("open", path)(io::Error::other(
        "it is not a regular file, but a lock must be one: remove it",
    )))
}

/// Returns whether an error means that a file system has no locks, such as Lustre without `flock` or NFS without its lock daemon.
fn has_no_locks(error: &std::io::Error) -> bool {
    use nix::libc::{ENOLCK, ENOSYS, EOPNOTSUPP};
    error
        .raw_os_error()
        .is_some_and(|code| [ENOSYS, EOPNOTSUPP, ENOLCK].contains(&code))
}

#[cfg(test)]
mod tests {
    use super::{CampaignLock, has_no_locks};
    use crate::store::StoreError;
    use camino::{Utf8Path, Utf8PathBuf};
    use std::fs;

    fn in_directory() -> (tempfile::TempDir, Utf8PathBuf) {
        let temporary = tempfile::tempdir().expect("a directory");
        let path = Utf8Path::from_path(temporary.path())
            .expect("UTF-8")
            .join("lock");
        (temporary, path)
    }

    #[test]
    fn a_lock_that_is_a_link_or_a_pipe_is_refused_and_its_target_left_alone() {
        let (_temporary, path) = in_directory();
        let target = path.with_file_name("precious");
        fs::write(&target, "precious").expect("writes");
        std::os::unix::fs::symlink(&target, &path).expect("links");
        let refused = CampaignLock::take(&path, "cvc run")
            .expect_err("it is a link")
            .to_string();
        assert!(
            refused.contains("it is a link") && CampaignLock::is_held(&path).is_err(),
            "{refused}"
        );
        assert_eq!(fs::read_to_string(&target).expect("reads"), "precious");
        fs::remove_file(&path).expect("removes");
        nix::unistd::mkfifo(path.as_std_path(), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        CampaignLock::take(&path, "cvc run").expect_err("it is a pipe");
        CampaignLock::is_held(&path).expect_err("it is a pipe");
    }

    #[test]
    fn a_held_lock_names_its_holder() {
        let (_temporary, path) = in_directory();
        let lock = CampaignLock::take(&path, "cvc fsck --repair").expect("free");
        let error = CampaignLock::take(&path, "cvc run")
            .expect_err("it is held")
            .to_string();
        let host = cvc_os::host_name().expect("a name");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
        let holder = format!(
            "(`cvc fsck --repair`, process {} on {host}, boot {})",
            std::process::id(),
            boot.trim()
        );
        assert!(error.contains(&holder), "{error}");
        drop(lock);
        fs::write(&path, "4711\n").expect("writes");
        let old = fs::File::open(&path).expect("opens");
        old.lock().expect("free");
        let error = CampaignLock::take(&path, "cvc run")
            .expect_err("it is held")
            .to_string();
        assert!(error.contains("(process 4711)"), "{error}");
    }

    /// Returns the lock file content of a holder on another machine that the lock does not reach.
    fn elsewhere(beat: u64) -> String {
        format!(
            "{{\"pid\":1,\"operation\":\"cvc run\",\"host\":\"another.machine\",\"boot_id\":\"x\",\"start_ticks\":1,\"beat\":{beat}}}\n"
        )
    }

    #[test]
    fn a_holder_whom_the_lock_does_not_reach_is_believed() {
        let (_temporary, path) = in_directory();
        // a holder on this machine: the parent process of this test
        let parent = nix::unistd::getppid().as_raw() as u32;
        let living = cvc_os::proc::ProcessId::of(parent).expect("it lives");
        let lock = CampaignLock::take(&path, "cvc run").expect("free");
        let mine = fs::read_to_string(&path).expect("reads");
        drop(lock);
        assert_eq!(
            fs::read_to_string(&path).expect("reads"),
            "",
            "no process holds it"
        );
        let mut holder: serde_json::Value = serde_json::from_str(&mine).expect("JSON");
        holder["pid"] = parent.into();
        holder["start_ticks"] = living.start_ticks.into();
        fs::write(&path, holder.to_string()).expect("writes");
        let error = CampaignLock::take(&path, "cvc run")
            .expect_err("it lives")
            .to_string();
        assert!(error.contains(&format!("process {parent} on")), "{error}");
        holder["start_ticks"] = (living.start_ticks + 1).into();
        fs::write(&path, holder.to_string()).expect("writes");
        CampaignLock::take(&path, "cvc run").expect("another process has its number");
        holder["start_ticks"] = living.start_ticks.into();
        holder["boot_id"] = "an earlier one".into();
        fs::write(&path, holder.to_string()).expect("writes");
        CampaignLock::take(&path, "cvc run").expect("the machine was started again since");
        // a holder on another machine: its signs of life count
        fs::write(&path, elsewhere(7)).expect("writes");
        let error = CampaignLock::take(&path, "cvc run").expect_err("it may live");
        let StoreError::Locked {
            beat: Some(beat), ..
        } = error
        else {
            panic!("{error}")
        };
        fs::write(&path, elsewhere(8)).expect("writes");
        let error = CampaignLock::take_over(&path, "cvc run", beat).expect_err("it lives");
        let StoreError::Locked {
            beat: Some(beat), ..
        } = error
        else {
            panic!("{error}")
        };
        CampaignLock::take_over(&path, "cvc run", beat).expect("it has given no sign since");
    }

    #[test]
    fn to_look_whether_a_lock_is_held_changes_nothing() {
        let (_temporary, path) = in_directory();
        assert!(!CampaignLock::is_held(&path).expect("no file") && !path.exists());
        fs::write(&path, "4711\n").expect("writes");
        assert!(!CampaignLock::is_held(&path).expect("a file"));
        assert_eq!(fs::read_to_string(&path).expect("reads"), "4711\n");
        let _lock = CampaignLock::take_for_sweep(&path).expect("free");
        assert!(CampaignLock::is_held(&path).expect("a file"));
        assert_eq!(
            CampaignLock::sweeping(&path),
            Some(std::process::id().to_string())
        );
    }

    #[test]
    fn a_file_system_without_locks_is_distinguished_from_other_failures() {
        let of = |code| has_no_locks(&std::io::Error::from_raw_os_error(code));
        assert!(of(nix::libc::ENOSYS) && of(nix::libc::EOPNOTSUPP) && of(nix::libc::ENOLCK));
        assert!(!of(nix::libc::EIO) && !of(nix::libc::EACCES));
    }
}
