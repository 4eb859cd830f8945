//! The counters of Darshan logs in documents: as JSON, and as files and sums.

use super::{
    counted::{ShownCounts, ShownLog, ShownModule, ShownRecord, bandwidth, filled},
    model::{ShownFile, ShownProcess, ShownRates, ShownStream, TraceDocument},
};
use crate::LayerTotal;
use crate::{
    DarshanModule, DarshanSummary, DarshanSums, FileSums, ModuleReading, ModuleSummary, RankTotal,
    RecordSums, profile::role_of,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
};

/// Maximum number of records in a document; CSV output has all.
const MAX_RECORDS: usize = 20_000;
/// Collects records while a trace is read.
#[derive(Debug, Default)]
pub struct CounterRecords {
    /// The first records.
    pub shown: Vec<ShownRecord>,
    /// Number of further records.
    pub more: u64,
}

impl CounterRecords {
    /// Adds a record.
    pub fn add(&mut self, of: &RecordSums<'_>) {
        if self.shown.len() < MAX_RECORDS {
            self.shown.push(ShownRecord {
                file: of.title(),
                module: of.sums.module.name(),
                rank: of.rank,
                counts: ShownCounts::of(of.sums),
            });
        } else {
            self.more += 1;
        }
    }
}

/// Converts the summary of a log.
fn shown_log(log: &DarshanSummary) -> ShownLog {
    let lowest = log.moved().unwrap_or_default();
    ShownLog {
        job: log.job.as_ref().map(|job| job.job_id),
        ranks: log.job.as_ref().map(|job| job.ranks),
        run_time_s: log.job.as_ref().and_then(|job| job.run_time_s()),
        modules: log.modules.iter().map(shown_module).collect(),
        lowest: lowest
            .iter()
            .map(|(module, of)| (module.name(), *of))
            .collect(),
    }
}

fn shown_module(of: &ModuleSummary) -> ShownModule {
    let module = of.info.module;
    ShownModule {
        module: match module {
            DarshanModule::Unknown(number) => format!("module number {number}"),
            known => known.name().to_owned(),
        },
        read: match of.reading {
            ModuleReading::Counters => "counters",
            ModuleReading::Events => "events",
            ModuleReading::Other => "other",
            ModuleReading::Unread => "nothing",
        },
        log_bytes: of.info.bytes,
        partial: of.info.partial,
        files: of.files,
        slowest_path_s: of.time_by_slowest_s(),
        bandwidth_mib_s: of.bandwidth_mib_s(),
        slowest_rank: of.slowest(),
        counts: of.sums.as_ref().map(ShownCounts::of),
    }
}

/// Returns the files of a log, each by the lowest interface that counted it. Facts that only events show, such as the order of operations, are from
/// `of_events`.
fn files(log: &DarshanSummary, of_events: &[ShownFile]) -> Vec<ShownFile> {
    let known: HashMap<(&str, Option<&str>), &ShownFile> = of_events
        .iter()
        .map(|f| ((f.path.as_str(), f.interface), f))
        .collect();
    let ranks = log
        .job
        .as_ref()
        .and_then(|job| usize::try_from(job.ranks).ok());
    let mut files = Vec::new();
    for of in log.lowest() {
        let path = log.name_text(of.id);
        let interface = word(of.sums.module);
        let events = known.get(&(path.as_str(), Some(interface))).copied();
        files.push(shown_file(of, path, interface, ranks, events));
    }
    files
}

/// Returns the name of an interface in documents.
fn word(module: DarshanModule) -> &'static str {
    match module {
        DarshanModule::Posix => "posix",
        DarshanModule::MpiIo => "mpi-io",
        DarshanModule::Stdio => "stdio",
        other => other.name(),
    }
}

