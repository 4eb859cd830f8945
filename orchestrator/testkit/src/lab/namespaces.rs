//! Namespaces: processes that are started inside those of another process.
//!
//! The test programs are multi-threaded, so a test cannot enter a namespace itself; a child can, between fork and exec.

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

/// The namespaces of one process, held open: they can be entered as long as a process lives in them.
#[derive(Debug)]
pub(super) struct Namespaces {
    /// In the order in which they are entered; mounts last, since /proc is another one afterwards.
    files: Vec<File>,
    pid: File,
}

impl Namespaces {
    /// Those of a process (its number in the test's own namespace).
    pub(super) fn of(pid: i32) -> io::Result<Arc<Self>> {
        let open = |kind: &str| File::open(format!("/proc/{pid}/ns/{kind}"));
        Ok(Arc::new(Self { files: vec![open("net")?, open("uts")?, open("ipc")?, open("mnt")?], pid: open("pid")? }))
    }

    /// A program inside them. Killing the child kills the program (though not what that one started, as ever), and it ends as the program
    /// does. Other signals to the child alone have no effect, so that the program gets those to its group once: [`program_of`] names it.
    pub(super) fn command(self: &Arc<Self>, program: impl AsRef<OsStr>) -> Command {
        let namespaces = Arc::clone(self);
        let descriptors: Vec<RawFd> = self.files.iter().map(AsRawFd::as_raw_fd).collect();
        let mut command = Command::new(program);
        #[expect(unsafe_code, reason = "entering namespaces is only possible between fork and exec; only system calls are made there")]
        unsafe {
            command.pre_exec(move || enter(namespaces.pid.as_raw_fd(), &descriptors));
        }
        command
    }

    /// Living processes in any of them. While these files are open no other namespace can get the same identity.
    pub(super) fn inhabitants(&self) -> Vec<i32> {
        let of = |m: fs::Metadata| (m.dev(), m.ino());
        let own: Vec<(u64, u64)> = [&self.pid, &self.files[0], &self.files[3]].iter().filter_map(|f| f.metadata().ok().map(of)).collect();
        let lives_here = |pid: &i32| {
            let of_process = |kind: &str| fs::metadata(format!("/proc/{pid}/ns/{kind}")).is_ok_and(|m| own.contains(&of(m)));
            ["pid", "net", "mnt"].into_iter().any(of_process) && stat(*pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
        };
        processes().into_iter().filter(lives_here).collect()
    }

    /// Lets the calling thread, and only it, live in this network from now on.
    pub(super) fn enter_network(&self) -> io::Result<()> {
        #[expect(unsafe_code, reason = "nix has setns only behind a feature that nothing else needs")]
        ok(unsafe { libc::setns(self.files[0].as_raw_fd(), libc::CLONE_NEWNET) })
    }
}

/// Runs this in a network, in a thread of its own.
///
/// # Panics
/// When it does.
pub(super) fn on_network<T: Send>(namespaces: &Namespaces, piece: impl FnOnce() -> T + Send) -> T {
    let run = || {
        namespaces.enter_network().expect("a network of the lab");
        piece()
    };
    thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn ok(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// In the forked child, before exec: only system calls, no allocation. A process cannot change its own pid namespace, only that of its
/// children: so it forks once more, and what stays outside stands for the program.
#[expect(unsafe_code, reason = "as said above")]
fn enter(pid: RawFd, others: &[RawFd]) -> io::Result<()> {
    let mut directory = [0u8; libc::PATH_MAX as usize];
    unsafe {
        // entering mounts resets the working directory
        let has_directory = !libc::getcwd(directory.as_mut_ptr().cast(), directory.len()).is_null();
        ok(libc::setns(pid, libc::CLONE_NEWPID))?;
        let mut signals: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut signals);
        ok(libc::sigprocmask(libc::SIG_SETMASK, &signals, &mut before))?;
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                ok(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong))?;
                ok(libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()))?;
                for descriptor in others {
                    ok(libc::setns(*descriptor, 0))?;
                }
                // where the directory is not there inside, / is as good
                if !has_directory || libc::chdir(directory.as_ptr().cast()) != 0 {
                    ok(libc::chdir(c"/".as_ptr()))?;
                }
                Ok(())
            }
            program => stand_for(program),
        }
    }
}

/// Waits for the program and ends as it ends.
#[expect(unsafe_code, reason = "as said above")]
unsafe fn stand_for(program: libc::pid_t) -> ! {
    unsafe {
        // also the pipe by which the test learns that exec succeeded, and standard streams, whose end only the program decides
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0);
        let mut status = 0;
        while libc::waitpid(program, &mut status, 0) != program {}
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
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

/// The process of a program that was started by a command of the lab: what a signal to it alone must be sent to.
pub fn program_of(child: &Child) -> i32 {
    let child = i32::try_from(child.id()).expect("a process number");
    children(child).first().copied().unwrap_or_else(|| panic!("process {child} runs no program (any more)"))
}

/// Children of a process, whatever namespaces they live in.
pub(super) fn children(parent: i32) -> Vec<i32> {
    processes().into_iter().filter(|p| stat(*p).is_some_and(|(_, of)| of == parent)).collect()
}

/// Every process of the machine.
pub(super) fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries.flatten().filter_map(|e| e.file_name().to_str().and_then(|n| n.parse().ok())).collect()
}

/// The kernel's flag of a process that is on its way out.
const EXITING: u32 = 0x4;

/// State and parent of a process. One that is on its way out is dead (`X`): on a busy machine the rest of it may take a while.
pub(super) fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let (state, parent) = (fields.next()?.chars().next()?, fields.next()?.parse().ok()?);
    // its group, session, terminal and the terminal's group come before
    let flags: u32 = fields.nth(4)?.parse().ok()?;
    Some((if flags & EXITING == 0 { state } else { 'X' }, parent))
}

/// The identity of a namespace of a process; `None` when the process is gone.
pub(super) fn identity(pid: i32, kind: &str) -> Option<String> {
    fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok().map(|l| l.to_string_lossy().into_owned())
}

/// A living process on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProcess {
    /// Its number outside the lab, for signals sent by the test.
    pub pid: i32,
    /// Its arguments, separated by blanks.
    pub command: String,
}

impl NodeProcess {
    /// `None` if it is not alive.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let (state, _) = stat(pid)?;
        (!matches!(state, 'Z' | 'X'))
            .then(|| Self { pid, command: String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned() })
    }
}
