//! The report on a trace: printed by `--json`, and the source of tables and pages.

use super::counted::{ShownLog, ShownRecord, bandwidth, filled};
use crate::{
    Api, LayerTotal, Missing, OperationOrder, Orders, ProcessId,
    findings::Finding,
    profile::{Burst, FileUse, Profile, SizeBins, SpatialPattern, Stream, Usage},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the document's format.
pub const SCHEMA: u32 = 2;

/// Where a trace comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceHead {
    /// `darshan`, `strace` or `dftracer`.
    pub tracer: String,
    /// The files that were read.
    pub inputs: Vec<String>,
    /// Version of the log's format, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The command that was traced, if the trace records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Number of ranks, if the trace records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u64>,
    /// Start of the trace, seconds since 1970, if the trace records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began_unix_s: Option<f64>,
    /// Whether the run did not complete.
    pub partial: bool,
}

/// The reads or the writes of a file or process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ShownStream {
    /// Number of operations that did not fail.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Total time of the operations, seconds.
    pub time_s: f64,
    /// Bytes divided by the time of the operations, MiB/s; `None` without a time.
    pub bandwidth_mib_s: Option<f64>,
    /// Number of operations by size, in Darshan's bins; empty bins are omitted.
    pub sizes: BTreeMap<&'static str, u64>,
    /// The pattern of offsets as text; for a file, the most frequent one among its processes.
    pub pattern: String,
}

/// Operations of one process on a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownUse {
    /// The process, such as `rank 3` or `pid 4711`.
    pub process: String,
    /// Its reads.
    pub reads: ShownStream,
    /// Its writes.
    pub writes: ShownStream,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownFile {
    /// Path of the file.
    pub path: String,
    /// Name without numbers; files with the same purpose, such as the images of a checkpoint, have the same role.
    pub role: String,
    /// Whether the file contains data of the run; false for system files, sockets and pipes.
    pub of_run: bool,
    /// `read only`, `write only`, `read and written`, `touched`.
    pub access: &'static str,
    /// The lowest interface that moved bytes of the file.
    pub interface: Option<&'static str>,
    /// Number of processes that used the file.
    pub processes: usize,
    /// Number of processes that read it; `None` if only a sum over all ranks is known.
    pub readers: Option<usize>,
    /// Number of processes that wrote it; `None` if only a sum over all ranks is known.
    pub writers: Option<usize>,
    /// Minimum and maximum of the bytes per writer; `None` for fewer than two writers.
    pub written_least_most: Option<(u64, u64)>,
    /// All reads.
    pub reads: ShownStream,
    /// All writes.
    pub writes: ShownStream,
    /// Number of opens.
    pub opens: u64,
    /// Number of syncs.
    pub syncs: u64,
    /// Number of operations that move no bytes.
    pub metadata_operations: u64,
    /// Time of the operations that move no bytes, seconds.
    pub metadata_s: f64,
    /// Operations by process, for the lowest interface only.
    pub by_process: Vec<ShownUse>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownProcess {
    /// Name of the process, such as `rank 3` or `pid 4711`.
    pub process: String,
    /// Its node, if the trace records it.
    pub host: Option<String>,
    /// Its program, if the trace records it.
    pub program: Option<String>,
    /// Bytes that it read, by the lowest interface of each file.
    pub read_bytes: u64,
    /// Bytes that it wrote.
    pub written_bytes: u64,
    /// Time in reads, in writes, and in all other operations, seconds.
    pub time_s: f64,
    /// End of the last operation that moved bytes, seconds since the start of the trace; `None` if only counters are known.
    pub last_s: Option<f64>,
}

/// Kind of the operations in a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BurstKind {
    /// Writes.
    Write,
    /// Reads.
    Read,
    /// Operations that move no bytes.
    Metadata,
}

/// A burst: a period of operations without a longer pause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownBurst {
    /// Kind of the operations.
    pub kind: BurstKind,
    /// Start, seconds since the start of the trace.
    pub start_s: f64,
    /// End, seconds since the start of the trace.
    pub end_s: f64,
    /// Number of operations.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes divided by the duration, MiB/s; `None` if either is 0.
    pub bandwidth_mib_s: Option<f64>,
}