fn shown_file(
    of: &FileSums,
    path: String,
    interface: &'static str,
    ranks: Option<usize>,
    events: Option<&ShownFile>,
) -> ShownFile {
    let sums = &of.sums;
    let own = of
        .readers_writers
        .map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    // for a record of all ranks, only events show which ranks took part
    let known = |at: usize, of_events: Option<usize>| match sums.is_shared {
        true => of_events,
        false => Some(own[at]),
    };
    let int = |name: &str| sums.int(name).unwrap_or(0);
    let processes = match sums.is_shared {
        true => ranks.unwrap_or(1),
        false => usize::try_from(sums.records).unwrap_or(usize::MAX),
    };
    let (opens, syncs) = (
        sums.opens().unwrap_or(0),
        ["FSYNCS", "FDSYNCS", "SYNCS", "FLUSHES"]
            .map(int)
            .into_iter()
            .fold(0, u64::saturating_add),
    );
    let others = [
        "SEEKS", "STATS", "MMAPS", "DUPS", "FILENOS", "LOOKUPS", "REMOVES",
    ]
    .map(int);
    let stream = |ops: Option<u64>, bytes: Option<u64>, time_s: Option<f64>, write: bool| {
        let (operations, bytes, time_s) =
            (ops.unwrap_or(0), bytes.unwrap_or(0), time_s.unwrap_or(0.0));
        let bins = if write {
            sums.write_sizes()
        } else {
            sums.read_sizes()
        };
        let of_events = events.map(|f| if write { &f.writes } else { &f.reads });
        ShownStream {
            operations,
            bytes,
            time_s,
            bandwidth_mib_s: bandwidth(bytes, time_s),
            sizes: bins.as_ref().map(filled).unwrap_or_default(),
            pattern: of_events
                .map(|of| of.pattern.clone())
                .filter(|pattern| !pattern.is_empty())
                .unwrap_or_else(|| {
                    order(
                        sums,
                        operations,
                        processes,
                        if write { "WRITES" } else { "READS" },
                    )
                }),
        }
    };
    let reads = stream(sums.reads(), sums.read_bytes(), sums.read_s(), false);
    let writes = stream(sums.writes(), sums.written_bytes(), sums.write_s(), true);
    let (least, most) = of.written_by.map_or((0.0, 0.0), |by| (by.least, by.most));
    let writers = known(1, events.and_then(|f| f.writers));
    ShownFile {
        role: role_of(&path),
        // Darshan itself omits system directories
        of_run: events.is_none_or(|f| f.of_run),
        access: match (reads.bytes, writes.bytes) {
            (0, 0) => "touched",
            (_, 0) => "read only",
            (0, _) => "write only",
            _ => "read and written",
        },
        interface: Some(interface),
        processes,
        readers: known(0, events.and_then(|f| f.readers)),
        writers,
        written_least_most: events.and_then(|f| f.written_least_most).or_else(|| {
            let all = !sums.is_shared && writers.is_some_and(|n| n > 1 && n as u64 == sums.records);
            all.then_some((least as u64, most as u64))
        }),
        opens,
        syncs,
        metadata_operations: others
            .into_iter()
            .fold(opens.saturating_add(syncs), u64::saturating_add),
        metadata_s: sums.meta_s().unwrap_or(0.0),
        by_process: events.map(|f| f.by_process.clone()).unwrap_or_default(),
        path,
        reads,
        writes,
    }
}

/// Describes the order of reads or writes from the counts of consecutive and sequential ones. Returns an empty text if these are not counted, or if
/// there are no more operations than processes.
fn order(sums: &DarshanSums, operations: u64, processes: usize, kind: &str) -> String {
    let of = |what: &str| sums.int(&format!("{what}_{kind}"));
    let (Some(consecutive), Some(sequential)) = (of("CONSEC"), of("SEQ")) else {
        return String::new();
    };
    // nine in ten, the same share as for events; the first operation of each rank has no predecessor
    let most = operations.saturating_sub(processes as u64) as f64 * 0.9;
    let word = match () {
        () if operations <= processes as u64 => return String::new(),
        () if consecutive as f64 >= most => "consecutive",
        () if sequential as f64 >= most => "sequential",
        () => "random",
    };
    word.to_owned()
}

/// Returns the bytes written or read over time by the lowest interfaces, from the heat maps of a log.
fn rates(log: &DarshanSummary, written: bool) -> ShownRates {
    let lowest = |name: &str| matches!(name, "POSIX" | "STDIO" | "DFS");
    let mut rates = ShownRates::default();
    for grid in log.heat.iter().filter(|grid| lowest(&grid.module)) {
        if rates.bytes.is_empty() {
            rates = ShownRates {
                step_s: grid.bin_s,
                bytes: vec![0.0; grid.bins],
            };
        }
        if grid.bin_s != rates.step_s {
            continue;
        }
        for row in grid.rows.values() {
            for (to, bytes) in rates.bytes.iter_mut().zip(&row[usize::from(written)]) {
                *to += *bytes as f64;
            }
        }
    }
    if !(rates.step_s.is_finite() && rates.step_s > 0.0) {
        return ShownRates::default();
    }
    let used = rates.bytes.iter().rposition(|bytes| *bytes > 0.0);
    rates.bytes.truncate(used.map_or(0, |last| last + 1));
    rates
}

