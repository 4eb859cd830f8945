//! Starts processes inside the namespaces of another process.
//!
//! Test programs are multi-threaded and cannot enter a namespace themselves; a child can, between fork and exec.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, RawFd},
        unix::{fs::MetadataExt, process::CommandExt},
    },
    process::{Child, Command},
    sync::Arc,
    thread,
};

use nix::libc;

/// The open namespaces of one process. They can be entered as long as any process runs in them.
#[derive(Debug)]
pub(super) struct Namespaces {
    /// The namespaces in the order in which they are entered. Mounts are last, because they replace /proc.
    files: Vec<File>,
    pid: File,
}

impl Namespaces {
    /// Opens the namespaces of a process, by its number in the test's own namespace.
    pub(super) fn of(pid: i32) -> io::Result<Arc<Self>> {
        let open = |kind: &str| File::open(format!("/proc/{pid}/ns/{kind}"));
        Ok(Arc::new(Self {
            files: vec![open("net")?, open("uts")?, open("ipc")?, open("mnt")?],
            pid: open("pid")?,
        }))
    }

    /// Creates a command inside the namespaces. Killing the child kills the program (but, as usual, not the program's own children), and the child
    /// ends with the program's exit status. Other signals to the child alone have no effect, because the program would receive signals to its process
    /// group twice; send them to [`program_of`] the child.
    pub(super) fn command(self: &Arc<Self>, program: impl AsRef<OsStr>) -> Command {
        let namespaces = Arc::clone(self);
        let descriptors: Vec<RawFd> = self.files.iter().map(AsRawFd::as_raw_fd).collect();
        let mut command = Command::new(program);
        #[expect(
            unsafe_code,
            reason = "entering namespaces is only possible between fork and exec; only system calls are made there"
        )]
        unsafe {
            command.pre_exec(move || enter(namespaces.pid.as_raw_fd(), &descriptors));
        }
        command
    }

    /// Lists the living processes in any of the namespaces. While these files are open, no other namespace can get the same identity.
    pub(super) fn inhabitants(&self) -> Vec<i32> {
        let of = |m: fs::Metadata| (m.dev(), m.ino());
        let own: Vec<(u64, u64)> = [&self.pid, &self.files[0], &self.files[3]]
            .iter()
            .filter_map(|f| f.metadata().ok().map(of))
            .collect();
        let lives_here = |pid: &i32| {
            let of_process = |kind: &str| {
                fs::metadata(format!("/proc/{pid}/ns/{kind}")).is_ok_and(|m| own.contains(&of(m)))
            };
            ["pid", "net", "mnt"].into_iter().any(of_process)
                && stat(*pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
        };
        processes().into_iter().filter(lives_here).collect()
    }

    /// Moves the calling thread, and only that thread, into this network permanently.
    pub(super) fn enter_network(&self) -> io::Result<()> {
        #[expect(
            unsafe_code,
            reason = "nix has setns only behind a feature that nothing else needs"
        )]
        ok(unsafe { libc::setns(self.files[0].as_raw_fd(), libc::CLONE_NEWNET) })
    }
}

