//! The shepherd: one small process that supervises every process of a run.
//!
//! MPI launchers put ranks into separate process groups, coordinators become daemons, and programs under DMTCP ignore SIGTERM. The shepherd makes
//! itself the subreaper of all of them, so that no process can leave its tree. When the run is over, its time limit has passed or its controller has
//! disappeared, the shepherd ends the whole tree and writes the result to a file.

use cvc_os::atomic_file::{self, Durability};
use cvc_os::proc::{self, ProcessId};
use cvc_os::tree::remove_tree;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        resource::{UsageWho, getrusage},
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, Read, Write},
    os::{
        fd::AsFd,
        unix::{fs::DirBuilderExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Delay between TERM and KILL.
const TERM_GRACE: Duration = Duration::from_millis(1500);
/// Time limit for processes that outlive the main program to end by themselves; then they are ended.
const LEFTOVER_GRACE: Duration = Duration::from_millis(300);
/// Time limit for ending all processes below the shepherd.
const END_LIMIT: Duration = Duration::from_secs(15);
/// Maximum number of times that the children are listed and stopped, which is repeated while new children appear.
const STOP_ROUNDS: u32 = 64;
/// Assumed maximum rate at which programs write output; the interval between checks of the output size is derived from it.
const OUTPUT_BYTES_PER_S: f64 = (2u64 << 30) as f64;
/// Minimum and maximum delay between checks of the output.
const SHORTEST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// Size to which the output is truncated when the disk is full, bytes.
const SHORT_OUTPUT_BYTES: u64 = 64 << 10;
/// Maximum length of the [`order`] that is read, bytes.
const ORDER_BYTES: u64 = 64 << 10;

/// The process that a shepherd must start and supervise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The complete environment. No variable is inherited, so that the caller's private data cannot get into logs.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Directory for temporary files of the run, readable only by its user. It is created before the start and removed at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_dir: Option<PathBuf>,
    /// File for standard output, which is created.
    pub stdout: PathBuf,
    /// File for standard error, which is created.
    pub stderr: PathBuf,
    /// File that is written after the program has been started, with the [`ProcessId`] of the shepherd.
    pub pid_file: PathBuf,
    /// File that is written at the end, with an [`Exit`].
    pub exit_file: PathBuf,
    /// Time limit, seconds; the tree is ended after it.
    pub timeout_s: f64,
    /// Limit of standard output and standard error together, bytes; a program that exceeds it is ended.
    pub max_output_bytes: u64,
    /// Whether the run ends when standard input closes, because the controller has then disappeared.
    pub ends_with_controller: bool,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code of the program, if it ended by itself.
    pub code: Option<i32>,
    /// Signal that ended the program, if one did.
    pub signal: Option<String>,
    /// Reason why the shepherd ended the program, if it did.
    pub ended_by: Option<EndedBy>,
    /// Time from start to end of the program, seconds.
    pub wall_s: f64,
    /// CPU time in user mode of all processes that the shepherd reaped, seconds.
    pub user_s: f64,
    /// CPU time in kernel mode of all processes that the shepherd reaped, seconds.
    pub system_s: f64,
    /// Largest resident set of a single process, KiB.
    pub max_rss_kib: i64,
    /// Number of processes that were still alive after the program's end and were ended.
    pub leftovers: u32,
    /// Whether the shepherd received SIGTERM, SIGINT or SIGHUP. The sender may have signalled every process, as a shutdown does, and so ended the
    /// program as well.
    #[serde(
        rename = "told_to_end",
        skip_serializing_if = "std::ops::Not::not",
        default
    )]
    pub end_requested: bool,
    /// The first of these signals and, if known, the process that sent it: `SIGTERM from process 812 (bash)`.
    #[serde(rename = "told_by", skip_serializing_if = "Option::is_none", default)]
    pub requested_by: Option<String>,
    /// Whether the disk was full at the end, so that the program's output was truncated to write this result.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub disk_full: bool,
    /// Reason why the program could not be started.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_error: Option<String>,
}

/// Reason why the shepherd ended the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndedBy {
    /// The run exceeded `timeout_s`.
    Timeout,
    /// The program wrote more than `max_output_bytes`.
    Output,
    /// The controller requested it.
    Request,
    /// The controller has disappeared.
    ControllerGone,
}