/// Bytes over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ShownRates {
    /// Duration of a step, seconds.
    pub step_s: f64,
    /// Bytes in each step.
    pub bytes: Vec<f64>,
}

/// The report on a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceDocument {
    /// Version of this document's format.
    pub schema: u32,
    /// Where the trace comes from.
    pub trace: TraceHead,
    /// Its missing parts.
    pub missing: Vec<Missing>,
    /// Number of further missing parts.
    pub more_missing: u64,
    /// Number of events; 0 for a log without single operations.
    pub events: u64,
    /// Time from the start of the first event to the end of the last, seconds.
    pub span_s: f64,
    /// The write bursts, described in a sentence.
    pub rhythm: Option<String>,
    /// Minimum length of a pause that ends a burst, seconds.
    pub gap_s: f64,
    /// Bursts by time: those of writes, then reads, then other operations.
    pub bursts: Vec<ShownBurst>,
    /// Bytes written over time.
    pub write_rates: ShownRates,
    /// Bytes read over time.
    pub read_rates: ShownRates,
    /// Processes, by rank.
    pub processes: Vec<ShownProcess>,
    /// Files, in descending order of bytes.
    pub files: Vec<ShownFile>,
    /// Findings, by code.
    pub findings: Vec<Finding>,
    /// Sums of the counters of each Darshan log. The counters are the totals; events are a part of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<ShownLog>,
    /// Sums of reads and writes that are events, by the lowest interface of each file, if a Darshan log has DXT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_totals: Option<LayerTotal>,
    /// Counters for each file and rank, at most 20,000 records.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<ShownRecord>,
    /// Number of records that `records` omits; CSV output has all.
    pub more_records: u64,
    /// Reads and writes in order, by role in descending order of bytes. Processes with the same order share an entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<OperationOrder>,
    /// Number of reads and writes of further processes and roles, whose order was not examined.
    #[serde(skip_serializing_if = "is_zero")]
    pub orders_left_out: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TraceDocument {
    /// Adds the order of operations.
    #[must_use]
    pub fn with_orders(self, found: Orders) -> Self {
        Self {
            orders: found.orders,
            orders_left_out: found.left_out,
            ..self
        }
    }
}

const MIB: f64 = 1_048_576.0;

/// Creates the report on a trace. A pause longer than `gap_ns` nanoseconds ends a burst; `None`: the pause is that of `Profile::usual_gap_ns`.
pub fn document(
    head: TraceHead,
    profile: &Profile,
    found: &[Finding],
    gap_ns: Option<u64>,
) -> TraceDocument {
    let gap_ns = gap_ns.unwrap_or_else(|| profile.usual_gap_ns());
    let writes = profile.write_bursts(gap_ns);
    let mut bursts: Vec<ShownBurst> = Vec::new();
    for (kind, of) in [
        (BurstKind::Write, writes.clone()),
        (BurstKind::Read, profile.read_bursts(gap_ns)),
        (BurstKind::Metadata, profile.metadata_bursts(gap_ns)),
    ] {
        bursts.extend(of.into_iter().map(|b| shown_burst(kind, b)));
    }
    let mut files: Vec<ShownFile> = profile
        .files
        .iter()
        .map(|file| shown_file(profile, file))
        .collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.reads.bytes.saturating_add(file.writes.bytes)));
    TraceDocument {
        schema: SCHEMA,
        trace: head,
        missing: profile.missing.clone(),
        more_missing: profile.more_missing,
        events: profile.events,
        span_s: seconds(profile.end_ns.saturating_sub(profile.start_ns)),
        rhythm: rhythm(&writes),
        gap_s: seconds(gap_ns),
        bursts,
        write_rates: shown_rates(&profile.write_rates),
        read_rates: shown_rates(&profile.read_rates),
        processes: shown_processes(profile),
        files,
        findings: found.to_vec(),
        logs: Vec::new(),
        event_totals: None,
        records: Vec::new(),
        more_records: 0,
        orders: Vec::new(),
        orders_left_out: 0,
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Describes the write bursts in a sentence: number, duration, bytes, and whether they are periodic.
fn rhythm(bursts: &[Burst]) -> Option<String> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let spread_pct = |values: &[f64]| {
        let middle = mean(values);
        let square = values.iter().map(|v| (v - middle).powi(2)).sum::<f64>();
        if middle > 0.0 && values.len() > 1 {
            (square / (values.len() - 1) as f64).sqrt() / middle * 100.0
        } else {
            0.0
        }
    };
    let sizes: Vec<f64> = bursts.iter().map(|b| b.bytes as f64 / MIB).collect();
    let lengths: Vec<f64> = bursts
        .iter()
        .map(|b| seconds(b.end_ns.saturating_sub(b.start_ns)))
        .collect();
    match bursts.len() {
        0 => None,
        1 => Some(format!(
            "One burst of writes: {} MiB in {}.",
            digits(sizes[0]),
            brief(lengths[0])
        )),
        n => {
            let starts: Vec<f64> = bursts
                .windows(2)
                .map(|w| seconds(w[1].start_ns.saturating_sub(w[0].start_ns)))
                .collect();
            let every = if spread_pct(&starts) < 20.0 {
                format!(
                    "one every {} (± {:.0} %)",
                    brief(mean(&starts)),
                    spread_pct(&starts)
                )
            } else {
                format!(
                    "at unequal times, {} apart on average",
                    brief(mean(&starts))
                )
            };
            Some(format!(
                "{n} bursts of writes, {every}: {} MiB each (± {:.0} %), in {} each.",
                digits(mean(&sizes)),
                spread_pct(&sizes),
                brief(mean(&lengths))
            ))
        }
    }
}

