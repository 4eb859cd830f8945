//! Programs that end with us: Ctrl-C, SIGTERM and SIGHUP end what was started, then the caller cleans up.

use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    process::{Command, ExitStatus},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Takes over SIGINT, SIGTERM and SIGHUP for this process.
#[derive(Clone)]
pub struct Interrupts {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    interrupted: AtomicBool,
    running: Mutex<Vec<Pid>>,
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, Vec<Pid>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interrupts {
    /// Starts to listen. Call it before any other thread is started: all threads inherit the blocked signals, programs do not.
    pub fn listen() -> Result<Self, String> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        signals.thread_block().map_err(|e| format!("cannot block signals: {e}"))?;
        let shared = Arc::new(Shared::default());
        let listener = Arc::clone(&shared);
        thread::spawn(move || {
            while signals.wait().is_ok() {
                let running = listener.running();
                listener.interrupted.store(true, Ordering::SeqCst);
                running.iter().for_each(|pid| end(*pid));
            }
        });
        Ok(Self { shared })
    }

    /// Tells whether a signal came.
    pub fn interrupted(&self) -> bool {
        self.shared.interrupted.load(Ordering::SeqCst)
    }

    /// Runs a program to its end. A signal kills it with its children and their process groups.
    pub fn run(&self, command: &mut Command) -> Result<ExitStatus, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut running = self.shared.running();
        if self.interrupted() {
            return Err("interrupted".into());
        }
        let mut child = command.spawn().map_err(|e| format!("cannot start {name}: {e}"))?;
        let pid = Pid::from_raw(child.id().cast_signed());
        running.push(pid);
        drop(running);
        let status = child.wait().map_err(|e| format!("cannot wait for {name}: {e}"));
        self.shared.running().retain(|p| *p != pid);
        status
    }
}

/// Kills the children of a process, then itself. `unshare --fork` waits for its child, the first process of its namespace: once that is
/// reaped, the whole namespace is gone.
fn end(pid: Pid) {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children: Vec<Pid> = children.split_whitespace().filter_map(|p| p.parse().ok()).map(Pid::from_raw).collect();
    for child in &children {
        let _ = kill(*child, Signal::SIGKILL);
    }
    if children.is_empty() {
        let _ = kill(pid, Signal::SIGKILL);
    }
}
