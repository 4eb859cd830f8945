//! Finds the files of a program's own checkpoints by watching a trial run: which files the program writes in its working directory, and when it
//! reports checkpoints.

use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::app::descriptor::OwnCheckpoint;
use cvc_core::store::CampaignDir;
use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io::{Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Delay between two checks of the files.
const PAUSE: Duration = Duration::from_millis(40);
/// Minimum time between two changes of a file to count as two writes, seconds; otherwise they are parts of one write.
const APART_S: f64 = 0.3;
/// Maximum time between the write of a file and an output line about a checkpoint, seconds, at which both count as the same checkpoint.
const CLOSE_S: f64 = 0.5;
/// Maximum number of files examined.
const MAX_FILES: usize = 2000;
/// Maximum depth of directories below the working directory in which files are examined.
const MAX_DEPTH: usize = 4;
/// Minimum size of a file that counts as a checkpoint merely because the program rewrites it, bytes. Smaller files may be notes.
const MIN_REWRITTEN_BYTES: u64 = 4096;
/// Maximum number of bytes of output that are read at once.
const MAX_READ: u64 = 1 << 20;

/// Texts in names of files that show that a file is a checkpoint.
const NAMES: [&str; 7] = [
    "checkpoint",
    "ckpt",
    "chkpt",
    "chkpnt",
    "restart",
    "snapshot",
    "dump",
];
/// Words in output lines that show that the line is about a checkpoint.
const LINES: [&str; 4] = ["checkpoint", "ckpt", "restart file", "snapshot"];

/// Observations of a file in the working directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WatchedFile {
    /// Length at the end, bytes.
    pub bytes: u64,
    /// Start and end of each write, seconds since the watch began.
    pub writes: Vec<(f64, f64)>,
    /// Whether a later write replaced earlier data, instead of appending.
    pub is_replaced: bool,
    last: (u64, i64, i64, u64),
}

impl WatchedFile {
    /// Records a change of the file since the last check; `now` is in seconds since the watch began.
    fn look(&mut self, metadata: &Metadata, now: f64) {
        let state = (
            metadata.ino(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.len(),
        );
        if state == self.last {
            return;
        }
        let (inode, .., bytes) = self.last;
        match self.writes.last_mut() {
            Some((_, end)) if now - *end < APART_S => *end = now,
            Some(_) => {
                self.is_replaced |= state.0 != inode || state.3 <= bytes;
                self.writes.push((now, now));
            }
            None => self.writes.push((now, now)),
        }
        self.bytes = state.3;
        self.last = state;
    }

    fn began_s(&self) -> f64 {
        self.writes.first().map_or(0.0, |(from, _)| *from)
    }
}

/// What was seen while the runs were watched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Files, by their paths relative to the working directory.
    pub files: BTreeMap<Utf8PathBuf, WatchedFile>,
    /// Times of output lines about checkpoints, seconds since the watch began.
    pub lines_s: Vec<f64>,
    /// Time of the first output on standard output.
    pub first_output: Option<Instant>,
    /// Number of checks that found new output. It is low if the program does not write its output line by line.
    pub outputs: usize,
}

/// Watches the runs of a campaign.
#[derive(Debug)]
pub struct FileWatch {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

impl FileWatch {
    /// Begins to watch the only run of a campaign, which need not exist yet.
    pub fn start(campaign: CampaignDir) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::Builder::new().name("files".into()).spawn(move || {
            let (begin, mut seen, mut read) = (Instant::now(), Seen::default(), BTreeMap::new());
            while !over.load(Ordering::Relaxed) {
                let now = begin.elapsed().as_secs_f64();
                look(&campaign, &mut seen, &mut read, now);
                thread::sleep(PAUSE);
            }
            seen
        });
        Self {
            is_over,
            // without a thread nothing is observed
            thread: thread.ok(),
        }
    }

