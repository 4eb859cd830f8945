//! Processes as the kernel lists them: which are alive, their parents and their markers. Linux only.

use nix::{
    sys::signal::{self, SigHandler, Signal},
    unistd::Pid,
};
use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Restores the default handling of `SIGCHLD`, so that this program can wait for its children. A program inherits the handling from its parent. If
/// the parent ignored the signal, the kernel would discard the children's exit codes. Call this before the first child starts.
pub fn reset_child_signal() {
    #[expect(
        unsafe_code,
        reason = "the default action is no handler of this program"
    )]
    // SAFETY: the default action calls no function of this program
    let previous = unsafe { signal::signal(Signal::SIGCHLD, SigHandler::SigDfl) };
    // the call fails only for signal numbers that do not exist
    debug_assert!(previous.is_ok());
}

/// A process, distinguishable from a later process with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcessId {
    /// Number of the process.
    pub pid: u32,
    /// Its start time in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_ticks: u64,
}

/// Returns the fields of `/proc/PID/stat` after the program's name, which may itself contain blanks and parentheses.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

impl ProcessId {
    /// Returns the process with this number; `None` if there is none, or only a zombie.
    pub fn of(pid: u32) -> Option<Self> {
        let fields = stat_fields(pid)?;
        if matches!(fields.first().map(String::as_str), Some("Z" | "X")) {
            return None;
        }
        Some(Self {
            pid,
            start_ticks: fields.get(19)?.parse().ok()?,
        })
    }

    /// Returns this process.
    ///
    /// # Errors
    /// `/proc` does not list this process, or belongs to another PID namespace, so that its numbers mean other processes.
    pub fn own() -> io::Result<Self> {
        let me = std::process::id();
        check_self(Path::new("/proc"), me)?;
        Self::of(me).ok_or_else(|| io::Error::other("/proc does not list this process"))
    }

    /// Returns whether this process, and not a later one with its number, still exists.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }
}

/// Refuses a `/proc` of another PID namespace, in which process numbers mean other processes. A missing `/proc` is not an error, because no numbers
/// can be confused.
///
/// # Errors
/// `/proc` belongs to another namespace.
pub fn refuse_foreign_proc() -> io::Result<()> {
    match check_self(Path::new("/proc"), std::process::id()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        checked => checked,
    }
}

/// Checks that `/proc/self` has this process's own number.
fn check_self(proc: &Path, me: u32) -> io::Result<()> {
    let link = proc.join("self");
    let seen = fs::read_link(&link).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot read {}: {error}", link.display()),
        )
    })?;
    if seen.as_os_str().to_str() == Some(me.to_string().as_str()) {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{} belongs to another PID namespace: this process has the number {me}, but {} there",
        proc.display(),
        seen.display()
    )))
}

/// Returns the children of this process for which it has not waited, including zombies. If the kernel does not list children, all processes are
/// searched.
pub fn children() -> Vec<u32> {
    let own = std::process::id();
    match fs::read_to_string(format!("/proc/{own}/task/{own}/children")) {
        Ok(text) => text
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect(),
        Err(_) => parents()
            .into_iter()
            .filter(|(_, parent)| *parent == own)
            .map(|(pid, _)| pid)
            .collect(),
    }
}

/// Name of the variable that marks every process of a run.
pub const MARK: &str = "CVC_RUN";

/// Returns the name of a process's program, without its directory. The name is taken from the command line, because the kernel truncates its own name
/// for the process after 15 bytes.
pub fn program(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = line.split(|b| *b == 0).next().unwrap_or_default();
    let name = first
        .rsplit(|b| *b == b'/')
        .next()
        .filter(|n| !n.is_empty());
    match name {
        Some(name) => String::from_utf8_lossy(name).into_owned(),
        None => fs::read_to_string(format!("/proc/{pid}/comm"))
            .unwrap_or_default()
            .trim()
            .to_owned(),
    }
}

/// Returns the initial environment of a process; empty if the process belongs to another user.
pub fn environment(pid: u32) -> BTreeMap<String, String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.split('\0')
        .filter_map(|entry| entry.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Returns the parent of every process, including zombies.
pub fn parents() -> HashMap<u32, u32> {
    let mut parents = HashMap::new();
    let Ok(entries) = fs::read_dir("/proc") else {
        return parents;
    };
    for entry in entries.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<u32>().ok())
        else {
            continue;
        };
        if let Some(ppid) = stat_fields(pid).and_then(|f| f.get(1)?.parse().ok()) {
            parents.insert(pid, ppid);
        }
    }
    parents
}

/// Returns all living descendants of a process, without the process itself.
pub fn descendants(root: u32) -> Vec<ProcessId> {
    let parents = parents();
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(
            parents
                .iter()
                .filter(|(_, ppid)| **ppid == parent)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    found
        .into_iter()
        .skip(1)
        .filter_map(ProcessId::of)
        .collect()
}

/// Returns every process of this user whose initial environment contains `marker`, a text `NAME=VALUE`. This finds what a lost shepherd left, in any
/// process group or session.
pub fn marked(marker: &str) -> Vec<ProcessId> {
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != own)
        .filter(|pid| {
            has_marker(
                Path::new("/proc")
                    .join(pid.to_string())
                    .join("environ")
                    .as_path(),
                marker,
            )
        })
        .filter_map(ProcessId::of)
        .collect()
}

