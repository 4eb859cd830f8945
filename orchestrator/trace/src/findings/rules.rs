//! The rules that derive findings, and the recommended changes.

use super::{
    facts::{FileFacts, MpiIoFacts, PosixFacts, RankSpread, TraceFacts},
    thresholds::Thresholds,
};
use crate::profile::role_of;
use serde::Serialize;
use std::collections::BTreeMap;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing to change.
    Good,
    /// For information only.
    Info,
    /// May cost time.
    Warning,
    /// Costs time.
    #[serde(rename = "critical")]
    High,
}

impl Severity {
    /// Returns the word used in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::High => "critical",
        }
    }
}

/// A finding about a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Code of the finding; stable between versions.
    pub code: &'static str,
    /// Drishti's code for the same finding, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drishti: Option<&'static str>,
    /// Its severity.
    pub severity: Severity,
    /// The file; `None` if the finding concerns the whole trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The evidence, including numbers.
    pub evidence: String,
    /// The recommended change; for the trace of a campaign it names the factor to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
}

/// Settings that the run requested, to compare with the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestedSettings {
    /// Requested number of aggregators for collective I/O.
    pub aggregators: Option<usize>,
    /// Whether the trace is of a campaign, so that hints can name its factors.
    pub in_campaign: bool,
}

/// Returns the findings, sorted by code.
pub fn findings(facts: &TraceFacts, asked: RequestedSettings, limits: &Thresholds) -> Vec<Finding> {
    let mut posix = PosixFacts::default();
    let mut shared = PosixFacts::default();
    let mut mpi_io: Option<MpiIoFacts> = None;
    let (mut stdio_bytes, mut time_s) = (0, 0.0);
    for file in &facts.files {
        posix.add(&file.posix);
        if file.is_shared {
            shared.add(&file.posix);
        }
        if let Some(of) = &file.mpi_io {
            mpi_io.get_or_insert_default().add(of);
        }
        stdio_bytes = file.stdio_bytes.saturating_add(stdio_bytes);
        time_s += file.time_s;
    }
    let mut found = FindingList {
        all: Vec::new(),
        asked,
        limits,
        bytes: moved(&posix).max(mpi_io.map_or(0.0, |of| of.bytes as f64)) + stdio_bytes as f64,
        time_s,
    };
    interfaces(&mut found, facts, &posix, mpi_io.as_ref(), stdio_bytes);
    balance(&mut found, &posix);
    sizes(&mut found, &posix, SMALL);
    sizes(&mut found, &shared, SMALL_SHARED);
    alignment(&mut found, &posix);
    again(&mut found, facts);
    places(&mut found, &posix);
    for file in &facts.files {
        processes(&mut found, file);
        writers(&mut found, file, facts);
    }
    if let Some(mpi_io) = &mpi_io {
        collectives(&mut found, mpi_io);
    }
    late_files(&mut found, facts);
    let mut found = found.all;
    found.sort_by(|a, b| a.code.cmp(b.code));
    found
}

/// The findings so far, and the bytes and seconds of the whole trace. The severity of a finding depends on its share of these.
struct FindingList<'a> {
    all: Vec<Finding>,
    asked: RequestedSettings,
    limits: &'a Thresholds,
    bytes: f64,
    time_s: f64,
}

impl FindingList<'_> {
    fn add(
        &mut self,
        (code, drishti): (&'static str, Option<&'static str>),
        severity: Severity,
        file: Option<&str>,
        evidence: String,
        hint: Option<&'static str>,
    ) {
        self.all.push(Finding {
            code,
            drishti,
            severity,
            file: file.map(str::to_owned),
            evidence,
            hint,
        });
    }

    /// Returns the severity of a finding that concerns this many bytes and seconds. If both are negligible within the trace, it is at most `Info`.
    fn weigh(&self, severity: Severity, bytes: f64, time_s: f64) -> Severity {
        let limits = self.limits;
        let few = bytes < limits.stake_share * self.bytes || bytes < limits.stake_bytes as f64;
        let short = time_s < limits.stake_share * self.time_s || time_s < limits.short_s;
        if few && short {
            severity.min(Severity::Info)
        } else {
            severity
        }
    }

    /// Returns the general hint, or the one for a campaign.
    fn hint(&self, general: &'static str, in_campaign: &'static str) -> Option<&'static str> {
        Some(if self.asked.in_campaign {
            in_campaign
        } else {
            general
        })
    }
}