/// Runs the job to its end. Standard input is the connection to the controller: the line `kill` ends the run, and the end of input ends it too if
/// `ends_with_controller` is set. Must be called in a separate process with a single thread.
pub fn run(job: &Job) -> io::Result<Exit> {
    prctl::set_child_subreaper(true)?;
    let mask = block_signals()?;
    let mut signals = Signals::of(&mask)?;

    let me = ProcessId::own()?;
    atomic_file::write(
        &job.pid_file,
        &serde_json::to_vec(&me)?,
        Durability::Visible,
    )?;
    announce(&serde_json::to_vec(&me)?);
    let begin = Instant::now();
    let started = make_private_dir(job).and_then(|()| {
        start(job, mask).map_err(|error| {
            io::Error::other(format!(
                "{}: {error}",
                job.argv.first().map_or("", String::as_str)
            ))
        })
    });
    let main = match started {
        Ok(pid) => pid,
        Err(error) => {
            let exit = Exit {
                code: None,
                signal: None,
                ended_by: None,
                wall_s: 0.0,
                user_s: 0.0,
                system_s: 0.0,
                max_rss_kib: 0,
                leftovers: 0,
                end_requested: false,
                requested_by: None,
                disk_full: false,
                start_error: Some(error.to_string()),
            };
            return write_exit(job, exit);
        }
    };
    let (status, ended_by) = watch(
        job,
        main,
        &mut signals,
        begin + Duration::from_secs_f64(job.timeout_s.clamp(0.0, 1e9)),
    );
    let wall_s = begin.elapsed().as_secs_f64();
    let leftovers = end_tree(
        me.pid,
        if ended_by.is_none() {
            LEFTOVER_GRACE
        } else {
            Duration::ZERO
        },
    );
    if let Some(dir) = &job.private_dir {
        // the name is unique to the run, so the next attempt or a recovery removes the remains
        let _ = remove_tree(dir);
    }
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
    let (code, signal) = match status {
        Some(WaitStatus::Exited(_, code)) => (Some(code), None),
        Some(WaitStatus::Signaled(_, signal, _)) => (None, Some(signal.as_str().to_owned())),
        _ => (None, None),
    };
    let output = Output { job };
    let ended_by = ended_by.or((output.bytes() > job.max_output_bytes).then_some(EndedBy::Output));
    if ended_by == Some(EndedBy::Output) {
        output.cut(job.max_output_bytes);
    }
    let exit = Exit {
        code,
        signal,
        ended_by,
        wall_s,
        user_s: seconds(usage.user_time()),
        system_s: seconds(usage.system_time()),
        max_rss_kib: usage.max_rss(),
        leftovers,
        end_requested: signals.end_requested(),
        requested_by: signals.requested_by.clone(),
        disk_full: false,
        start_error: None,
    };
    let exit = write_exit(job, exit)?;
    announce(b"ended");
    Ok(exit)
}

/// Writes the result. If the program's output has filled the disk, truncates the output first.
fn write_exit(job: &Job, mut exit: Exit) -> io::Result<Exit> {
    let write = |exit: &Exit| {
        atomic_file::write(
            &job.exit_file,
            &serde_json::to_vec(exit)?,
            Durability::Visible,
        )
    };
    match write(&exit) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            ) =>
        {
            Output { job }.cut(SHORT_OUTPUT_BYTES);
            exit.disk_full = true;
            write(&exit)?;
        }
        written => written?,
    }
    Ok(exit)
}

/// The files of a program's standard output and error.
struct Output<'a> {
    job: &'a Job,
}

impl Output<'_> {
    fn files(&self) -> [&Path; 2] {
        [&self.job.stderr, &self.job.stdout]
    }

    /// Returns the size of both files, bytes.
    fn bytes(&self) -> u64 {
        self.files()
            .iter()
            .map(|file| fs::metadata(file).map_or(0, |m| m.len()))
            .fold(0, u64::saturating_add)
    }

    /// Returns the delay before the next check of the output size. The closer the output is to its limit, the shorter the delay. More frequent checks
    /// would disturb the measurement.
    fn pause(&self) -> Duration {
        let left = self.job.max_output_bytes.saturating_sub(self.bytes());
        Duration::from_secs_f64(left as f64 / OUTPUT_BYTES_PER_S).clamp(SHORTEST_LOOK, LONGEST_LOOK)
    }

    /// Truncates both files to this total size. Standard error is kept in preference to standard output.
    fn cut(&self, mut left_bytes: u64) {
        for path in self.files() {
            let keep = fs::metadata(path).map_or(0, |m| m.len()).min(left_bytes);
            // ignore a file that cannot be truncated: the run has failed in any case
            let _ = File::options()
                .write(true)
                .open(path)
                .and_then(|file| file.set_len(keep));
            left_bytes -= keep;
        }
    }
}

/// Blocks the signals that would end the shepherd, and returns them. The signals stay pending until they are read.
fn block_signals() -> nix::Result<SigSet> {
    let mut mask = SigSet::empty();
    for signal in [
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
    ] {
        mask.add(signal);
    }
    mask.thread_block()?;
    Ok(mask)
}

/// Reads the signals that were sent to the shepherd.
struct Signals {
    waiting: SignalFd,
    end_requested: bool,
    requested_by: Option<String>,
}