    /// Ends the watch, and returns the observations.
    pub fn finish(mut self) -> Seen {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        thread
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Checks the files and the output of a campaign's runs once, and adds changes to `seen`. `read` has the length of each output file that was read
/// already; `now` is in seconds since the watch began.
fn look(campaign: &CampaignDir, seen: &mut Seen, read: &mut BTreeMap<Utf8PathBuf, u64>, now: f64) {
    for run in directories(&campaign.root().join("work")) {
        let mut left = MAX_FILES;
        walk(&run, &run, MAX_DEPTH, &mut left, &mut |path, metadata| {
            seen.files.entry(path).or_default().look(metadata, now);
        });
    }
    for run in directories(&campaign.runs()) {
        for stream in ["stdout", "stderr"] {
            let path = run.join(stream);
            let offset = read.entry(path.clone()).or_default();
            let text = read_on(&path, offset).to_lowercase();
            if stream == "stdout" && !text.is_empty() {
                seen.first_output.get_or_insert_with(Instant::now);
                seen.outputs += 1;
            }
            if text
                .lines()
                .any(|line| LINES.iter().any(|word| line.contains(word)))
            {
                seen.lines_s.push(now);
            }
        }
    }
}

fn directories(parent: &Utf8Path) -> Vec<Utf8PathBuf> {
    let entries = parent.read_dir_utf8().into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path().to_owned())
        .collect()
}

/// Visits the files below a directory; `visit` receives their paths relative to `top`.
fn walk(
    top: &Utf8Path,
    directory: &Utf8Path,
    depth: usize,
    left: &mut usize,
    visit: &mut dyn FnMut(Utf8PathBuf, &Metadata),
) {
    for entry in directory.read_dir_utf8().into_iter().flatten().flatten() {
        let path = entry.path();
        // hidden files belong to cvc and to libraries
        if *left == 0 || entry.file_name().starts_with('.') {
            continue;
        }
        *left -= 1;
        let Ok(metadata) = fs::symlink_metadata(path) else {
            continue;
        };
        if metadata.is_dir() && depth > 0 {
            walk(top, path, depth - 1, left, visit);
        } else if metadata.is_file()
            && let Ok(below) = path.strip_prefix(top)
        {
            visit(below.to_owned(), &metadata);
        }
    }
}

/// Reads what was appended to a file since `offset`.
fn read_on(path: &Utf8Path, offset: &mut u64) -> String {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(path)
        && file.seek(SeekFrom::Start(*offset)).is_ok()
        && let Ok(count) = file.take(MAX_READ).read_to_end(&mut bytes)
    {
        *offset += count as u64;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Why files are taken for a checkpoint, from the most to the least certain reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckpointEvidence {
    /// The files were written at a time at which the program announced a checkpoint.
    Announced,
    /// The files have names of checkpoints.
    Named,
    /// The files were replaced repeatedly.
    Rewritten,
}

impl CheckpointEvidence {
    /// Returns a description, for use after "files".
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Announced => "written when it announced a checkpoint",
            Self::Named => "with the name of a checkpoint",
            Self::Rewritten => "that it replaced repeatedly",
        }
    }
}

/// The files that a program seems to write as its checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnFiles {
    /// Files of the last checkpoint, by their paths relative to the working directory, with their lengths in bytes.
    pub files: Vec<(Utf8PathBuf, u64)>,
    /// Evidence that the files are a checkpoint.
    pub evidence: CheckpointEvidence,
    /// Number of checkpoints that the program was observed to write.
    pub checkpoints: usize,
    /// Time from the first to the last change of the files of the last checkpoint, seconds; `None` if it was too short to be observed.
    pub write_s: Option<f64>,
}

impl OwnFiles {
    /// Returns the total length of the files, bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns the part of an application descriptor that names these files. It does not say how the program restarts from them, because that is
    /// unknown.
    pub fn descriptor(&self) -> OwnCheckpoint {
        let literal = |path: &Utf8PathBuf| -> String {
            let escape = |c: char| match c {
                '*' | '?' | '[' | ']' => format!("[{c}]"),
                c => c.to_string(),
            };
            path.as_str().chars().map(escape).collect()
        };
        OwnCheckpoint {
            files: self.files.iter().map(|(path, _)| literal(path)).collect(),
            bytes: None,
            writes: None,
            reads: None,
            time_s: None,
            step: None,
            restartable: false,
            ways: Vec::new(),
            layouts: Vec::new(),
            size: None,
            per_process: false,
            stop_s: None,
            skipped: None,
            signal: None,
            always: true,
        }
    }
}

/// Guesses which files are the program's own checkpoint; `None` if there is no evidence. `is_input` returns whether cvc put the file there as an
/// input file.
pub fn guess(seen: &Seen, is_input: &dyn Fn(&Utf8Path) -> bool) -> Option<OwnFiles> {
    let candidates: Vec<(&Utf8PathBuf, &WatchedFile, CheckpointEvidence)> = seen
        .files
        .iter()
        .filter(|(path, file)| file.bytes > 0 && !is_input(path))
        .filter_map(|(path, file)| Some((path, file, evidence(seen, path, file)?)))
        .collect();
    let evidence = candidates.iter().map(|(.., evidence)| *evidence).min()?;
    let chosen: Vec<(&Utf8PathBuf, &WatchedFile)> = candidates
        .into_iter()
        .filter(|(.., of)| *of == evidence)
        .map(|(path, file, _)| (path, file))
        .collect();
    // of files whose names differ only in a number, the last ones belong to the last checkpoint
    let mut generations: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (path, file) in &chosen {
        let began = generations.entry(without_numbers(path)).or_default();
        began.push(file.began_s());
    }
    for began in generations.values_mut() {
        began.sort_by(f64::total_cmp);
        began.dedup_by(|later, earlier| *later - *earlier < APART_S);
    }
    let is_last = |path: &Utf8PathBuf, file: &WatchedFile| {
        let began = generations.get(&without_numbers(path));
        let last = began.and_then(|began| began.last()).copied();
        last.is_none_or(|last| file.began_s() >= last)
    };
    let last: Vec<&(&Utf8PathBuf, &WatchedFile)> = chosen
        .iter()
        .filter(|(path, file)| is_last(path, file))
        .collect();
    let writes = last.iter().map(|(_, file)| file.writes.len()).max();
    let series = generations.values().map(Vec::len).max();
    let ends = last.iter().filter_map(|(_, file)| file.writes.last());
    let (from, to) = ends.fold((f64::INFINITY, 0.0_f64), |(from, to), (begin, end)| {
        (from.min(*begin), to.max(*end))
    });
    let least = 2.0 * PAUSE.as_secs_f64();
    Some(OwnFiles {
        checkpoints: writes.max(series).unwrap_or(1),
        write_s: Some(to - from).filter(|seconds| *seconds >= least),
        files: last
            .iter()
            .map(|(path, file)| ((*path).clone(), file.bytes))
            .collect(),
        evidence,
    })
}