fn moved(posix: &PosixFacts) -> f64 {
    posix.read_bytes.saturating_add(posix.written_bytes) as f64
}

/// Formats bytes for display, such as `240 bytes`, `1 MiB`, `67.5 KiB`.
pub(crate) fn size(bytes: f64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match (unit, value) {
        (0, 1.0) => "1 byte".to_owned(),
        (0, _) => format!("{value:.0} bytes"),
        (_, value) if value.fract() == 0.0 => format!("{value:.0} {}", units[unit]),
        (_, value) => format!("{value:.1} {}", units[unit]),
    }
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 {
        0.0
    } else {
        part as f64 / all as f64
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn interfaces(
    found: &mut FindingList<'_>,
    facts: &TraceFacts,
    posix: &PosixFacts,
    mpi_io: Option<&MpiIoFacts>,
    stdio_bytes: u64,
) {
    if !facts.has_interfaces {
        return;
    }
    // bytes moved through MPI-IO were also moved through POSIX
    let through_posix = posix.read_bytes.saturating_add(posix.written_bytes);
    let through_mpi = mpi_io.map_or(0, |of| of.bytes);
    let alone = if through_posix >= through_mpi {
        through_posix - through_mpi
    } else {
        through_posix
    };
    let of_stdio = share(
        stdio_bytes,
        stdio_bytes
            .saturating_add(alone)
            .saturating_add(through_mpi),
    );
    if of_stdio > found.limits.interface_stdio {
        found.add(
            ("T01", Some("S01")),
            found.weigh(Severity::High, stdio_bytes as f64, 0.0),
            None,
            format!(
                "{} of all bytes ({}) went through streams of the C library",
                percent(of_stdio),
                size(stdio_bytes as f64)
            ),
            Some("streams copy every byte and write in small pieces: use POSIX or MPI-IO for data"),
        );
    }
    if mpi_io.is_none() && facts.processes > 1 {
        let of = |file: &FileFacts| file.is_shared;
        let shared: Vec<&FileFacts> = facts.files.iter().filter(|file| of(file)).collect();
        let bytes: f64 = shared.iter().map(|file| moved(&file.posix)).sum();
        let time_s: f64 = shared.iter().map(|file| file.time_s).sum();
        found.add(
            ("T23", Some("M01")),
            found.weigh(Severity::Warning, bytes, time_s),
            None,
            format!(
                "no file was opened through MPI-IO, by {} processes that share {} of {} files",
                facts.processes,
                shared.len(),
                facts.files.len()
            ),
            (!shared.is_empty())
                .then_some("where processes share a file, MPI-IO can collect their pieces"),
        );
    }
}

fn balance(found: &mut FindingList<'_>, posix: &PosixFacts) {
    for (codes, written, read, what) in [
        (
            [("T02", "P01"), ("T03", "P02")],
            posix.writes,
            posix.reads,
            "operations:",
        ),
        (
            [("T04", "P03"), ("T05", "P04")],
            posix.written_bytes,
            posix.read_bytes,
            "bytes:",
        ),
    ] {
        let all = written.saturating_add(read);
        if share(written.abs_diff(read), all) <= found.limits.imbalance_operations {
            continue;
        }
        let ((code, drishti), word, more) = if written > read {
            (codes[0], "written", written)
        } else {
            (codes[1], "read", read)
        };
        let evidence = format!("{} of all {what} {word}", percent(share(more, all)));
        found.add((code, Some(drishti)), Severity::Info, None, evidence, None);
    }
}

/// For findings about small reads and about small writes: cvc's code, Drishti's code, and the words that name the operations.
type Codes = [(&'static str, &'static str, &'static str); 2];

const SMALL: Codes = [("T06", "P05", "reads"), ("T07", "P06", "writes")];
const SMALL_SHARED: Codes = [
    ("T16", "P15", "reads of shared files"),
    ("T17", "P16", "writes to shared files"),
];

fn sizes(found: &mut FindingList<'_>, posix: &PosixFacts, codes: Codes) {
    let limit = found.limits.small_bytes;
    let all_operations = posix.reads.saturating_add(posix.writes);
    let small = [
        (posix.read_sizes.up_to(limit), posix.reads, posix.read_bytes),
        (
            posix.write_sizes.up_to(limit),
            posix.writes,
            posix.written_bytes,
        ),
    ];
    for ((code, drishti, what), (few, all, bytes)) in codes.into_iter().zip(small) {
        if share(few, all) <= found.limits.small_requests
            || few <= found.limits.small_requests_absolute
        {
            continue;
        }
        let mean = size((bytes as f64 / all as f64).round());
        let (limit_words, head) = (
            size(limit as f64),
            format!(
                "{few} of {all} {what} ({}) are small",
                percent(share(few, all))
            ),
        );
        let evidence = if few == all {
            format!("{head}: {mean} on average, limit {limit_words}")
        } else {
            format!("{head}, limit {limit_words}; all have {mean} on average")
        };
        let stake = (bytes as f64).min(few as f64 * limit as f64);
        let time_s = found.time_s * share(few, all_operations);
        found.add(
            (code, Some(drishti)),
            found.weigh(Severity::High, stake, time_s),
            None,
            evidence,
            found.hint(
                "collect pieces before they are moved: a larger buffer, or collective MPI-IO (`cb_nodes`, `cb_buffer_size`)",
                "collect pieces before they are moved: MPI-IO collectively, with the factors `aggregators` and `cb_buffer`",
            ),
        );
    }
}

fn alignment(found: &mut FindingList<'_>, posix: &PosixFacts) {
    let all = posix.reads.saturating_add(posix.writes);
    for (code, drishti, misaligned, what) in [
        (
            "T08",
            "P07",
            posix.memory_misaligned,
            "use memory that is not aligned",
        ),
        (
            "T09",
            "P08",
            posix.file_misaligned,
            "start at unaligned offsets",
        ),
    ] {
        let Some(misaligned) = misaligned else {
            continue;
        };
        let part = share(misaligned, all);
        if part > found.limits.misaligned_requests {
            let evidence = format!(
                "{misaligned} of {all} operations ({}) {what}",
                percent(part)
            );
            let hint = found.hint(
                "write whole blocks of the file system: sizes and offsets as multiples of its block or stripe",
                "write whole blocks of the file system: `cb_buffer` as a multiple of its block or stripe",
            );
            found.add(
                (code, Some(drishti)),
                found.weigh(Severity::High, moved(posix) * part, found.time_s * part),
                None,
                evidence,
                hint.filter(|_| code == "T09"),
            );
        }
    }
}

/// Reports files of which more bytes were moved than lie below the highest offset, so that bytes were moved repeatedly. (Under these codes Drishti
/// reports the opposite: a highest offset beyond the bytes moved.)
fn again(found: &mut FindingList<'_>, facts: &TraceFacts) {
    for file in &facts.files {
        let of = &file.posix;
        for (code, bytes, end, what) in [
            ("T10", of.read_bytes, of.read_end, "read"),
            ("T11", of.written_bytes, of.write_end, "written"),
        ] {
            // each process may read a shared file once
            if end > 0 && bytes > end && !(what == "read" && file.is_shared) {
                let evidence = format!(
                    "{} were {what} within the first {}: each byte {:.1} times on average",
                    size(bytes as f64),
                    size(end as f64),
                    bytes as f64 / end as f64
                );
                let more = (bytes - end) as f64;
                let time_s = file.time_s * more / moved(of).max(1.0);
                let severity = found.weigh(Severity::Warning, more, time_s);
                found.add((code, None), severity, Some(&file.name), evidence, None);
            }
        }
    }
}

fn places(found: &mut FindingList<'_>, posix: &PosixFacts) {
    let all_operations = posix.reads.saturating_add(posix.writes);
    let of = [
        (
            [("T12", Some("P11")), ("T13", Some("P12"))],
            (posix.reads, posix.sequential_reads, posix.read_bytes),
            "reads",
        ),
        (
            [("T14", Some("P13")), ("T15", Some("P14"))],
            (posix.writes, posix.sequential_writes, posix.written_bytes),
            "writes",
        ),
    ];
    for (codes, (all, sequential, bytes), what) in of {
        if all == 0 {
            continue;
        }
        let random = all.saturating_sub(sequential);
        let part = share(random, all);
        if part > found.limits.random_operations && random > found.limits.random_operations_absolute
        {
            let evidence = format!(
                "{random} of {all} {what} ({}) start before the end of the previous one",
                percent(part)
            );
            let hint = found.hint(
                "sort the pieces of a file, or let collective MPI-IO do it",
                "collective I/O writes in the order of the file: the factors `aggregators` and `cb_buffer`",
            );
            let time_s = found.time_s * share(random, all_operations);
            let severity = found.weigh(Severity::High, bytes as f64 * part, time_s);
            found.add(codes[0], severity, None, evidence, hint);
        } else {
            let evidence = format!(
                "{} of {all} {what} start at or after the end of the previous one",
                percent(share(sequential, all))
            );
            found.add(codes[1], Severity::Good, None, evidence, None);
        }
    }
}

fn processes(found: &mut FindingList<'_>, file: &FileFacts) {
    let limits = found.limits;
    let name = Some(file.name.as_str());
    if file.metadata_s > limits.metadata_time_rank {
        let evidence = format!(
            "a process spent {:.1} s in operations that move no bytes",
            file.metadata_s
        );
        let hint = found.hint(
            "fewer, larger files, or storage whose metadata is faster",
            "fewer, larger files, or another `storage`",
        );
        found.add(("T18", Some("P17")), Severity::High, name, evidence, hint);
    }
    // if all calls on the file take less than `short_s`, the first writes of a run vary more than any setting could change
    let weigh =
        |found: &FindingList<'_>, bytes: f64, time_s: f64| match file.time_s < limits.short_s {
            true => Severity::Info,
            false => found.weigh(Severity::High, bytes, time_s),
        };
    if let Some([(slow_bytes, slow_s), (fast_bytes, fast_s)]) =
        file.slowest_and_fastest.filter(|_| file.is_shared)
    {
        let all = moved(&file.posix);
        let (bytes, time_s) = ((slow_bytes - fast_bytes).abs(), (slow_s - fast_s).abs());
        let severity = weigh(found, bytes, time_s);
        if all > 0.0 && bytes / all > limits.imbalance_stragglers {
            let evidence = format!(
                "the slowest process moved {}, the fastest {}, of {}",
                size(slow_bytes),
                size(fast_bytes),
                size(all)
            );
            let hint = found.hint(
                "give processes equal parts; with collective I/O only aggregators write (`cb_nodes`)",
                "more `aggregators` share the work; with collective I/O only aggregators write",
            );
            found.add(("T19", Some("P18")), severity, name, evidence, hint);
        }
        if file.time_s > 0.0 && time_s / file.time_s > limits.imbalance_stragglers {
            let evidence = format!(
                "the slowest process took {slow_s:.3} s, the fastest {fast_s:.3} s, of {:.3} s in all",
                file.time_s
            );
            let hint = found.hint(
                "place the processes that write on other nodes, or let more of them write",
                "another `mapping` or more `aggregators`",
            );
            found.add(("T20", Some("P19")), severity, name, evidence, hint);
        }
    }
    for (codes, of, word) in [
        (("T21", Some("P21")), file.written_by, "wrote"),
        (("T22", Some("P22")), file.read_by, "read"),
    ] {
        let Some(RankSpread { least, most, .. }) = of else {
            continue;
        };
        if most > 0.0 && (most - least) / most > limits.imbalance_size {
            let evidence = format!("one process {word} {}, another {}", size(most), size(least));
            let severity = weigh(found, most - least, file.time_s);
            found.add(codes, severity, name, evidence, None);
        }
    }
}

fn collectives(found: &mut FindingList<'_>, of: &MpiIoFacts) {
    for (none, some, collective, independent, what) in [
        (
            ("T24", Some("M02")),
            ("T26", Some("M04")),
            of.collective_reads,
            of.independent_reads,
            "reads",
        ),
        (
            ("T25", Some("M03")),
            ("T27", Some("M05")),
            of.collective_writes,
            of.independent_writes,
            "writes",
        ),
    ] {
        if collective > 0 {
            let evidence = format!("{collective} collective {what}");
            found.add(some, Severity::Good, None, evidence, None);
        } else if independent > found.limits.collective_operations_absolute {
            let evidence =
                format!("{independent} independent {what} through MPI-IO, none collective");
            let hint =
                "collective calls (`MPI_File_write_at_all`, ...) let aggregators move large pieces";
            let severity = found.weigh(Severity::High, of.bytes as f64, found.time_s);
            found.add(none, severity, None, evidence, Some(hint));
        }
    }
    for (codes, nonblocking, any, what) in [
        (
            ("T28", Some("M06")),
            of.nonblocking_reads,
            of.collective_reads.saturating_add(of.independent_reads),
            "reads",
        ),
        (
            ("T29", Some("M07")),
            of.nonblocking_writes,
            of.collective_writes.saturating_add(of.independent_writes),
            "writes",
        ),
    ] {
        // if the application does not use an operation, it needs no non-blocking variant
        if nonblocking == 0 && any > 0 {
            let evidence = format!("all {any} {what} through MPI-IO wait for their end");
            found.add(codes, Severity::Info, None, evidence, None);
        }
    }
}

fn writers(found: &mut FindingList<'_>, file: &FileFacts, facts: &TraceFacts) {
    let name = Some(file.name.as_str());
    let is_independent = file
        .mpi_io
        .is_some_and(|of| of.independent_writes > 0 && of.collective_writes == 0);
    if let (Some((callers, writers)), Some(_)) = (file.writers, file.mpi_io)
        && callers > 0
        && writers > 0
        // aggregators exist only for collective writes
        && !is_independent
    {
        let evidence = format!(
            "{callers} processes wrote through MPI-IO, and {writers} of them to the file system"
        );
        let (severity, drishti) = match facts.nodes {
            Some(nodes) if writers > nodes => (Severity::Info, Some("M09")),
            Some(nodes) if writers == nodes => (Severity::Good, Some("M10")),
            _ => (Severity::Info, None),
        };
        let hint = found.hint("`cb_nodes` sets how many", "the factor `aggregators`");
        found.add(("T30", drishti), severity, name, evidence, hint);
        if let Some(wanted) = found.asked.aggregators
            && wanted != writers
        {
            let evidence = format!("{wanted} aggregators were requested, and {writers} wrote");
            let hint = found.hint(
                "the MPI library did not take the setting",
                "the library did not take the setting: `cvc doctor` and the quirks of MPI libraries say which do",
            );
            found.add(("T40", None), Severity::High, name, evidence, hint);
        }
    }
    if let Some((bytes, changes)) = file.shared_extents {
        let of = share(bytes, file.posix.write_end);
        if bytes > 0 && of > found.limits.shared_bytes {
            let evidence = format!(
                "{} ({} of the file) were written by more than one process",
                size(bytes as f64),
                percent(of)
            );
            let hint = "with Open MPI try `--mca io romio321`: OMPIO's aggregators can write the same places";
            let severity = found.weigh(Severity::Warning, bytes as f64, file.time_s * of);
            found.add(("T41", None), severity, name, evidence, Some(hint));
        }
        let writers = file.writers.map_or(0, |(_, to_files)| to_files);
        if writers > 1 && changes >= 4 * writers {
            let evidence = format!(
                "along the file the writer changes {changes} times between {writers} processes"
            );
            let hint = found.hint(
                "processes lock each other's blocks: give each larger contiguous parts",
                "processes lock each other's blocks: larger contiguous parts, by `aggregators` and `cb_buffer`",
            );
            let bytes = file.posix.written_bytes as f64;
            let severity = found.weigh(Severity::Warning, bytes, file.time_s);
            found.add(("T42", None), severity, name, evidence, hint);
        }
    }
}

/// Reports a role (files with the same purpose, such as the images of a checkpoint) if completing the last tenth of its files takes a large share of
/// the time for all of them.
fn late_files(found: &mut FindingList<'_>, facts: &TraceFacts) {
    let mut roles: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for file in &facts.files {
        if let Some(of) = file.written_s {
            roles.entry(role_of(&file.name)).or_default().push(of);
        }
    }
    for (role, mut times) in roles {
        if times.len() < 10 {
            continue;
        }
        times.sort_by(|a, b| a.1.total_cmp(&b.1));
        let start = times.iter().map(|t| t.0).fold(f64::INFINITY, f64::min);
        let all = times[times.len() - 1].1 - start;
        let late = times[times.len() - 1].1 - times[times.len() * 9 / 10 - 1].1;
        if all > 0.0 && late / all > found.limits.late_files {
            let evidence = format!(
                "the last tenth of {} files takes {} of the time of all ({late:.2} of {all:.2} s)",
                times.len(),
                percent(late / all)
            );
            let hint = found.hint(
                "look for a slow node or process",
                "a slow node or process: another `mapping`, or leave the node out",
            );
            let severity = match late < found.limits.short_s {
                true => Severity::Info,
                false => Severity::Warning,
            };
            found.add(("T43", None), severity, Some(&role), evidence, hint);
        }
    }
}