impl Signals {
    fn of(mask: &SigSet) -> nix::Result<Self> {
        let waiting = SignalFd::with_flags(mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self {
            waiting,
            end_requested: false,
            requested_by: None,
        })
    }

    /// Reads pending signals, and returns whether any signal until now requests the end.
    fn end_requested(&mut self) -> bool {
        while let Ok(Some(info)) = self.waiting.read_signal() {
            if info.ssi_signo != Signal::SIGCHLD as u32 {
                self.end_requested = true;
                self.requested_by
                    .get_or_insert_with(|| sender(info.ssi_signo, info.ssi_pid));
            }
        }
        self.end_requested
    }
}

/// Describes a signal and the process that sent it. Process 0 is the kernel, or a process in another PID namespace.
fn sender(signal: u32, pid: u32) -> String {
    let signal = i32::try_from(signal)
        .ok()
        .and_then(|number| Signal::try_from(number).ok())
        .map_or_else(|| format!("signal {signal}"), |s| s.as_str().to_owned());
    if pid == 0 {
        return signal;
    }
    // the process may have ended meanwhile
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match name.trim() {
        "" => format!("{signal} from process {pid}"),
        name => format!("{signal} from process {pid} ({name})"),
    }
}

/// Writes a line to standard output, so that the controller need not poll a file.
fn announce(line: &[u8]) {
    // without a reader, the information is still in the files
    let _ = io::stdout().lock().write_all(&[line, b"\n"].concat());
}

/// Creates the directory for temporary files. Other users could guess its name, so an existing directory is an error.
fn make_private_dir(job: &Job) -> io::Result<()> {
    let Some(dir) = &job.private_dir else {
        return Ok(());
    };
    let failed = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("cannot make {}: {error}", dir.display()),
        )
    };
    match remove_tree(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    fs::DirBuilder::new()
        .mode(0o700)
        .create(dir)
        .map_err(failed)
}

fn start(job: &Job, mask: SigSet) -> io::Result<Pid> {
    let (program, args) = job
        .argv
        .split_first()
        .ok_or_else(|| io::Error::other("nothing to start: the argument vector is empty"))?;
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(&job.env)
        .current_dir(&job.cwd)
        .stdin(Stdio::null())
        .stdout(File::create(&job.stdout)?)
        .stderr(File::create(&job.stderr)?)
        .process_group(0);
    #[expect(
        unsafe_code,
        reason = "between fork and exec only sigprocmask is called, which is async-signal-safe"
    )]
    // SAFETY: see the reason above; the closure allocates nothing and touches no lock.
    unsafe {
        command.pre_exec(move || mask.thread_unblock().map_err(io::Error::from));
    }
    let child = command.spawn()?;
    i32::try_from(child.id())
        .map(Pid::from_raw)
        .map_err(io::Error::other)
}

/// Waits until the main program ends, the deadline passes, a signal arrives or the controller requests the end, whichever is first. Signals do not
/// end the run while the controller is connected: after a signal that was sent to every process, the controller decides whether the run may finish.
fn watch(
    job: &Job,
    main: Pid,
    signals: &mut Signals,
    deadline: Instant,
) -> (Option<WaitStatus>, Option<EndedBy>) {
    let stdin = io::stdin();
    let output = Output { job };
    let mut line_open = true;
    loop {
        if let Some(status) = reap(main) {
            return (Some(status), None);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return (end_main(main), Some(EndedBy::Timeout));
        }
        if output.bytes() > job.max_output_bytes {
            return (end_main(main), Some(EndedBy::Output));
        }
        // whole milliseconds are rounded up, or the last one would be spent spinning
        let wait = PollTimeout::try_from(left.min(output.pause()) + Duration::from_millis(1))
            .unwrap_or(PollTimeout::MAX);
        let mut fds = vec![PollFd::new(signals.waiting.as_fd(), PollFlags::POLLIN)];
        if line_open {
            fds.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut fds, wait) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
        let controller_spoke = line_open && fds.get(1).and_then(PollFd::any).unwrap_or(false);
        if signals.end_requested() && !line_open {
            return (end_main(main), Some(EndedBy::Request));
        }
        if controller_spoke {
            let mut word = [0u8; 64];
            match stdin.lock().read(&mut word) {
                Ok(0) | Err(_) => {
                    line_open = false;
                    if job.ends_with_controller {
                        return (end_main(main), Some(EndedBy::ControllerGone));
                    }
                }
                Ok(n) if word[..n].starts_with(b"kill") => {
                    return (end_main(main), Some(EndedBy::Request));
                }
                Ok(_) => {}
            }
        }
    }
}

