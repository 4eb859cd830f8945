//! Gives inputs to a target, in processes of their own: one that panics, hangs, overflows its stack or takes too much memory ends, and its
//! last input is known by number.

use crate::{input::input, seeds::seeds, table::Target};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Time after which an input counts as one that hangs.
const HANG: Duration = Duration::from_secs(20);
/// Memory of a worker: readers are given kilobytes.
const MAX_MEMORY_BYTES: u64 = 2 << 30;
/// Number of an input that says that a worker has not begun.
const NONE: u64 = u64::MAX;

/// What is to be tried.
#[derive(Clone, Debug)]
pub struct Campaign<'a> {
    /// The program that has the command `work`: this one.
    pub program: &'a Path,
    /// Which reader.
    pub target: &'static Target,
    /// Number of the run: other runs have other inputs.
    pub run: u64,
    /// Number of inputs.
    pub inputs: u64,
    /// Processes at once.
    pub workers: u64,
    /// Directory for what the workers write, and for an input that failed.
    pub dir: &'a Path,
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Inputs that were tried.
    pub inputs: u64,
    /// Time since the start.
    pub took: Duration,
}

/// An input that broke a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its number in the run.
    pub number: u64,
    /// File with it.
    pub file: PathBuf,
    /// Its first bytes in hexadecimal digits.
    pub hex: String,
    /// What the process said, and how it ended.
    pub problem: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "input {} failed: {}\n  at {}\n  hex: {}", self.number, self.problem, self.file.display(), self.hex)
    }
}

/// A process that tries each `workers`-th input.
struct Worker {
    process: Child,
    first: u64,
    progress: File,
    stderr: PathBuf,
    /// Its last input, and since when.
    at: u64,
    since: Instant,
}

impl Worker {
    fn start(campaign: &Campaign<'_>, first: u64) -> Result<Self, String> {
        let name = campaign.target.name;
        let fail = |error: std::io::Error| format!("cannot start a worker in {}: {error}", campaign.dir.display());
        let path = campaign.dir.join(format!("{name}-{first}.progress"));
        fs::write(&path, NONE.to_le_bytes()).map_err(fail)?;
        let stderr = campaign.dir.join(format!("{name}-{first}.stderr"));
        let numbers = [campaign.run, first, campaign.workers, campaign.inputs].map(|number| number.to_string());
        let process = Command::new(campaign.program)
            .args(["work", name])
            .args(numbers)
            .arg(&path)
            // the line of a failure is enough
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&stderr).map_err(fail)?)
            .spawn()
            .map_err(fail)?;
        let progress = File::open(&path).map_err(fail)?;
        Ok(Self { process, first, progress, stderr, at: NONE, since: Instant::now() })
    }

    /// Number of the input that it is at.
    fn look(&mut self) -> Option<u64> {
        let mut number = [0; 8];
        self.progress.read_exact_at(&mut number, 0).ok()?;
        let at = u64::from_le_bytes(number);
        if at != self.at {
            (self.at, self.since) = (at, Instant::now());
        }
        (at != NONE).then_some(at)
    }

    fn failure(&mut self, campaign: &Campaign<'_>, how: &str) -> Failure {
        let number = self.look().unwrap_or(self.first);
        let bytes = seeds(campaign.target.name).map(|seeds| input(campaign.target, &seeds, campaign.run, number)).unwrap_or_default();
        let file = campaign.dir.join(format!("{}-{}-{number}.input", campaign.target.name, campaign.run));
        let written = fs::write(&file, &bytes).err().map(|error| format!(" (cannot be written: {error})")).unwrap_or_default();
        let mut text = String::new();
        // what it said is a help only
        let _ = File::open(&self.stderr).and_then(|mut stderr| stderr.read_to_string(&mut text));
        let problem = format!("{how}{written}: {}", text.trim());
        Failure { number, file, hex: bytes.iter().take(400).map(|byte| format!("{byte:02x}")).collect(), problem }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // most have ended
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Tries all inputs; the first failure ends it. `tell` is called every so often.
///
/// # Errors
/// When workers cannot be started; a failure of the reader is `Ok(Some(_))`.
pub fn fuzz(campaign: &Campaign<'_>, every: Duration, mut tell: impl FnMut(Progress)) -> Result<Option<Failure>, String> {
    let begin = Instant::now();
    let mut told = begin;
    let mut workers = (0..campaign.workers).map(|first| Worker::start(campaign, first)).collect::<Result<Vec<_>, _>>()?;
    loop {
        let (mut running, mut done) = (false, 0);
        for worker in &mut workers {
            let status = worker.process.try_wait().map_err(|error| format!("cannot wait for a worker: {error}"))?;
            done += worker.look().map_or(0, |at| (at - worker.first) / campaign.workers + 1);
            match status {
                Some(status) if status.success() => {}
                Some(status) => return Ok(Some(worker.failure(campaign, &status.to_string()))),
                None if worker.since.elapsed() > HANG => {
                    return Ok(Some(worker.failure(campaign, &format!("no end after {} s", HANG.as_secs()))));
                }
                None => running = true,
            }
        }
        if !running || told.elapsed() >= every {
            told = Instant::now();
            tell(Progress { inputs: done, took: begin.elapsed() });
        }
        if !running {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The work of a worker: tries the inputs `first`, `first + step`, ... below `end`, and notes the number of each before.
///
/// # Errors
/// When the seeds cannot be read, or the numbers not be noted.
pub fn work(target: &Target, run: u64, (first, step, end): (u64, u64, u64), progress: &Path) -> Result<(), String> {
    let seeds = seeds(target.name)?;
    let progress = File::options().write(true).open(progress).map_err(|error| format!("{}: {error}", progress.display()))?;
    let limit = getrlimit(Resource::RLIMIT_AS).and_then(|(_, hard)| setrlimit(Resource::RLIMIT_AS, MAX_MEMORY_BYTES.min(hard), hard));
    limit.map_err(|error| format!("cannot limit the memory: {error}"))?;
    let mut number = first;
    while number < end {
        progress.write_all_at(&number.to_le_bytes(), 0).map_err(|error| format!("cannot note a number: {error}"))?;
        (target.check)(&input(target, &seeds, run, number));
        number += step.max(1);
    }
    Ok(())
}