/// Runs `piece` in a network, in a separate thread.
///
/// # Panics
/// `piece` panics.
pub(super) fn on_network<T: Send>(namespaces: &Namespaces, piece: impl FnOnce() -> T + Send) -> T {
    let run = || {
        namespaces.enter_network().expect("a network of the lab");
        piece()
    };
    thread::scope(|scope| scope.spawn(run).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn ok(code: libc::c_int) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Enters the namespaces in the forked child, before exec, by system calls only, without allocation. A process cannot change its own pid namespace,
/// only that of its children. So the child forks once more: the new process becomes the program, and the child waits for it and ends with its exit
/// status or signal.
#[expect(unsafe_code, reason = "as said above")]
fn enter(pid: RawFd, others: &[RawFd]) -> io::Result<()> {
    let mut directory = [0u8; libc::PATH_MAX as usize];
    unsafe {
        // entering a mount namespace resets the working directory
        let has_directory = !libc::getcwd(directory.as_mut_ptr().cast(), directory.len()).is_null();
        ok(libc::setns(pid, libc::CLONE_NEWPID))?;
        let mut signals: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut signals);
        ok(libc::sigprocmask(libc::SIG_SETMASK, &signals, &mut before))?;
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                ok(libc::prctl(
                    libc::PR_SET_PDEATHSIG,
                    libc::SIGKILL as libc::c_ulong,
                ))?;
                ok(libc::sigprocmask(
                    libc::SIG_SETMASK,
                    &before,
                    std::ptr::null_mut(),
                ))?;
                for descriptor in others {
                    ok(libc::setns(*descriptor, 0))?;
                }
                // if the directory does not exist inside, use /
                if !has_directory || libc::chdir(directory.as_ptr().cast()) != 0 {
                    ok(libc::chdir(c"/".as_ptr()))?;
                }
                Ok(())
            }
            program => stand_for(program),
        }
    }
}

/// Waits for the program, and ends with its exit status or signal.
#[expect(unsafe_code, reason = "as said above")]
unsafe fn stand_for(program: libc::pid_t) -> ! {
    unsafe {
        // including the pipe that reports the success of exec and the standard streams, which only the program may hold open
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0);
        let mut status = 0;
        while libc::waitpid(program, &mut status, 0) != program {}
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            let no_core = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &no_core);
            libc::signal(signal, libc::SIG_DFL);
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::kill(libc::getpid(), signal);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        }
        libc::_exit(libc::WEXITSTATUS(status));
    }
}

/// Returns the process number of a program that a command of the lab started, to send signals to the program alone.
pub fn program_of(child: &Child) -> i32 {
    let child = i32::try_from(child.id()).expect("a process number");
    children(child)
        .first()
        .copied()
        .unwrap_or_else(|| panic!("process {child} has no program, or it has ended"))
}

/// Lists the children of a process, in any namespace.
pub(super) fn children(parent: i32) -> Vec<i32> {
    processes()
        .into_iter()
        .filter(|p| stat(*p).is_some_and(|(_, of)| of == parent))
        .collect()
}

/// Lists every process of the machine.
pub(super) fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str().and_then(|n| n.parse().ok()))
        .collect()
}

/// The kernel's flag of an exiting process.
const EXITING: u32 = 0x4;

/// Returns whether a process has been killed, but has not yet run to exit.
fn is_killed(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name));
        mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok())
    };
    let kill = 1 << (libc::SIGKILL - 1);
    ["SigPnd:", "ShdPnd:"]
        .into_iter()
        .filter_map(pending)
        .any(|mask| mask & kill != 0)
}

/// Returns the state and parent of a process. A process that is exiting or has been killed counts as dead (`X`), because on a busy machine the exit
/// may take a while.
pub(super) fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let (state, parent) = (fields.next()?.chars().next()?, fields.next()?.parse().ok()?);
    // skip group, session, terminal and the terminal's group
    let flags: u32 = fields.nth(4)?.parse().ok()?;
    let is_dead = flags & EXITING != 0 || is_killed(pid);
    Some((if is_dead { 'X' } else { state }, parent))
}

/// Returns the identity of a namespace of a process; `None` if the process has ended.
pub(super) fn identity(pid: i32, kind: &str) -> Option<String> {
    fs::read_link(format!("/proc/{pid}/ns/{kind}"))
        .ok()
        .map(|l| l.to_string_lossy().into_owned())
}

/// A living process on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProcess {
    /// Process number outside the lab, to which the test can send signals.
    pub pid: i32,
    /// Arguments, separated by blanks.
    pub command: String,
}

impl NodeProcess {
    /// Reads a process; `None` if it is not alive.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let (state, _) = stat(pid)?;
        (!matches!(state, 'Z' | 'X')).then(|| Self {
            pid,
            command: String::from_utf8_lossy(&line)
                .replace('\0', " ")
                .trim_end()
                .to_owned(),
        })
    }
}