/// Formats a number with three significant digits.
fn digits(value: f64) -> String {
    let decimals = if value > 0.0 {
        (2 - value.log10().floor() as i32).clamp(0, 6) as usize
    } else {
        0
    };
    format!("{value:.decimals$}")
}

/// Formats a time in a suitable unit.
fn brief(time_s: f64) -> String {
    match time_s {
        s if s >= 1.0 => format!("{} s", digits(s)),
        s if s >= 1e-3 => format!("{} ms", digits(s * 1e3)),
        s => format!("{} µs", digits(s * 1e6)),
    }
}

fn shown_burst(kind: BurstKind, of: Burst) -> ShownBurst {
    let (start_s, end_s) = (seconds(of.start_ns), seconds(of.end_ns));
    ShownBurst {
        kind,
        start_s,
        end_s,
        operations: of.operations,
        bytes: of.bytes,
        bandwidth_mib_s: bandwidth(of.bytes, end_s - start_s),
    }
}

fn shown_rates(of: &crate::profile::Rates) -> ShownRates {
    ShownRates {
        step_s: seconds(of.step_ns()),
        bytes: of.bytes().to_vec(),
    }
}

fn shown_stream(of: &Stream) -> ShownStream {
    let time_s = seconds(of.duration_ns);
    ShownStream {
        operations: of.operations,
        bytes: of.bytes,
        time_s,
        bandwidth_mib_s: bandwidth(of.bytes, time_s),
        sizes: filled(&of.sizes),
        pattern: in_words(&of.pattern(), of.operations),
    }
}

/// Describes a pattern with its distances; empty if there are no operations.
fn in_words(pattern: &SpatialPattern, operations: u64) -> String {
    match pattern {
        _ if operations == 0 => String::new(),
        SpatialPattern::Strided { stride } => format!("strided by {stride}"),
        SpatialPattern::NestedStrided { inner, outer, .. } => {
            format!("nested strided by {inner} and {outer}")
        }
        other => other.word().to_owned(),
    }
}

/// Combines the streams of several processes.
fn together<'a>(streams: impl Iterator<Item = &'a Stream>) -> ShownStream {
    let mut all = ShownStream::default();
    let mut sizes = SizeBins::default();
    let mut patterns: BTreeMap<String, usize> = BTreeMap::new();
    for of in streams.filter(|s| s.operations > 0) {
        all.operations = all.operations.saturating_add(of.operations);
        all.bytes = all.bytes.saturating_add(of.bytes);
        all.time_s += seconds(of.duration_ns);
        sizes.merge(&of.sizes);
        // patterns that differ only in their numbers count as the same
        *patterns
            .entry(in_words(&of.pattern(), of.operations))
            .or_default() += 1;
    }
    all.bandwidth_mib_s = bandwidth(all.bytes, all.time_s);
    all.sizes = filled(&sizes);
    let all_of_them: usize = patterns.values().sum();
    if let Some((pattern, n)) = patterns.into_iter().max_by_key(|(_, n)| *n) {
        all.pattern = if n == all_of_them {
            pattern
        } else {
            format!("{pattern} ({n} of {all_of_them} processes)")
        };
    }
    all
}