/// Returns the operations of each rank by the lowest interfaces; none if a record is of all ranks together.
fn processes(log: &DarshanSummary) -> Vec<ShownProcess> {
    let lowest: Vec<&ModuleSummary> = log
        .moved()
        .unwrap_or_default()
        .keys()
        .filter_map(|module| log.module(*module))
        .collect();
    let is_shared = |of: &&ModuleSummary| of.sums.as_ref().is_some_and(|sums| sums.is_shared);
    if lowest.iter().any(is_shared) {
        return Vec::new();
    }
    let mut ranks: BTreeMap<i64, RankTotal> = BTreeMap::new();
    for (rank, of) in lowest.iter().flat_map(|module| &module.ranks) {
        let sum = ranks.entry(*rank).or_default();
        sum.read_bytes = sum.read_bytes.saturating_add(of.read_bytes);
        sum.written_bytes = sum.written_bytes.saturating_add(of.written_bytes);
        sum.time_s += of.time_s;
    }
    let shown = |(rank, of): (i64, RankTotal)| ShownProcess {
        process: format!("rank {rank}"),
        host: None,
        program: None,
        read_bytes: of.read_bytes,
        written_bytes: of.written_bytes,
        time_s: of.time_s,
        last_s: None,
    };
    ranks.into_iter().map(shown).collect()
}

impl TraceDocument {
    /// Replaces files and totals from events by those from the counters of the logs. Events are only a part of the operations, and lack those on
    /// streams.
    #[must_use]
    pub fn with_counters(mut self, logs: &[DarshanSummary], records: CounterRecords) -> Self {
        if logs.is_empty() {
            return self;
        }
        let of_events = std::mem::take(&mut self.files);
        self.files = logs.iter().flat_map(|log| files(log, &of_events)).collect();
        self.event_totals = (self.events > 0).then(|| totals(&of_events));
        let counted: HashSet<&str> = self.files.iter().map(|f| f.path.as_str()).collect();
        let uncounted = |f: &&ShownFile| !counted.contains(f.path.as_str());
        let alone: Vec<ShownFile> = of_events.iter().filter(uncounted).cloned().collect();
        self.files.extend(alone);
        self.files
            .sort_by_key(|f| Reverse(f.reads.bytes.saturating_add(f.writes.bytes)));
        if self.events == 0 {
            let [one] = logs else {
                return self.with_logs(logs, records);
            };
            self.span_s = one
                .job
                .as_ref()
                .and_then(|job| job.run_time_s())
                .unwrap_or(0.0);
            self.processes = processes(one);
            (self.write_rates, self.read_rates) = (rates(one, true), rates(one, false));
        }
        self.with_logs(logs, records)
    }

    fn with_logs(mut self, logs: &[DarshanSummary], records: CounterRecords) -> Self {
        self.logs = logs.iter().map(shown_log).collect();
        (self.records, self.more_records) = (records.shown, records.more);
        self
    }

    /// Returns the sums over all logs by the lowest interfaces. `None`: there are no counters, or none of reads or writes.
    #[must_use]
    pub fn counted(&self) -> Option<LayerTotal> {
        let mut layers = self
            .logs
            .iter()
            .flat_map(|log| log.lowest.values())
            .peekable();
        layers.peek()?;
        Some(LayerTotal::sum(layers))
    }
}

fn totals(files: &[ShownFile]) -> LayerTotal {
    let layers: Vec<LayerTotal> = files
        .iter()
        .map(|f| LayerTotal {
            files: 1,
            reads: f.reads.operations,
            writes: f.writes.operations,
            read_bytes: f.reads.bytes,
            written_bytes: f.writes.bytes,
        })
        .collect();
    LayerTotal::sum(layers.iter())
}