/// Returns every process that DMTCP has restarted and that has its working directory or an open file in one of these directories. A restarted process
/// no longer has its initial environment, so [`marked`] does not find it.
pub fn restarted_in(directories: &[&Path]) -> Vec<ProcessId> {
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != own)
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.starts_with("DMTCP:") || name.contains("mtcp_"))
        })
        .filter(|pid| uses(*pid, directories))
        .filter_map(ProcessId::of)
        .collect()
}

/// Returns whether a process has its working directory or an open file in one of these directories.
fn uses(pid: u32, directories: &[&Path]) -> bool {
    let inside = |link: &Path| {
        fs::read_link(link).is_ok_and(|target| directories.iter().any(|d| target.starts_with(d)))
    };
    let proc = Path::new("/proc").join(pid.to_string());
    inside(&proc.join("cwd"))
        || fs::read_dir(proc.join("fd")).is_ok_and(|fds| fds.flatten().any(|fd| inside(&fd.path())))
}

fn has_marker(environ: &Path, marker: &str) -> bool {
    fs::read(environ).is_ok_and(|bytes| {
        bytes
            .split(|b| *b == 0)
            .any(|entry| entry == std::ffi::OsStr::new(marker).as_bytes())
    })
}

/// Prefixes of the files in `/dev/shm` that MPI libraries create.
const SEGMENTS: [&str; 4] = [
    "mpich_shm_",
    "vader_segment.",
    "sm_segment.",
    "ucx_shm_posix_",
];

/// Returns the shared-memory files of MPI libraries that these processes have mapped. A killed rank leaves its files behind: call this before the
/// processes are ended, and remove the files afterwards.
pub fn shared_memory(processes: &[ProcessId]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for process in processes {
        // a process that has ended meanwhile has nothing mapped
        let maps = fs::read_to_string(format!("/proc/{}/maps", process.pid)).unwrap_or_default();
        for path in maps
            .lines()
            .filter_map(|line| line.find("/dev/shm/").map(|at| &line[at..]))
        {
            let name = path.trim_start_matches("/dev/shm/");
            if SEGMENTS.iter().any(|s| name.starts_with(s))
                && !name.contains('/')
                && !name.ends_with(" (deleted)")
            {
                found.push(PathBuf::from(path));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Removes the files that [`shared_memory`] returned. A missing file is not an error.
pub fn remove_files(files: &[PathBuf]) {
    for file in files {
        // a file of that name may belong to another user by now: then it stays
        let _ = fs::remove_file(file);
    }
}

/// Kills these processes. A process that has already ended is not an error.
pub fn kill_all(processes: &[ProcessId]) {
    for process in processes.iter().filter(|p| p.is_alive()) {
        signal(process.pid, Signal::SIGKILL);
    }
}

/// Sends a signal to one process. A process that has already ended is not an error.
pub fn signal(pid: u32, signal: Signal) {
    if let Ok(pid) = i32::try_from(pid) {
        // the process may have ended meanwhile
        let _ = nix::sys::signal::kill(Pid::from_raw(pid), signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn another_namespaces_proc_is_refused() {
        assert_eq!(
            ProcessId::own().expect("this process").pid,
            std::process::id()
        );
        let dir = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink("4711", dir.path().join("self")).expect("a link");
        check_self(dir.path(), 4711).expect("its own");
        let refused = check_self(dir.path(), 12)
            .expect_err("another's")
            .to_string();
        assert!(
            refused.contains("another PID namespace")
                && refused.contains("12")
                && refused.contains("4711"),
            "{refused}"
        );
        assert!(check_self(&dir.path().join("missing"), 12).is_err());
    }

    #[test]
    fn finds_itself_and_its_children_and_markers() {
        let me = ProcessId::of(std::process::id()).expect("this process");
        assert!(me.is_alive());
        assert!(
            !ProcessId {
                start_ticks: me.start_ticks + 1,
                ..me
            }
            .is_alive(),
            "another start time is another process"
        );
        let marker = format!("CVC_TEST_MARK={}", std::process::id());
        let (name, value) = marker.split_once('=').expect("=");
        let mut child = Command::new("sh")
            .args(["-c", "sleep 20 & wait"])
            .env(name, value)
            .spawn()
            .expect("sh");
        let found = loop {
            let found = marked(&marker);
            if found.len() == 2 {
                break found;
            }
        };
        assert!(descendants(me.pid).iter().any(|p| p.pid == child.id()));
        kill_all(&found);
        child.wait().expect("ends");
        while found.iter().any(|p| p.is_alive()) {}
        assert!(marked(&marker).is_empty());
    }
}
