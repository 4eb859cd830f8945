//! Several Darshan logs, as CSV and JSON.

use crate::export::csv_events::field;
use crate::jobs::{JobFile, JobRow, Jobs, UnreadLog};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// Version of the document's format.
const SCHEMA: u32 = 1;

/// Sums over all jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobSum {
    /// Number of jobs.
    pub jobs: usize,
    /// Number of processes of all jobs.
    pub processes: u64,
    /// Sum of the run times, seconds.
    pub run_time_s: f64,
    /// Bytes read through the lowest interfaces.
    pub read_bytes: u64,
    /// Bytes written through the lowest interfaces.
    pub written_bytes: u64,
    /// By module: bytes, and time along the slowest path of each job.
    pub modules: BTreeMap<&'static str, ModuleTotal>,
    /// Time of all processes in I/O, divided by the run time of all processes.
    pub io_share: Option<f64>,
}

/// Sums for one module over all jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ModuleTotal {
    /// Number of jobs that have the module.
    pub jobs: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Sum over jobs of the time along the slowest path, seconds.
    pub time_by_slowest_s: f64,
}

/// The report on several logs.
#[derive(Debug, Serialize)]
pub struct JobsDocument<'a> {
    schema: u32,
    /// A row for each job, in descending order of bytes.
    pub jobs: Vec<&'a JobRow>,
    /// The sums over all jobs.
    pub sum: JobSum,
    /// Files, in descending order of bytes: those that several jobs used, or all.
    pub files: Vec<&'a JobFile>,
    /// Logs that cannot be read.
    pub unread: &'a [UnreadLog],
    /// Number of jobs excluded by the filter.
    pub left_out: u64,
    /// Number of times that a job's file was not recorded because there were too many files.
    pub more_files: u64,
}

impl<'a> JobsDocument<'a> {
    /// Creates the report. Without `all_files`, it has only the files that several jobs used.
    #[must_use]
    pub fn new(jobs: &'a Jobs, all_files: bool) -> Self {
        let mut rows: Vec<&JobRow> = jobs.rows.iter().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.read_bytes.saturating_add(row.written_bytes)));
        let mut files = jobs.files();
        // standard streams and pipes are different ones in each job
        files.retain(|file| all_files || file.jobs > 1 && !file.file.starts_with('<'));
        Self {
            schema: SCHEMA,
            sum: sum_of(&rows),
            jobs: rows,
            files,
            unread: &jobs.unread,
            left_out: jobs.left_out,
            more_files: jobs.more_files,
        }
    }
}

fn sum_of(rows: &[&JobRow]) -> JobSum {
    let mut sum = JobSum {
        jobs: rows.len(),
        ..JobSum::default()
    };
    let (mut io_s, mut all_s) = (0.0, 0.0);
    for row in rows {
        sum.processes = sum.processes.saturating_add(row.processes);
        sum.run_time_s += row.run_time_s.unwrap_or(0.0);
        sum.read_bytes = sum.read_bytes.saturating_add(row.read_bytes);
        sum.written_bytes = sum.written_bytes.saturating_add(row.written_bytes);
        if let (Some(share), Some(run_s)) = (row.io_share, row.run_time_s) {
            io_s += share * run_s * row.processes as f64;
            all_s += run_s * row.processes as f64;
        }
        for module in &row.modules {
            let total = sum.modules.entry(module.module).or_default();
            total.jobs += 1;
            total.bytes = total
                .bytes
                .saturating_add(module.read_bytes)
                .saturating_add(module.written_bytes);
            total.time_by_slowest_s += module.time_by_slowest_s;
        }
    }
    sum.io_share = (all_s > 0.0).then(|| io_s / all_s);
    sum
}

fn maybe<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Writes a line for each job and module; a job without modules has one line.
///
/// # Errors
/// Writing fails.
pub fn write_jobs_csv(jobs: &[&JobRow], to: &mut dyn Write) -> io::Result<()> {
    writeln!(
        to,
        "log,program,job_id,uid,processes,start_unix_s,end_unix_s,run_time_s,io_share,module,files,opens,reads,writes,read_bytes,written_bytes,time_by_slowest_s,mib_s,io_s,partial,notes"
    )?;
    for job in jobs {
        let head = format!(
            "{},{},{},{},{},{},{},{},{}",
            field(&job.log.to_string_lossy()),
            field(&job.program),
            job.job_id,
            job.uid,
            job.processes,
            job.start_unix_s,
            maybe(job.end_unix_s),
            maybe(job.run_time_s),
            maybe(job.io_share)
        );
        let notes = field(&job.notes.join("; "));
        for m in &job.modules {
            writeln!(
                to,
                "{head},{},{},{},{},{},{},{},{},{},{},{},{notes}",
                m.module,
                m.files,
                m.opens,
                m.reads,
                m.writes,
                m.read_bytes,
                m.written_bytes,
                m.time_by_slowest_s,
                maybe(m.mib_s),
                m.io_s,
                m.is_partial
            )?;
        }
        if job.modules.is_empty() {
            writeln!(to, "{head},,,,,,,,,,,,{notes}")?;
        }
    }
    Ok(())
}

/// Writes a line for each file and module.
///
/// # Errors
/// Writing fails.
pub fn write_files_csv(files: &[&JobFile], to: &mut dyn Write) -> io::Result<()> {
    writeln!(
        to,
        "file,module,jobs,reads,writes,read_bytes,written_bytes,time_by_slowest_s"
    )?;
    for f in files {
        let (file, module) = (field(&f.file), f.module);
        writeln!(
            to,
            "{file},{module},{},{},{},{},{},{}",
            f.jobs, f.reads, f.writes, f.read_bytes, f.written_bytes, f.time_by_slowest_s
        )?;
    }
    Ok(())
}
