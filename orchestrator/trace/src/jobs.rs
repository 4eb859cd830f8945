//! Reads several Darshan logs: a row for each job, sums over jobs, and the files that several jobs used.
//!
//! Each log is read once, on the calling thread. Only its row remains in memory; sums of files are updated while logs are read.

use crate::{
    darshan::{
        DarshanCompression, DarshanModule, DarshanSummary, FileSums, LayerTotal, ModuleSummary,
        summarize,
    },
    sink::TraceError,
};
use serde::Serialize;
use std::{
    collections::{HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

/// Maximum number of files, counted once per module, that are summed over all logs. Further files are only counted.
const MAX_FILES: usize = 1_000_000;
/// Maximum depth of directories searched for logs.
const MAX_DEPTH: usize = 16;
const MIB: f64 = 1_048_576.0;

/// Counters of one module in a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobModule {
    /// Name of the module, such as `POSIX`.
    pub module: &'static str,
    /// Number of files.
    pub files: u64,
    /// Number of opens.
    pub opens: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time along the slowest path, seconds: Darshan divides bytes by it to estimate the bandwidth.
    pub time_by_slowest_s: f64,
    /// Bytes divided by `time_by_slowest_s`, MiB/s.
    pub mib_s: Option<f64>,
    /// Time of all processes in operations, seconds.
    pub io_s: f64,
    /// Whether records are missing because Darshan ran out of memory for them.
    pub is_partial: bool,
}

/// A job: one log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobRow {
    /// Path of the log.
    pub log: PathBuf,
    /// The program without its arguments.
    pub program: String,
    /// Job ID of the batch system, or else the PID of the first process.
    pub job_id: i64,
    /// Numeric ID of the user.
    pub uid: i64,
    /// Number of processes.
    pub processes: u64,
    /// Start, seconds since 1970.
    pub start_unix_s: i64,
    /// End, seconds since 1970; `None` for a job that did not complete.
    pub end_unix_s: Option<i64>,
    /// Run time, seconds.
    pub run_time_s: Option<f64>,
    /// Bytes read through the lowest interfaces.
    pub read_bytes: u64,
    /// Bytes written through the lowest interfaces.
    pub written_bytes: u64,
    /// Bandwidth of the module that moved the most bytes, as estimated by Darshan, MiB/s.
    pub mib_s: Option<f64>,
    /// Time of all processes in I/O, divided by the run time of all processes.
    pub io_share: Option<f64>,
    /// The modules that have counters.
    pub modules: Vec<JobModule>,
    /// Parts that are missing in the log, or that Darshan did not count.
    pub notes: Vec<String>,
}

/// A file, as recorded by one module, summed over all jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobFile {
    /// Path of the file.
    pub file: String,
    /// The module.
    pub module: &'static str,
    /// Number of jobs that used the file.
    pub jobs: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Sum over jobs of the slowest process's time, seconds.
    pub time_by_slowest_s: f64,
}

impl JobFile {
    /// Returns the bytes read and written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.read_bytes.saturating_add(self.written_bytes)
    }
}

/// A log that cannot be read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnreadLog {
    /// Path of the log.
    pub log: PathBuf,
    /// Why it cannot be read.
    pub problem: String,
}

/// Selects jobs and files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// The path of the log or the program must contain one of these texts. If there are none, all logs are selected.
    pub logs: Vec<String>,
    /// The path of a file must contain one of these texts. If there are none, all files are selected.
    pub files: Vec<String>,
}

fn has_any(text: &str, words: &[String]) -> bool {
    words.is_empty() || words.iter().any(|word| text.contains(word.as_str()))
}

/// The results of several logs.
#[derive(Debug, Default)]
pub struct Jobs {
    filter: JobFilter,
    /// A row for each log that was read.
    pub rows: Vec<JobRow>,
    /// Logs that cannot be read.
    pub unread: Vec<UnreadLog>,
    /// Number of jobs excluded by the filter.
    pub left_out: u64,
    /// Number of times that a job's file was not recorded because there were too many files.
    pub more_files: u64,
    places: HashMap<(Box<str>, DarshanModule), usize>,
    files: Vec<JobFile>,
}

impl Jobs {
    /// Creates an empty set of results.
    #[must_use]
    pub fn new(filter: JobFilter) -> Self {
        Self {
            filter,
            ..Self::default()
        }
    }