/// Returns the evidence that a file is a checkpoint; `None` if there is none.
fn evidence(seen: &Seen, path: &Utf8Path, file: &WatchedFile) -> Option<CheckpointEvidence> {
    let is_close = |(from, to): &(f64, f64)| {
        let mut lines = seen.lines_s.iter();
        lines.any(|line| (from - CLOSE_S..=to + CLOSE_S).contains(line))
    };
    let name = path.as_str().to_lowercase();
    let is_log = [".log", ".out", ".txt", ".yaml", ".csv"]
        .iter()
        .any(|end| name.ends_with(end));
    let every = file.writes.iter().filter(|write| is_close(write)).count();
    if every > 0 && every == file.writes.len() && !is_log {
        Some(CheckpointEvidence::Announced)
    } else if NAMES.iter().any(|word| name.contains(word)) && !is_log {
        Some(CheckpointEvidence::Named)
    } else if file.writes.len() > 1
        && file.is_replaced
        && file.bytes >= MIN_REWRITTEN_BYTES
        && !is_log
    {
        Some(CheckpointEvidence::Rewritten)
    } else {
        None
    }
}

fn without_numbers(path: &Utf8Path) -> String {
    let mut text = String::new();
    for c in path.as_str().chars() {
        match c {
            c if c.is_ascii_digit() => {
                if !text.ends_with('#') {
                    text.push('#');
                }
            }
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{CheckpointEvidence, OwnFiles, Seen, WatchedFile, guess};

    fn file(bytes: u64, writes: &[(f64, f64)], is_replaced: bool) -> WatchedFile {
        WatchedFile {
            bytes,
            writes: writes.to_vec(),
            is_replaced,
            ..WatchedFile::default()
        }
    }

    fn guessed(files: &[(&str, WatchedFile)], lines_s: &[f64]) -> Option<OwnFiles> {
        let seen = Seen {
            files: files
                .iter()
                .map(|(path, file)| ((*path).into(), file.clone()))
                .collect(),
            lines_s: lines_s.to_vec(),
            ..Seen::default()
        };
        guess(&seen, &|path| path == "in.dat")
    }

    fn names(own: &OwnFiles) -> Vec<&str> {
        own.files.iter().map(|(path, _)| path.as_str()).collect()
    }

    #[test]
    fn of_a_series_the_last_checkpoint_is_taken() {
        let own = guessed(
            &[
                ("melt.restart.100", file(10, &[(1.0, 1.1)], false)),
                ("melt.restart.200", file(20, &[(2.0, 2.2)], false)),
                ("result.dat", file(99, &[(3.0, 3.0)], false)),
            ],
            &[],
        );
        let own = own.expect("found");
        assert_eq!((names(&own), own.bytes()), (vec!["melt.restart.200"], 20));
        assert_eq!(
            (own.checkpoints, own.evidence),
            (2, CheckpointEvidence::Named)
        );
        assert!((own.write_s.expect("a time") - 0.2).abs() < 1e-9);
    }

    #[test]
    fn files_of_all_ranks_are_one_checkpoint() {
        let own = guessed(
            &[
                ("state/0.bin", file(10, &[(1.0, 1.0), (2.0, 2.0)], true)),
                ("state/1.bin", file(10, &[(1.05, 1.05), (2.05, 2.05)], true)),
                ("log", file(9, &[(0.5, 0.5), (1.0, 1.0)], false)),
            ],
            &[1.1, 2.1],
        );
        let own = own.expect("found");
        assert_eq!(names(&own), ["state/0.bin", "state/1.bin"]);
        assert_eq!(
            (own.checkpoints, own.evidence),
            (2, CheckpointEvidence::Announced)
        );
    }

    #[test]
    fn files_that_only_grow_or_existed_before_are_no_checkpoint() {
        let growing = file(1 << 20, &[(1.0, 1.0), (2.0, 2.0)], false);
        let input = file(1 << 20, &[(0.0, 0.0), (2.0, 2.0)], true);
        assert_eq!(guessed(&[("grid", growing), ("in.dat", input)], &[]), None);
        let replaced = file(1 << 20, &[(1.0, 1.0), (2.0, 2.0)], true);
        let own = guessed(&[("grid", replaced)], &[]).expect("found");
        assert_eq!(own.evidence, CheckpointEvidence::Rewritten);
    }

    #[test]
    fn names_are_taken_literally() {
        let own = guessed(&[("ckpt[1]", file(1, &[(1.0, 1.0)], false))], &[]);
        let files = own.expect("found").descriptor().files;
        assert_eq!(files, ["ckpt[[]1[]]"]);
    }
}