fn shown_file(profile: &Profile, file: &FileUse) -> ShownFile {
    let lowest = file.lowest();
    let uses: Vec<(ProcessId, &Usage)> = lowest.map_or_else(Vec::new, |api| file.by(api).collect());
    let writers: Vec<u64> = uses
        .iter()
        .filter(|(_, u)| u.writes.operations > 0)
        .map(|(_, u)| u.writes.bytes)
        .collect();
    let processes: std::collections::BTreeSet<ProcessId> =
        file.uses.keys().map(|(process, _)| *process).collect();
    let metadata = file.uses.values().map(|u| u.metadata);
    let (opens, syncs, operations, duration_ns) = metadata.fold((0, 0, 0, 0_u64), |sum, m| {
        (
            u64::saturating_add(sum.0, m.opens),
            u64::saturating_add(sum.1, m.syncs),
            u64::saturating_add(sum.2, m.operations),
            sum.3.saturating_add(m.duration_ns),
        )
    });
    ShownFile {
        path: file.name(),
        role: file.role(),
        of_run: file.is_of_run,
        access: file.access(),
        interface: lowest.map(Api::word),
        processes: processes.len(),
        readers: Some(uses.iter().filter(|(_, u)| u.reads.operations > 0).count()),
        writers: Some(writers.len()),
        written_least_most: writers
            .iter()
            .min()
            .zip(writers.iter().max())
            .map(|(least, most)| (*least, *most))
            .filter(|_| writers.len() > 1),
        reads: together(uses.iter().map(|(_, u)| &u.reads)),
        writes: together(uses.iter().map(|(_, u)| &u.writes)),
        opens,
        syncs,
        metadata_operations: operations,
        metadata_s: seconds(duration_ns),
        by_process: uses
            .iter()
            .map(|(process, usage)| ShownUse {
                process: profile.process_name(*process),
                reads: shown_stream(&usage.reads),
                writes: shown_stream(&usage.writes),
            })
            .collect(),
    }
}

fn shown_processes(profile: &Profile) -> Vec<ShownProcess> {
    let mut sums: BTreeMap<ProcessId, (u64, u64, u64, u64)> = profile
        .processes
        .keys()
        .map(|id| (*id, (0, 0, 0, 0)))
        .collect();
    for file in &profile.files {
        let lowest = file.lowest();
        for ((process, api), usage) in &file.uses {
            let sum = sums.entry(*process).or_default();
            sum.2 = sum.2.saturating_add(usage.metadata.duration_ns);
            if Some(*api) == lowest {
                sum.0 = sum.0.saturating_add(usage.reads.bytes);
                sum.1 = sum.1.saturating_add(usage.writes.bytes);
                sum.2 = sum
                    .2
                    .saturating_add(usage.reads.duration_ns)
                    .saturating_add(usage.writes.duration_ns);
                sum.3 = sum.3.max(usage.reads.last_ns).max(usage.writes.last_ns);
            }
        }
    }
    let mut shown: Vec<(Option<u32>, ShownProcess)> = sums
        .into_iter()
        .map(|(id, (read_bytes, written_bytes, busy_ns, last_ns))| {
            let process = profile.process(id);
            let shown = ShownProcess {
                process: profile.process_name(id),
                host: process.host,
                program: process.program,
                read_bytes,
                written_bytes,
                time_s: seconds(busy_ns),
                last_s: Some(seconds(last_ns)),
            };
            (process.rank, shown)
        })
        .collect();
    shown.sort_by_key(|(rank, _)| rank.map_or(u64::MAX, u64::from));
    shown.into_iter().map(|(_, process)| process).collect()
}
