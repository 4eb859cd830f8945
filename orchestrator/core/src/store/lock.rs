//! One controller for each campaign.

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

/// Held as long as this value lives; the kernel releases it when the process ends, however that happens.
///
/// On some file systems locks do not reach other machines, or do nothing at all. So the file says who holds it too: a process of this machine is
/// looked up, and one of another machine gives a sign of life every few seconds.
#[derive(Debug)]
pub struct CampaignLock {
    file: Arc<File>,
    /// The thread that gives signs of life, and what ends it when it is dropped.
    beats: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

/// Time between two signs of life.
const BEAT: Duration = Duration::from_secs(5);

/// Time without a sign of life after which a holder on another machine has ended.
pub const SILENCE: Duration = Duration::from_secs(16);

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
    /// When the process began, in ticks of the kernel: tells it from a later one of the same number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    start_ticks: Option<u64>,
    /// How often it has given a sign of life.
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

    /// Whether it is a living process of this machine other than this one.
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

    /// Whether it is of another machine, so that only its signs of life tell whether it has ended.
    fn is_elsewhere(&self) -> bool {
        self.host.is_some() && self.host != cvc_os::host_name()
    }

    /// Writes it in place of what the file says.
    fn write(&self, file: &File) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        file.write_all_at(&text, 0)?;
        file.set_len(text.len() as u64)
    }

    /// What a lock file says. It names the holder as a courtesy: the lock works without it.
    fn read(file: impl Read) -> Option<Self> {
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text)
            .ok()
            .or_else(|| Self::of_earlier_versions(&text))
    }

    /// Earlier versions wrote the process id, and a sweep what it is.
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
    /// Takes the lock for an operation, as in `cvc run`; the error names the holder.
    pub fn take(path: &Utf8Path, operation: &str) -> Result<Self, StoreError> {
        Self::take_from(path, operation, None)
    }

    /// Takes the lock from a holder on another machine that has ended: `beat` is what its error said of it, and it has given no sign of life for
    /// [`SILENCE`].
    pub fn take_over(path: &Utf8Path, operation: &str, beat: u64) -> Result<Self, StoreError> {
        Self::take_from(path, operation, Some(beat))
    }

    /// Takes the lock, and waits for [`SILENCE`] if the holder is on another machine and may have ended.
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

    /// Takes a lock whose file names holders that need not have ended by themselves: only the system's lock counts.
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

    /// Gives signs of life from now on, for those on other machines whom the lock does not reach.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn give_signs_of_life(&mut self, operation: &str) -> io::Result<()> {
        let (sender, ended) = mpsc::channel();
        let (file, mut holder) = (Arc::clone(&self.file), Holder::this(operation));
        let thread = std::thread::Builder::new()
            .name("lock".to_owned())
            .spawn(move || {
                while ended.recv_timeout(BEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
                    holder.beat += 1;
                    // what cannot be written now is written at the next one
                    let _ = holder.write(&file);
                }
            })?;
        self.beats = Some((sender, thread));
        Ok(())
    }

    /// Takes the lock for a sweep, which others may wait for.
    pub fn take_for_sweep(path: &Utf8Path) -> Result<Self, StoreError> {
        Self::take_by_system(path, SWEEP)
    }

    /// Whether another process holds the lock. Nothing is written for it, and no file is made.
    pub fn is_held(path: &Utf8Path) -> Result<bool, StoreError> {
        let file = match open(OpenOptions::new().read(true), path) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(false);
            }
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

impl Drop for CampaignLock {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.beats.take() {
            drop(sender);
            // it ends at once; until then it has the lock too, and may write
            let _ = thread.join();
        }
        // so that nobody waits for signs of life
        let _ = self.file.set_len(0);
    }
}

/// Opens a lock file. A link would have another file overwritten, and a pipe would be waited for.
fn open(options: &mut OpenOptions, path: &Utf8Path) -> Result<File, StoreError> {
    let fail = |error: io::Error| {
        // what `O_NOFOLLOW` says of a link
        let is_link = error.raw_os_error() == Some(nix::libc::ELOOP);
        StoreError::io("open", path)(if is_link {
            io::Error::other("it is a link, and a lock is a file: remove it")
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
        "it is not a regular file, and a lock is one: remove it",
    )))
}

/// Whether an error says that a file system cannot lock: Lustre that is mounted without `flock`, NFS without its lock daemon.
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
    fn who_is_kept_out_is_told_by_whom() {
        let (_temporary, path) = in_directory();
        let lock = CampaignLock::take(&path, "cvc fsck --repair").expect("free");
        let told = CampaignLock::take(&path, "cvc run")
            .expect_err("it is held")
            .to_string();
        let host = cvc_os::host_name().expect("a name");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
        let holder = format!(
            "(`cvc fsck --repair`, process {} on {host}, boot {})",
            std::process::id(),
            boot.trim()
        );
        assert!(told.contains(&holder), "{told}");
        drop(lock);
        fs::write(&path, "4711\n").expect("writes");
        let old = fs::File::open(&path).expect("opens");
        old.lock().expect("free");
        let told = CampaignLock::take(&path, "cvc run")
            .expect_err("it is held")
            .to_string();
        assert!(told.contains("(process 4711)"), "{told}");
    }

    /// A holder on another machine whom no lock reaches.
    fn elsewhere(beat: u64) -> String {
        format!(
            "{{\"pid\":1,\"operation\":\"cvc run\",\"host\":\"another.machine\",\"boot_id\":\"x\",\"start_ticks\":1,\"beat\":{beat}}}\n"
        )
    }

    #[test]
    fn a_holder_whom_the_lock_does_not_reach_is_believed() {
        let (_temporary, path) = in_directory();
        // of this machine: the parent of this test lives
        let parent = nix::unistd::getppid().as_raw() as u32;
        let living = cvc_os::proc::ProcessId::of(parent).expect("it lives");
        let lock = CampaignLock::take(&path, "cvc run").expect("free");
        let mine = fs::read_to_string(&path).expect("reads");
        drop(lock);
        assert_eq!(
            fs::read_to_string(&path).expect("reads"),
            "",
            "nobody holds it"
        );
        let mut holder: serde_json::Value = serde_json::from_str(&mine).expect("JSON");
        holder["pid"] = parent.into();
        holder["start_ticks"] = living.start_ticks.into();
        fs::write(&path, holder.to_string()).expect("writes");
        let told = CampaignLock::take(&path, "cvc run")
            .expect_err("it lives")
            .to_string();
        assert!(told.contains(&format!("process {parent} on")), "{told}");
        holder["start_ticks"] = (living.start_ticks + 1).into();
        fs::write(&path, holder.to_string()).expect("writes");
        CampaignLock::take(&path, "cvc run").expect("another process has its number");
        holder["start_ticks"] = living.start_ticks.into();
        holder["boot_id"] = "an earlier one".into();
        fs::write(&path, holder.to_string()).expect("writes");
        CampaignLock::take(&path, "cvc run").expect("the machine was started again since");
        // of another machine: its signs of life count
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
    fn a_file_system_without_locks_is_told_from_other_failures() {
        let of = |code| has_no_locks(&std::io::Error::from_raw_os_error(code));
        assert!(of(nix::libc::ENOSYS) && of(nix::libc::EOPNOTSUPP) && of(nix::libc::ENOLCK));
        assert!(!of(nix::libc::EIO) && !of(nix::libc::EACCES));
    }
}