    /// Reads a log and adds its job. A log that cannot be read is added to `unread`.
    pub fn add(&mut self, path: &Path) {
        match summarize(path) {
            Ok(log) => self.add_log(path, &log),
            Err(error) => self.unread.push(UnreadLog {
                log: path.to_owned(),
                problem: match error {
                    TraceError::Read { error, .. } => error.to_string(),
                    TraceError::NotATrace { kind, problem, .. } => {
                        format!("not a {kind}: {problem}")
                    }
                    error @ TraceError::Sink(_) => error.to_string(),
                },
            }),
        }
    }

    fn add_log(&mut self, path: &Path, log: &DarshanSummary) {
        let row = row_of(path, log);
        if !has_any(&row.log.to_string_lossy(), &self.filter.logs)
            && !has_any(&row.program, &self.filter.logs)
        {
            self.left_out += 1;
            return;
        }
        for file in &log.files {
            self.add_file(log, file);
        }
        self.rows.push(row);
    }

    fn add_file(&mut self, log: &DarshanSummary, of: &FileSums) {
        let sums = &of.sums;
        // data sets and variables are in files, which have their own records
        if of.file.is_some() || sums.read_bytes().is_none() {
            return;
        }
        let name = log.name_text(of.id);
        if !has_any(&name, &self.filter.files) {
            return;
        }
        let key = (name.into_boxed_str(), sums.module);
        let at = match self.places.get(&key) {
            Some(&at) => at,
            None if self.files.len() >= MAX_FILES => {
                self.more_files += 1;
                return;
            }
            None => {
                self.files.push(JobFile {
                    file: key.0.to_string(),
                    module: sums.module.name(),
                    ..JobFile::default()
                });
                self.places.insert(key, self.files.len() - 1);
                self.files.len() - 1
            }
        };
        let file = &mut self.files[at];
        let add = |to: &mut u64, more: Option<u64>| *to = to.saturating_add(more.unwrap_or(0));
        file.jobs += 1;
        add(&mut file.reads, sums.reads());
        add(&mut file.writes, sums.writes());
        add(&mut file.read_bytes, sums.read_bytes());
        add(&mut file.written_bytes, sums.written_bytes());
        file.time_by_slowest_s += sums.slowest.map_or(0.0, |slowest| slowest.time_s);
    }

    /// Returns the files of all jobs, most bytes first.
    #[must_use]
    pub fn files(&self) -> Vec<&JobFile> {
        let mut files: Vec<&JobFile> = self.files.iter().collect();
        files.sort_by(|a, b| b.bytes().cmp(&a.bytes()).then_with(|| a.file.cmp(&b.file)));
        files
    }
}

fn row_of(path: &Path, log: &DarshanSummary) -> JobRow {
    let job = log.job.as_ref();
    let run_time_s = job.and_then(|job| job.run_time_s());
    let processes = job.map_or(0, |job| u64::try_from(job.ranks).unwrap_or(0));
    let command = job.map(|job| String::from_utf8_lossy(&job.command).into_owned());
    let moved = log.moved().unwrap_or_default();
    let sum = |of: fn(&LayerTotal) -> u64| moved.values().map(of).fold(0, u64::saturating_add);
    let modules: Vec<JobModule> = log.modules.iter().filter_map(module_of).collect();
    let io_s = |name: &str| {
        modules
            .iter()
            .find(|m| m.module == name)
            .map_or(0.0, |m| m.io_s)
    };
    // the time of an MPI-IO call includes that of its POSIX calls
    let all_io_s =
        io_s("POSIX").max(io_s("MPI-IO")) + io_s("STDIO") + io_s("DFS").max(io_s("DAOS"));
    let all_s = run_time_s.map_or(0.0, |s| s * processes as f64);
    let busiest = moved
        .iter()
        .max_by_key(|(_, total)| total.read_bytes.saturating_add(total.written_bytes))
        .and_then(|(module, _)| log.module(*module));
    JobRow {
        log: path.to_owned(),
        program: command
            .as_deref()
            .and_then(|command| command.split_whitespace().next())
            .unwrap_or_default()
            .to_owned(),
        job_id: job.map_or(0, |job| job.job_id),
        uid: job.map_or(0, |job| job.uid),
        processes,
        start_unix_s: job.map_or(0, |job| job.start.0),
        end_unix_s: job.and_then(|job| job.end).map(|end| end.0),
        run_time_s,
        read_bytes: sum(|of| of.read_bytes),
        written_bytes: sum(|of| of.written_bytes),
        mib_s: busiest.and_then(ModuleSummary::bandwidth_mib_s),
        io_share: (all_s > 0.0).then(|| all_io_s / all_s),
        notes: notes_of(log),
        modules,
    }
}

