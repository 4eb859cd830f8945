//! The shepherd: one small process over everything that a run starts.
//!
//! MPI launchers put ranks into process groups of their own, coordinators turn into daemons, and programs under DMTCP ignore SIGTERM. The
//! shepherd makes itself the subreaper of all of them, so that none can leave its tree, and when the run is over, its time is up or its
//! controller is gone, it ends the whole tree. It writes the result to a file.

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
/// Maximum time for processes that outlive the main program to end by themselves.
const LEFTOVER_GRACE: Duration = Duration::from_millis(300);
/// Maximum time for everything below the shepherd to be gone.
const END_LIMIT: Duration = Duration::from_secs(15);
/// Looks at the children in a row, as long as there are new ones.
const STOP_ROUNDS: u32 = 64;
/// Rate at which programs may write their output: it is looked at in time for them.
const OUTPUT_BYTES_PER_S: f64 = (2u64 << 30) as f64;
/// Shortest and longest delay between looks at the output.
const SHORTEST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// What is left of the output when the disk is full, bytes.
const SHORT_OUTPUT_BYTES: u64 = 64 << 10;
/// Bytes of an order that are read at most.
const ORDER_BYTES: u64 = 64 << 10;

/// What a shepherd must start and supervise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The whole environment: nothing is inherited, so that nothing private of the caller's gets into logs.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Directory for temporary files of the run, which only its user may read: made anew before the start, and removed at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_dir: Option<PathBuf>,
    /// File for standard output (created).
    pub stdout: PathBuf,
    /// File for standard error (created).
    pub stderr: PathBuf,
    /// Written when the program has been started: a [`ProcessId`] of the shepherd.
    pub pid_file: PathBuf,
    /// Written at the end: an [`Exit`].
    pub exit_file: PathBuf,
    /// Time limit after which the tree is ended, seconds.
    pub timeout_s: f64,
    /// Most that the program may write to standard output and error together, after which the tree is ended, bytes.
    pub max_output_bytes: u64,
    /// Whether the end of standard input means that the controller is gone and the run must not go on.
    pub ends_with_controller: bool,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code of the program, if it ended by itself.
    pub code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<String>,
    /// The reason why the shepherd ended it, if it did.
    pub ended_by: Option<EndedBy>,
    /// Start to end of the program, seconds.
    pub wall_s: f64,
    /// CPU time in user mode of everything that was waited for, seconds.
    pub user_s: f64,
    /// CPU time in kernel mode, seconds.
    pub system_s: f64,
    /// Largest resident set of one process, KiB.
    pub max_rss_kib: i64,
    /// Processes that were still alive after the program's end and were ended.
    pub leftovers: u32,
    /// Whether the shepherd got a signal that asks for an end: what sends it to everything, as a shutdown does, has ended the program as well.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub told_to_end: bool,
    /// The first such signal, and the process that sent it, as far as known: `SIGTERM from process 812 (bash)`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub told_by: Option<String>,
    /// Whether the disk was so full at the end that the output had to make room for this.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub disk_full: bool,
    /// The reason why the program could not be started.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_error: Option<String>,
}

/// Reason why the shepherd ended the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndedBy {
    /// `timeout_s` was over.
    Timeout,
    /// The program had written more than `max_output_bytes`.
    Output,
    /// The controller asked for it.
    Request,
    /// The controller is gone.
    ControllerGone,
}

/// Runs the job to its end. Standard input is the line to the controller: `kill` and a line feed ends the run, and the end of input does
/// too if the job says so. Must be called in a process of its own, with one thread.
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
    tell(&serde_json::to_vec(&me)?);
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
                told_to_end: false,
                told_by: None,
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
        // its name is the run's own: the next attempt, or a recovery, removes what stays
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
        told_to_end: signals.told_to_end(),
        told_by: signals.told_by.clone(),
        disk_full: false,
        start_error: None,
    };
    let exit = write_exit(job, exit)?;
    tell(b"ended");
    Ok(exit)
}

