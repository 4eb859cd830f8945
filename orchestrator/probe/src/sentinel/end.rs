//! Ends all processes of a run on this node.

use super::error::SentinelError;
use cvc_image::Role;
use cvc_os::proc::{self, ProcessId};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Maximum time to wait for processes to disappear after KILL. A process that waits for a dead server's disk may never disappear.
const KILL_LIMIT: Duration = Duration::from_secs(15);

/// Result of ending a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedProcesses {
    /// Processes that ended.
    pub ended: Vec<EndedProcess>,
    /// Processes that survived KILL.
    pub left: Vec<EndedProcess>,
    /// Shared-memory files that were removed.
    pub removed: Vec<PathBuf>,
}

/// A process that should have ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EndedProcess {
    /// Process number.
    pub pid: u32,
    /// Name of the program.
    pub program: String,
}

/// Checks that a request can match processes of a single run only.
pub(super) fn check(marker: &str, dirs: &[PathBuf]) -> Result<(), SentinelError> {
    if marker.is_empty() || marker.contains('\0') {
        return Err(SentinelError::NoMarker);
    }
    for dir in dirs {
        if !dir.is_absolute() || dir.components().count() < 3 {
            return Err(SentinelError::Unexpected {
                path: dir.clone(),
                expected: "the directory of a run, an absolute path of two names at least",
            });
        }
    }
    Ok(())
}

/// Finds all living processes of a run.
fn find(marker: &str, dirs: &[PathBuf]) -> Vec<ProcessId> {
    let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
    let mut roots: BTreeSet<u32> = proc::marked(&format!("{}={marker}", proc::MARK))
        .iter()
        .map(|p| p.pid)
        .collect();
    roots.extend(proc::restarted_in(&dirs).iter().map(|p| p.pid));
    if roots.is_empty() {
        return Vec::new();
    }
    let parents = proc::parents();
    with_families(&roots, &parents, std::process::id(), |pid| {
        Role::of_program(&proc::program(pid)) == Role::Launcher
    })
    .into_iter()
    .filter_map(ProcessId::of)
    .collect()
}

/// Returns the processes, their descendants, and launchers directly above them; never this process or one of its ancestors.
fn with_families(
    roots: &BTreeSet<u32>,
    parents: &HashMap<u32, u32>,
    own: u32,
    is_launcher: impl Fn(u32) -> bool,
) -> BTreeSet<u32> {
    let mut spared = BTreeSet::from([0, 1, own]);
    let mut above = own;
    while let Some(parent) = parents.get(&above).copied().filter(|p| spared.insert(*p)) {
        above = parent;
    }
    let mut all = BTreeSet::new();
    for root in roots.iter().copied() {
        all.insert(root);
        // a proxy on another node lacks the marker, because sshd started it and passes no environment on
        let mut below = root;
        while let Some(parent) = parents
            .get(&below)
            .copied()
            .filter(|p| !spared.contains(p) && is_launcher(*p))
        {
            if !all.insert(parent) {
                break;
            }
            below = parent;
        }
    }
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (pid, parent) in parents {
        children.entry(*parent).or_default().push(*pid);
    }
    let mut next: Vec<u32> = all
        .iter()
        .copied()
        .filter(|p| !spared.contains(p))
        .collect();
    while let Some(pid) = next.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if !spared.contains(child) && all.insert(*child) {
                next.push(*child);
            }
        }
    }
    all.retain(|pid| !spared.contains(pid));
    all
}

/// Sends TERM to each process and, after the grace period, KILL. Returns when no process is left, or [`KILL_LIMIT`] after the grace period.
pub(super) fn end(marker: &str, dirs: &[PathBuf], grace: Duration) -> EndedProcesses {
    let begin = Instant::now();
    let mut met: BTreeMap<(u32, u64), EndedProcess> = BTreeMap::new();
    let mut removed = BTreeSet::new();
    let mut pause = Duration::from_millis(2);
    let alive = loop {
        let alive = find(marker, dirs);
        // a descendant whose parent has ended meanwhile can no longer be found: it is in the list of processes seen before
        let orphans: Vec<ProcessId> = met
            .keys()
            .map(|(pid, start_ticks)| ProcessId {
                pid: *pid,
                start_ticks: *start_ticks,
            })
            .filter(|p| !alive.contains(p) && p.is_alive())
            .collect();
        let alive: Vec<ProcessId> = alive.into_iter().chain(orphans).collect();
        let waited = begin.elapsed();
        let segments = proc::shared_memory(&alive);
        let kill = waited >= grace;
        for process in &alive {
            let first = met
                .insert(
                    (process.pid, process.start_ticks),
                    EndedProcess {
                        pid: process.pid,
                        program: proc::program(process.pid),
                    },
                )
                .is_none();
            if kill {
                proc::kill_all(&[*process]);
            } else if first {
                proc::signal(process.pid, Signal::SIGTERM);
            }
        }
        removed.extend(segments);
        if alive.is_empty() || waited > grace + KILL_LIMIT {
            break alive;
        }
        std::thread::sleep(pause.min(grace.saturating_sub(waited).max(Duration::from_millis(2))));
        pause = (pause * 2).min(Duration::from_millis(100));
    };
    // list the removed files only now: until the end ranks may have used them
    let removed: Vec<PathBuf> = removed.into_iter().filter(|file| file.exists()).collect();
    proc::remove_files(&removed);
    let is_left = |pid: u32| alive.iter().any(|p| p.pid == pid);
    let (left, ended) = met
        .into_values()
        .partition(|p: &EndedProcess| is_left(p.pid));
    EndedProcesses {
        ended,
        left,
        removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Process 1 is init, 10 a daemon with the proxy 20, whose ranks are 30 and 31; 31 has started 40. 50 is the sentinel, below the shell 45.
    #[test]
    fn trees_are_found_upwards_through_launchers_and_downwards() {
        let parents = HashMap::from([
            (10, 1),
            (20, 10),
            (30, 20),
            (31, 20),
            (40, 31),
            (45, 1),
            (50, 45),
            (60, 1),
        ]);
        let found = |roots: &[u32]| {
            let roots = roots.iter().copied().collect();
            with_families(&roots, &parents, 50, |pid| pid == 20)
                .into_iter()
                .collect::<Vec<_>>()
        };
        assert_eq!(found(&[31]), [20, 30, 31, 40]);
        assert_eq!(found(&[40]), [40]);
        assert_eq!(found(&[60]), [60]);
        // even if the shell above the sentinel were marked
        assert!(found(&[45, 50]).is_empty());
    }

    #[test]
    fn what_names_no_run_is_refused() {
        assert!(check("", &[]).is_err());
        assert!(check("run", &[PathBuf::from("/tmp")]).is_err());
        assert!(check("run", &[PathBuf::from("work/run")]).is_err());
        assert!(check("run", &[PathBuf::from("/tmp/run")]).is_ok());
    }
}