fn module_of(of: &ModuleSummary) -> Option<JobModule> {
    let sums = of.sums.as_ref()?;
    let (read_bytes, written_bytes) = (sums.read_bytes()?, sums.written_bytes()?);
    Some(JobModule {
        module: of.info.module.name(),
        files: of.files,
        opens: sums.opens().unwrap_or(0),
        reads: sums.reads().unwrap_or(0),
        writes: sums.writes().unwrap_or(0),
        read_bytes,
        written_bytes,
        time_by_slowest_s: of.time_by_slowest_s(),
        mib_s: of.bandwidth_mib_s(),
        io_s: [sums.read_s(), sums.write_s(), sums.meta_s()]
            .into_iter()
            .flatten()
            .sum(),
        is_partial: of.info.partial,
    })
}

fn notes_of(log: &DarshanSummary) -> Vec<String> {
    let mut notes: Vec<String> = log
        .missing
        .iter()
        .map(|m| format!("{}: {}", m.part, m.problem))
        .collect();
    if log.more_missing > 0 {
        notes.push(format!("{} more parts are missing", log.more_missing));
    }
    if log.header.compression == DarshanCompression::None
        || log.job.as_ref().is_some_and(|job| job.end.is_none())
    {
        notes.push("the job did not end normally".to_owned());
    }
    notes.extend(uncounted_mpi_io(log).map(|problem| format!("module MPI-IO: {problem}")));
    notes
}

/// Returns a remark that names the files which were opened through MPI-IO but for which MPI-IO counted no operations, although POSIX or DFS moved
/// their bytes; `None` if there are no such files.
///
/// Darshan does not record the large-count calls of MPI 4, such as `MPI_File_write_c`.
#[must_use]
pub fn uncounted_mpi_io(log: &DarshanSummary) -> Option<String> {
    let of = |module| {
        log.files
            .iter()
            .filter(move |file| file.sums.module == module)
    };
    let silent: HashSet<_> = of(DarshanModule::MpiIo)
        .filter(|file| {
            file.sums.reads() == Some(0)
                && file.sums.writes() == Some(0)
                && file.sums.opens() > Some(0)
        })
        .map(|file| file.id)
        .collect();
    if silent.is_empty() {
        return None;
    }
    let below: Vec<&FileSums> = of(DarshanModule::Posix)
        .chain(of(DarshanModule::Dfs))
        .filter(|file| silent.contains(&file.id) && bytes_of(file) > 0)
        .collect();
    let first = below.first()?;
    let bytes = below
        .iter()
        .fold(0, |sum: u64, file| sum.saturating_add(bytes_of(file)));
    let others = match below.len() {
        1 => String::new(),
        n => format!(" and of {} others", n - 1),
    };
    Some(format!(
        "no read or write of {}{others} is counted, although it was opened and {:.1} MiB moved: Darshan does not see large-count calls \
         (MPI_File_write_c, ...)",
        log.name_text(first.id),
        bytes as f64 / MIB
    ))
}

fn bytes_of(file: &FileSums) -> u64 {
    let of = [file.sums.read_bytes(), file.sums.written_bytes()].map(Option::unwrap_or_default);
    of[0].saturating_add(of[1])
}

/// Returns the Darshan logs below a directory, sorted by name; for a file, the file itself. Subdirectories that cannot be read are included in the
/// result. Links to directories are not followed.
///
/// # Errors
/// The directory cannot be read.
pub fn darshan_logs_below(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    if path.is_dir() {
        search(path, 0, &mut logs)?;
        logs.sort();
    } else {
        logs.push(path.to_owned());
    }
    Ok(logs)
}

fn search(directory: &Path, depth: usize, logs: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = path.as_os_str().as_encoded_bytes();
        if kind.is_dir() && depth < MAX_DEPTH {
            // included, so that the attempt to read it reports the error
            if search(&path, depth + 1, logs).is_err() {
                logs.push(path);
            }
        } else if (name.ends_with(b".darshan") || name.ends_with(b".darshan_partial"))
            && path.is_file()
        {
            logs.push(path);
        }
    }
    Ok(())
}
