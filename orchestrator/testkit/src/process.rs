//! Processes on this machine, such as those that a campaign left behind.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::{Duration, Instant},
};

/// Waits until a condition holds; panics with `what` if that takes longer than the limit.
pub fn wait_until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < limit, "waited {limit:?} for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lists every living process that mentions this directory in its environment or command line, or works in it.
pub fn of_directory(directory: &Path) -> Vec<(i32, String)> {
    let needle = directory.as_os_str().as_bytes();
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<i32>().ok())
            .filter(|p| *p != own)
        else {
            continue;
        };
        let proc = entry.path();
        // a process that has just ended has no files
        let holds = |file: &str| {
            fs::read(proc.join(file)).is_ok_and(|b| b.windows(needle.len()).any(|w| w == needle))
        };
        let works_there =
            fs::read_link(proc.join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory));
        if !(works_there || holds("environ") || holds("cmdline")) {
            continue;
        }
        let stat = fs::read_to_string(proc.join("stat")).unwrap_or_default();
        let state = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.trim_start().chars().next().unwrap_or('X'))
            .unwrap_or('X');
        if !matches!(state, 'Z' | 'X') {
            let line = fs::read(proc.join("cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}

/// Sends a signal; ignores processes that have ended.
pub fn signal(pid: i32, signal: nix::sys::signal::Signal) {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
}