/// Reaps all children that have ended. Returns the status of the main program if it is one of them.
fn reap(main: Pid) -> Option<WaitStatus> {
    let mut of_main = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(_) => return of_main,
            Ok(status) => {
                if status.pid() == Some(main)
                    && matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..))
                {
                    of_main = Some(status);
                }
            }
        }
    }
}

/// Sends TERM to all processes of the tree and, after [`TERM_GRACE`], KILL. Returns the status of the main program.
fn end_main(main: Pid) -> Option<WaitStatus> {
    let processes = proc::descendants(std::process::id());
    let segments = proc::shared_memory(&processes);
    let status = term_then_kill(main, &processes);
    proc::remove_files(&segments);
    status
}

fn term_then_kill(main: Pid, processes: &[ProcessId]) -> Option<WaitStatus> {
    for process in processes {
        proc::signal(process.pid, Signal::SIGTERM);
    }
    let begin = Instant::now();
    let mut status = None;
    while begin.elapsed() < TERM_GRACE {
        status = status.or_else(|| reap(main));
        if status.is_some() && proc::descendants(std::process::id()).is_empty() {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..200 {
        proc::kill_all(&proc::descendants(std::process::id()));
        status = status.or_else(|| reap(main));
        if status.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    status
}

/// Ends all processes below the shepherd, and repeats until there are none, because a process may fork meanwhile. Returns the number of ended
/// processes.
fn end_tree(own: u32, grace: Duration) -> u32 {
    // every descendant is reparented to this subreaper when its parent ends: without children there are no descendants, and /proc need not be read
    let childless = || {
        reap(Pid::from_raw(-1));
        matches!(
            waitpid(None, Some(WaitPidFlag::WNOHANG)),
            Err(Errno::ECHILD)
        )
    };
    let begin = Instant::now();
    while !childless() {
        if begin.elapsed() >= grace {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    if childless() {
        return 0;
    }
    let mut ended: Vec<u32> = Vec::new();
    let begin = Instant::now();
    // a process that keeps forking and exiting can be missed by every listing: only the absence of children proves that none is left
    while !childless() && begin.elapsed() < END_LIMIT {
        ended.extend(stop_children());
        let alive = proc::descendants(own);
        // stop all before killing any: a stopped process cannot fork
        alive
            .iter()
            .filter(|p| p.is_alive())
            .for_each(|p| proc::signal(p.pid, Signal::SIGSTOP));
        let segments = proc::shared_memory(&alive);
        proc::kill_all(&alive);
        for child in proc::children() {
            proc::signal(child, Signal::SIGKILL);
        }
        proc::remove_files(&segments);
        ended.extend(alive.iter().map(|p| p.pid));
        std::thread::sleep(Duration::from_millis(2));
    }
    ended.sort_unstable();
    ended.dedup();
    u32::try_from(ended.len()).unwrap_or(u32::MAX)
}

/// Stops the children of this process, and processes that become its children meanwhile because their parent has ended. Listing is faster than any
/// fork. Returns the numbers of the stopped processes, which are not reused before this process waits for them.
fn stop_children() -> Vec<u32> {
    let mut stopped: Vec<u32> = Vec::new();
    for _ in 0..STOP_ROUNDS {
        let new: Vec<u32> = proc::children()
            .into_iter()
            .filter(|child| !stopped.contains(child))
            .collect();
        if new.is_empty() {
            break;
        }
        new.iter()
            .for_each(|child| proc::signal(*child, Signal::SIGSTOP));
        stopped.extend(new);
    }
    stopped
}

/// Returns the first line that a shepherd reads on standard input: the path of its job file.
///
/// # Errors
/// The path is not UTF-8.
pub fn order(job_file: &Path) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(job_file)?;
    line.push(b'\n');
    Ok(line)
}

/// Returns the path of the file for the shepherd's own errors, next to the job file.
pub fn error_file(job_file: &Path) -> PathBuf {
    job_file.with_extension("err")
}

/// Entry point of the shepherd's process. Becomes the leader of a new session, waits for an [`order`], and runs that job. Ends if the controller
/// disappears before sending an order.
///
/// # Errors
/// The job cannot be read, or its result cannot be written.
pub fn main() -> io::Result<()> {
    // an error means that the process leads a session already
    let _ = nix::unistd::setsid();
    // block signals already while waiting for the job, to survive a shutdown that signals every process: the end of input ends the shepherd
    block_signals()?;
    let mut order = Vec::new();
    io::stdin()
        .lock()
        .take(ORDER_BYTES)
        .read_until(b'\n', &mut order)?;
    if order.last() != Some(&b'\n') {
        return Ok(());
    }
    let job_file: PathBuf = serde_json::from_slice(&order)?;
    nix::unistd::dup2_stderr(File::create(error_file(&job_file))?)?;
    let job: Job = serde_json::from_slice(&fs::read(&job_file)?)?;
    run(&job)
        .map(drop)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", job_file.display())))
}
