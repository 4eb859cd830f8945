//! One controller for each campaign.

use super::error::StoreError;
use camino::Utf8Path;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
};

/// Held as long as this value lives; the kernel releases it when the process ends, however that happens.
#[derive(Debug)]
pub struct CampaignLock {
    _file: File,
}

/// The operation of a sweep.
const SWEEP: &str = "cvc sweep";

/// Maximum size of what a lock file says, bytes.
const MAX_BYTES: u64 = 4096;

/// Who holds a lock, as its file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    pid: u32,
    /// The command, as in `cvc run`.
    operation: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    host: Option<String>,
    /// Tells whether the machine was started anew since.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    boot_id: Option<String>,
}

impl Holder {
    fn this(operation: &str) -> Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned());
        Self { pid: std::process::id(), operation: operation.to_owned(), host: cvc_probe::host_name(), boot_id }
    }

    /// What a lock file says. It names the holder as a courtesy: the lock works without it.
    fn read(file: impl Read) -> Option<Self> {
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok().or_else(|| Self::of_earlier_versions(&text))
    }

    /// Earlier versions wrote the process id, and a sweep what it is.
    fn of_earlier_versions(text: &str) -> Option<Self> {
        let (pid, operation) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        Some(Self { pid: pid.parse().ok()?, operation: operation.to_owned(), host: None, boot_id: None })
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
    /// Takes the lock for an operation, as in `cvc run`; the error names the holder.
    pub fn take(path: &Utf8Path, operation: &str) -> Result<Self, StoreError> {
        let mut options = OpenOptions::new();
        let mut file = open(options.read(true).write(true).create(true).truncate(false), path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = Holder::read(&file).map(|holder| format!(" ({holder})")).unwrap_or_default();
                return Err(StoreError::Locked { path: path.into(), holder });
            }
            Err(TryLockError::Error(source)) if has_no_locks(&source) => return Err(StoreError::NoLocks { path: path.into(), source }),
            Err(TryLockError::Error(e)) => return Err(StoreError::io("lock", path)(e)),
        }
        let json = serde_json::to_string(&Holder::this(operation)).map_err(|e| StoreError::io("write", path)(e.into()))?;
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{json}")).map_err(StoreError::io("write", path))?;
        Ok(Self { _file: file })
    }

    /// Takes the lock for a sweep, which others may wait for.
    pub fn take_for_sweep(path: &Utf8Path) -> Result<Self, StoreError> {
        Self::take(path, SWEEP)
    }

    /// Whether another process holds the lock. Nothing is written for it, and no file is made.
    pub fn is_held(path: &Utf8Path) -> Result<bool, StoreError> {
        let file = match open(OpenOptions::new().read(true), path) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        // a shared one can be had with a file that is only read, everywhere; it ends with the file
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(e)) => Err(StoreError::io("lock", path)(e)),
        }
    }

    /// The process id of a sweep that holds the lock, as far as its file says. Another process may hold it by now.
    pub fn sweeping(path: &Utf8Path) -> Option<String> {
        let holder = Holder::read(open(OpenOptions::new().read(true), path).ok()?)?;
        (holder.operation == SWEEP).then(|| holder.pid.to_string())
    }
}

/// Opens a lock file. A link would have another file overwritten, and a pipe would be waited for.
fn open(options: &mut OpenOptions, path: &Utf8Path) -> Result<File, StoreError> {
    let fail = |error: io::Error| {
        // what `O_NOFOLLOW` says of a link
        let is_link = error.raw_os_error() == Some(nix::libc::ELOOP);
        StoreError::io("open", path)(if is_link { io::Error::other("it is a link, and a lock is a file: remove it") } else { error })
    };
    let file = options.mode(0o644).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK).open(path).map_err(fail)?;
    if file.metadata().map_err(StoreError::io("read", path))?.is_file() {
        return Ok(file);
    }
    Err(StoreError::io("open", path)(io::Error::other("it is not a regular file, and a lock is one: remove it")))
}

/// Whether an error says that a file system cannot lock: Lustre that is mounted without `flock`, NFS without its lock daemon.
fn has_no_locks(error: &std::io::Error) -> bool {
    use nix::libc::{ENOLCK, ENOSYS, EOPNOTSUPP};
    error.raw_os_error().is_some_and(|code| [ENOSYS, EOPNOTSUPP, ENOLCK].contains(&code))
}

#[cfg(test)]
mod tests {
    use super::{CampaignLock, has_no_locks};
    use camino::{Utf8Path, Utf8PathBuf};
    use std::fs;

    fn in_directory() -> (tempfile::TempDir, Utf8PathBuf) {
        let temporary = tempfile::tempdir().expect("a directory");
        let path = Utf8Path::from_path(temporary.path()).expect("UTF-8").join("lock");
        (temporary, path)
    }

    #[test]
    fn a_lock_that_is_a_link_or_a_pipe_is_refused_and_its_target_left_alone() {
        let (_temporary, path) = in_directory();
        let target = path.with_file_name("precious");
        fs::write(&target, "precious").expect("writes");
        std::os::unix::fs::symlink(&target, &path).expect("links");
        let refused = CampaignLock::take(&path, "cvc run").expect_err("it is a link").to_string();
        assert!(refused.contains("it is a link") && CampaignLock::is_held(&path).is_err(), "{refused}");
        assert_eq!(fs::read_to_string(&target).expect("reads"), "precious");
        fs::remove_file(&path).expect("removes");
        nix::unistd::mkfifo(path.as_std_path(), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        CampaignLock::take(&path, "cvc run").expect_err("it is a pipe");
        CampaignLock::is_held(&path).expect_err("it is a pipe");
    }

    #[test]
    fn who_is_kept_out_is_told_by_whom() {
        let (_temporary, path) = in_directory();
        let lock = CampaignLock::take(&path, "cvc fsck --repair").expect("free");
        let told = CampaignLock::take(&path, "cvc run").expect_err("it is held").to_string();
        let host = cvc_probe::host_name().expect("a name");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
        let holder = format!("(`cvc fsck --repair`, process {} on {host}, boot {})", std::process::id(), boot.trim());
        assert!(told.contains(&holder), "{told}");
        drop(lock);
        fs::write(&path, "4711\n").expect("writes");
        let old = fs::File::open(&path).expect("opens");
        old.lock().expect("free");
        let told = CampaignLock::take(&path, "cvc run").expect_err("it is held").to_string();
        assert!(told.contains("(process 4711)"), "{told}");
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
        assert_eq!(CampaignLock::sweeping(&path), Some(std::process::id().to_string()));
    }

    #[test]
    fn a_file_system_without_locks_is_told_from_other_failures() {
        let of = |code| has_no_locks(&std::io::Error::from_raw_os_error(code));
        assert!(of(nix::libc::ENOSYS) && of(nix::libc::EOPNOTSUPP) && of(nix::libc::ENOLCK));
        assert!(!of(nix::libc::EIO) && !of(nix::libc::EACCES));
    }
}
