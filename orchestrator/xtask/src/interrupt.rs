//! Runs child processes that never outlive this program: SIGINT, SIGTERM and SIGHUP kill them, and then the caller cleans up.

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use parking_lot::{Mutex, MutexGuard};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Maximum interval between checks whether a program with a time limit has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Handlers for SIGINT, SIGTERM and SIGHUP.
#[derive(Clone)]
pub struct Interrupts {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    interrupted: AtomicBool,
    running: Mutex<Vec<Pid>>,
}

/// How a program with a time limit ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// The program exited or was killed by another process.
    Exited(ExitStatus),
    /// The program was killed because it exceeded its time limit.
    Late,
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, Vec<Pid>> {
        self.running.lock()
    }
}

impl Interrupts {
    /// Installs the handlers. Blocking the signals instead would block them in all child processes too.
    pub fn listen() -> Result<Self, String> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|e| format!("cannot handle signals: {e}"))?;
        let interrupts = Self {
            shared: Arc::default(),
        };
        let listener = interrupts.clone();
        thread::spawn(move || signals.forever().for_each(|_| listener.interrupt()));
        Ok(interrupts)
    }

    /// Returns a value without handlers, for unit tests.
    #[cfg(test)]
    pub fn deaf() -> Self {
        Self {
            shared: Arc::default(),
        }
    }

    fn interrupt(&self) {
        let running = self.shared.running();
        self.shared.interrupted.store(true, Ordering::SeqCst);
        running.iter().for_each(|pid| end(*pid));
    }

    /// Returns whether a signal was received.
    pub fn interrupted(&self) -> bool {
        self.shared.interrupted.load(Ordering::SeqCst)
    }

    /// Runs a program in a separate process group, with a time limit.
    pub fn run_for(&self, limit: Duration, command: &mut Command) -> Result<Ended, String> {
        let begin = Instant::now();
        self.start(command.process_group(0), |child| {
            loop {
                if let Some(status) = child.try_wait()? {
                    return Ok(Ended::Exited(status));
                }
                if begin.elapsed() > limit {
                    end(Pid::from_raw(child.id().cast_signed()));
                    child.wait()?;
                    return Ok(Ended::Late);
                }
                // check often at first, because most tests take milliseconds
                thread::sleep(LOOK.min(begin.elapsed() / 4 + Duration::from_millis(1)));
            }
        })
    }

    /// Starts a program and waits for it with the function `wait`. A signal kills the program and all its descendants.
    pub fn start<T>(
        &self,
        command: &mut Command,
        wait: impl FnOnce(&mut Child) -> std::io::Result<T>,
    ) -> Result<T, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut running = self.shared.running();
        if self.interrupted() {
            return Err("interrupted".into());
        }
        let mut child = command
            .spawn()
            .map_err(|e| format!("cannot start {name}: {e}"))?;
        let pid = Pid::from_raw(child.id().cast_signed());
        running.push(pid);
        drop(running);
        let ended = wait(&mut child).map_err(|e| format!("cannot wait for {name}: {e}"));
        self.shared.running().retain(|p| *p != pid);
        ended
    }
}

/// Kills a process, its group and its descendants. A process `unshare --fork` is not killed if it has a child, because it exits after the child. The
/// child is the first process of a namespace, so the whole namespace has ended by then.
fn end(pid: Pid) {
    let below = descendants(pid);
    let waits =
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "unshare");
    for child in below.iter().rev() {
        let _ = kill(*child, Signal::SIGKILL);
    }
    if !waits || below.is_empty() {
        let _ = killpg(pid, Signal::SIGKILL);
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// Returns the descendants of a process, parents before children.
fn descendants(pid: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // the name in parentheses may contain any characters
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        if let (Some(parent), Some(own)) = (
            parent,
            entry.file_name().to_str().and_then(|n| n.parse().ok()),
        ) {
            children.entry(parent).or_default().push(own);
        }
    }
    let mut found = vec![pid.as_raw()];
    let mut at = 0;
    while let Some(parent) = found.get(at) {
        found.extend(
            children
                .get(parent)
                .into_iter()
                .flatten()
                .copied()
                .collect::<Vec<_>>(),
        );
        at += 1;
    }
    found.into_iter().skip(1).map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_alive(pid: &str) -> bool {
        // a zombie counts as ended
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_program_that_exceeds_its_limit_is_killed_with_its_descendants() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("sh");
        // one process stays in the group, another one leaves it
        command
            .args([
                "-c",
                "sleep 600 & echo $! >a; setsid sh -c 'echo $$ >b; exec sleep 600' & wait",
            ])
            .current_dir(&dir);
        assert_eq!(
            Interrupts::deaf().run_for(Duration::from_secs(4), &mut command),
            Ok(Ended::Late)
        );
        for file in ["a", "b"] {
            let pid = fs::read_to_string(dir.path().join(file)).expect("its number");
            assert!(!pid.is_empty(), "{file}");
            // a killed process takes a moment to disappear
            let begin = Instant::now();
            while is_alive(pid.trim()) {
                assert!(begin.elapsed() < Duration::from_secs(30), "{file}: {pid}");
                thread::sleep(LOOK);
            }
        }
    }

    #[test]
    fn child_processes_start_without_blocked_signals() {
        let interrupts = Interrupts::listen().expect("handlers");
        let mut command = Command::new("sh");
        let ended = interrupts
            .run_for(
                Duration::from_secs(60),
                command.args(["-c", "kill -TERM $$; exit 3"]),
            )
            .expect("a program");
        assert!(
            matches!(ended, Ended::Exited(status) if std::os::unix::process::ExitStatusExt::signal(&status) == Some(SIGTERM)),
            "{ended:?}"
        );
        assert!(!interrupts.interrupted());
        kill(Pid::this(), Signal::SIGTERM).expect("a signal");
        let begin = Instant::now();
        while !interrupts.interrupted() {
            assert!(begin.elapsed() < Duration::from_secs(30));
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn an_interrupt_kills_running_programs_and_prevents_new_ones() {
        let interrupts = Interrupts::deaf();
        let other = interrupts.clone();
        let begin = Instant::now();
        let runs = thread::spawn(move || {
            other.run_for(Duration::from_secs(60), Command::new("sleep").arg("60"))
        });
        while interrupts.shared.running().is_empty() {
            thread::sleep(LOOK);
        }
        interrupts.interrupt();
        let ended = runs.join().expect("a thread").expect("a program");
        assert!(
            matches!(ended, Ended::Exited(status) if !status.success()),
            "{ended:?}"
        );
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "{:?}",
            begin.elapsed()
        );
        assert_eq!(
            interrupts.run_for(Duration::from_secs(60), &mut Command::new("true")),
            Err("interrupted".into())
        );
    }
}