/// Writes how it ended, even if the program's output has filled the disk.
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

    /// What was written until now.
    fn bytes(&self) -> u64 {
        self.files()
            .iter()
            .map(|file| fs::metadata(file).map_or(0, |m| m.len()))
            .fold(0, u64::saturating_add)
    }

    /// Time after which it is worth looking again: the sooner, the less is left. Looking often would disturb what is measured.
    fn pause(&self) -> Duration {
        let left = self.job.max_output_bytes.saturating_sub(self.bytes());
        Duration::from_secs_f64(left as f64 / OUTPUT_BYTES_PER_S).clamp(SHORTEST_LOOK, LONGEST_LOOK)
    }

    /// Cuts both files off, so that not more than this is left of both; errors matter most.
    fn cut(&self, mut left_bytes: u64) {
        for path in self.files() {
            let keep = fs::metadata(path).map_or(0, |m| m.len()).min(left_bytes);
            // what cannot be cut stays: the run has failed in any case
            let _ = File::options()
                .write(true)
                .open(path)
                .and_then(|file| file.set_len(keep));
            left_bytes -= keep;
        }
    }
}

/// The signals that a shepherd reads instead of being ended by them; from now on they wait to be read.
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

/// The signals that the shepherd gets.
struct Signals {
    waiting: SignalFd,
    told_to_end: bool,
    told_by: Option<String>,
}

impl Signals {
    fn of(mask: &SigSet) -> nix::Result<Self> {
        let waiting = SignalFd::with_flags(mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self {
            waiting,
            told_to_end: false,
            told_by: None,
        })
    }

    /// Whether one of those until now asks for an end.
    fn told_to_end(&mut self) -> bool {
        while let Ok(Some(info)) = self.waiting.read_signal() {
            if info.ssi_signo != Signal::SIGCHLD as u32 {
                self.told_to_end = true;
                self.told_by
                    .get_or_insert_with(|| sender(info.ssi_signo, info.ssi_pid));
            }
        }
        self.told_to_end
    }
}

/// A signal and the process that sent it, in words; 0 is the kernel, or a process that cannot be seen from here.
fn sender(signal: u32, pid: u32) -> String {
    let signal = i32::try_from(signal)
        .ok()
        .and_then(|number| Signal::try_from(number).ok())
        .map_or_else(|| format!("signal {signal}"), |s| s.as_str().to_owned());
    if pid == 0 {
        return signal;
    }
    // it may have ended meanwhile
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match name.trim() {
        "" => format!("{signal} from process {pid}"),
        name => format!("{signal} from process {pid} ({name})"),
    }
}

/// Writes a line to whoever reads standard output, so that nobody has to look for a file again and again.
fn tell(line: &[u8]) {
    // if nobody reads, the files say it
    let _ = io::stdout().lock().write_all(&[line, b"\n"].concat());
}

/// Makes the directory for temporary files. Its name can be known to others, so it must not be there.
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

/// Waits for the main program, the deadline, a signal or the controller, whichever comes first.
/// While the line to the controller is open, that decides what a signal to everything means: the run may be finished.
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
        if signals.told_to_end() && !line_open {
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

/// Reaps all children that have ended. Returns the status of the main one if it is among them.
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

/// Sends TERM to the tree and, after a while, KILL. Returns the status of the main program.
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

/// Ends whatever is left below the shepherd, repeatedly until nothing is, because a process may fork meanwhile.
fn end_tree(own: u32, grace: Duration) -> u32 {
    // everything below is a child of this process or of one: a subreaper without children has nothing below it, and /proc need not be read
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
    // one that forks and ends again and again is nowhere when all are listed: only a process without children has nothing left
    while !childless() && begin.elapsed() < END_LIMIT {
        ended.extend(stop_children());
        let alive = proc::descendants(own);
        // what is stopped cannot fork between its turn and that of others
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

/// Stops the children of this process, and what becomes its child meanwhile because its parent has ended; that is listed faster than anything
/// can fork. Returns those that were stopped. Their numbers are not given to others before this process waits for them.
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

/// What a shepherd reads first: where its job is.
///
/// # Errors
/// When the path is not UTF-8.
pub fn order(job_file: &Path) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(job_file)?;
    line.push(b'\n');
    Ok(line)
}

/// File beside a job's for what goes wrong with its shepherd.
pub fn error_file(job_file: &Path) -> PathBuf {
    job_file.with_extension("err")
}

/// Entry point of the shepherd's process: becomes the leader of a session of its own, waits for an [`order`], runs that job. If the controller
/// is gone before it has one, it ends.
///
/// # Errors
/// When the job cannot be read, or what it did cannot be written.
pub fn main() -> io::Result<()> {
    // an error means that it leads a session already
    let _ = nix::unistd::setsid();
    // also one that waits for its job outlives what a shutdown sends to everything: its line ends it
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
