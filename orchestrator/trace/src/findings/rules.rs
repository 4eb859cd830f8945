//! The findings: what is told, from where on, and what to change.

use super::{
    facts::{Facts, FileFacts, MpiIoFacts, PosixFacts, Spread},
    thresholds::Thresholds,
};
use crate::profile::role_of;
use std::collections::BTreeMap;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It is as it should be.
    Good,
    /// To know.
    Info,
    /// It may cost time.
    Warning,
    /// It costs time.
    High,
}

impl Severity {
    /// Its word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::High => "high",
        }
    }
}

/// Something that a trace shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Stable from one version to the next.
    pub code: &'static str,
    /// The same in Drishti, if it has it.
    pub drishti: Option<&'static str>,
    /// How much it matters.
    pub severity: Severity,
    /// The file that it is of; of the whole trace if there is none.
    pub file: Option<String>,
    /// What was seen, with numbers.
    pub evidence: String,
    /// What to change: a factor of campaigns where one changes it.
    pub hint: Option<&'static str>,
}

/// What was asked for, to hold the trace against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Aggregators of collective I/O.
    pub aggregators: Option<usize>,
}

/// Findings, in the order of their codes.
pub fn findings(facts: &Facts, asked: Asked, limits: &Thresholds) -> Vec<Finding> {
    let mut found = Found(Vec::new());
    let mut posix = PosixFacts::default();
    let mut shared = PosixFacts::default();
    let mut mpi_io: Option<MpiIoFacts> = None;
    let mut stdio_bytes = 0;
    for file in &facts.files {
        posix.add(&file.posix);
        if file.is_shared {
            shared.add(&file.posix);
        }
        if let Some(of) = &file.mpi_io {
            mpi_io.get_or_insert_default().add(of);
        }
        stdio_bytes = file.stdio_bytes.saturating_add(stdio_bytes);
    }
    interfaces(
        &mut found,
        facts,
        &posix,
        mpi_io.as_ref(),
        stdio_bytes,
        limits,
    );
    balance(&mut found, &posix, limits);
    sizes(&mut found, &posix, SMALL, limits);
    sizes(&mut found, &shared, SMALL_SHARED, limits);
    alignment(&mut found, &posix, limits);
    again(&mut found, facts);
    places(&mut found, &posix, limits);
    for file in &facts.files {
        processes(&mut found, file, limits);
        writers(&mut found, file, facts, asked, limits);
    }
    if let Some(mpi_io) = &mpi_io {
        collectives(&mut found, mpi_io, limits);
    }
    late_files(&mut found, facts, limits);
    let mut found = found.0;
    found.sort_by(|a, b| a.code.cmp(b.code));
    found
}

struct Found(Vec<Finding>);

impl Found {
    fn add(
        &mut self,
        code: &'static str,
        drishti: Option<&'static str>,
        severity: Severity,
        file: Option<&str>,
        evidence: String,
        hint: Option<&'static str>,
    ) {
        self.0.push(Finding {
            code,
            drishti,
            severity,
            file: file.map(str::to_owned),
            evidence,
            hint,
        });
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
    found: &mut Found,
    facts: &Facts,
    posix: &PosixFacts,
    mpi_io: Option<&MpiIoFacts>,
    stdio_bytes: u64,
    limits: &Thresholds,
) {
    if !facts.has_interfaces {
        return;
    }
    // what went through MPI-IO went through POSIX as well
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
    if of_stdio > limits.interface_stdio {
        found.add(
            "T01",
            Some("S01"),
            Severity::High,
            None,
            format!(
                "{} of all bytes went through streams of the C library",
                percent(of_stdio)
            ),
            Some("streams copy every byte and write in small pieces: use POSIX or MPI-IO for data"),
        );
    }
    if mpi_io.is_none() && facts.processes > 1 {
        found.add(
            "T23",
            Some("M01"),
            Severity::Warning,
            None,
            "no file was opened through MPI-IO".into(),
            Some("where processes share a file, MPI-IO collects their pieces (compare btio-full with btio-simple)"),
        );
    }
}

fn balance(found: &mut Found, posix: &PosixFacts, limits: &Thresholds) {
    let mut told =
        |codes: [(&'static str, &'static str); 2], written: u64, read: u64, what: &str| {
            let all = written.saturating_add(read);
            if share(written.abs_diff(read), all) <= limits.imbalance_operations {
                return;
            }
            let ((code, drishti), word, more) = if written > read {
                (codes[0], "written", written)
            } else {
                (codes[1], "read", read)
            };
            let evidence = format!("{} of all {what} {word}", percent(share(more, all)));
            found.add(code, Some(drishti), Severity::Info, None, evidence, None);
        };
    told(
        [("T02", "P01"), ("T03", "P02")],
        posix.writes,
        posix.reads,
        "operations:",
    );
    told(
        [("T04", "P03"), ("T05", "P04")],
        posix.written_bytes,
        posix.read_bytes,
        "bytes:",
    );
}

/// The codes of small reads and small writes, with those of Drishti.
type Codes = [(&'static str, &'static str, &'static str); 2];

const SMALL: Codes = [("T06", "P05", "reads"), ("T07", "P06", "writes")];
const SMALL_SHARED: Codes = [
    ("T16", "P15", "reads of shared files"),
    ("T17", "P16", "writes to shared files"),
];

fn sizes(found: &mut Found, posix: &PosixFacts, codes: Codes, limits: &Thresholds) {
    let small = [
        (posix.read_sizes.up_to(limits.small_bytes), posix.reads),
        (posix.write_sizes.up_to(limits.small_bytes), posix.writes),
    ];
    for ((code, drishti, what), (few, all)) in codes.into_iter().zip(small) {
        if share(few, all) > limits.small_requests && few > limits.small_requests_absolute {
            let evidence = format!(
                "{few} of {all} {what} ({}) are of at most {} bytes",
                percent(share(few, all)),
                limits.small_bytes
            );
            let hint = "collect pieces before they are written: MPI-IO collectively, with the factors `aggregators` and `cb_buffer`";
            found.add(
                code,
                Some(drishti),
                Severity::High,
                None,
                evidence,
                Some(hint),
            );
        }
    }
}

fn alignment(found: &mut Found, posix: &PosixFacts, limits: &Thresholds) {
    let all = posix.reads.saturating_add(posix.writes);
    for (code, drishti, misaligned, what) in [
        ("T08", "P07", posix.memory_misaligned, "memory"),
        ("T09", "P08", posix.file_misaligned, "places in files"),
    ] {
        let Some(misaligned) = misaligned else {
            continue;
        };
        if share(misaligned, all) > limits.misaligned_requests {
            let evidence = format!(
                "the {what} of {misaligned} of {all} operations ({}) {} not aligned",
                percent(share(misaligned, all)),
                if what == "memory" { "is" } else { "are" }
            );
            let hint = (code == "T09").then_some(
                "write whole blocks of the file system: `cb_buffer` as a multiple of its block or stripe",
            );
            found.add(code, Some(drishti), Severity::High, None, evidence, hint);
        }
    }
}

/// More bytes moved than the file has. (Drishti tells the opposite under these codes: that the highest place lies beyond the number of bytes.)
fn again(found: &mut Found, facts: &Facts) {
    for file in &facts.files {
        let of = &file.posix;
        for (code, bytes, end, what) in [
            ("T10", of.read_bytes, of.read_end, "read"),
            ("T11", of.written_bytes, of.write_end, "written"),
        ] {
            // processes may each read a shared file once
            if end > 0 && bytes > end && !(what == "read" && file.is_shared) {
                let evidence = format!(
                    "{bytes} bytes were {what}, and none lies beyond {end}: {:.1} times each",
                    bytes as f64 / end as f64
                );
                found.add(
                    code,
                    None,
                    Severity::Warning,
                    Some(&file.name),
                    evidence,
                    None,
                );
            }
        }
    }
}

fn places(found: &mut Found, posix: &PosixFacts, limits: &Thresholds) {
    let of = [
        (
            ["T12", "T13"],
            ["P11", "P12"],
            posix.reads,
            posix.sequential_reads,
            "reads",
        ),
        (
            ["T14", "T15"],
            ["P13", "P14"],
            posix.writes,
            posix.sequential_writes,
            "writes",
        ),
    ];
    for (codes, drishti, all, sequential, what) in of {
        if all == 0 {
            continue;
        }
        let random = all.saturating_sub(sequential);
        if share(random, all) > limits.random_operations
            && random > limits.random_operations_absolute
        {
            let evidence = format!(
                "{random} of {all} {what} ({}) lie before the end of the one before",
                percent(share(random, all))
            );
            let hint = "collective I/O writes in the order of the file: the factors `aggregators` and `cb_buffer`";
            found.add(
                codes[0],
                Some(drishti[0]),
                Severity::High,
                None,
                evidence,
                Some(hint),
            );
        } else {
            let evidence = format!(
                "{} of {all} {what} lie at or behind the end of the one before",
                percent(share(sequential, all))
            );
            found.add(
                codes[1],
                Some(drishti[1]),
                Severity::Good,
                None,
                evidence,
                None,
            );
        }
    }
}

fn processes(found: &mut Found, file: &FileFacts, limits: &Thresholds) {
    let name = Some(file.name.as_str());
    if file.metadata_s > limits.metadata_time_rank {
        let evidence = format!(
            "a process spent {:.1} s in operations that move no bytes",
            file.metadata_s
        );
        found.add(
            "T18",
            Some("P17"),
            Severity::High,
            name,
            evidence,
            Some("fewer, larger files, or another `storage`"),
        );
    }
    // the first writes of a run differ by more than anything that could be changed
    let differing = if file.time_s < limits.short_s {
        Severity::Info
    } else {
        Severity::High
    };
    if let Some([(slow_bytes, slow_s), (fast_bytes, fast_s)]) =
        file.slowest_and_fastest.filter(|_| file.is_shared)
    {
        let moved = file
            .posix
            .read_bytes
            .saturating_add(file.posix.written_bytes) as f64;
        if moved > 0.0 && (slow_bytes - fast_bytes).abs() / moved > limits.imbalance_stragglers {
            let evidence = format!(
                "the slowest process moved {slow_bytes:.0} bytes, the fastest {fast_bytes:.0}, of {moved:.0}"
            );
            let hint =
                "more `aggregators` share the work; with collective I/O only aggregators write";
            found.add("T19", Some("P18"), differing, name, evidence, Some(hint));
        }
        if file.time_s > 0.0 && (slow_s - fast_s).abs() / file.time_s > limits.imbalance_stragglers
        {
            let evidence = format!(
                "the slowest process took {slow_s:.3} s, the fastest {fast_s:.3} s, of {:.3} s in all",
                file.time_s
            );
            found.add(
                "T20",
                Some("P19"),
                differing,
                name,
                evidence,
                Some("another `mapping` or more `aggregators`"),
            );
        }
    }
    for (code, drishti, of, word) in [
        ("T21", "P21", file.written_by, "wrote"),
        ("T22", "P22", file.read_by, "read"),
    ] {
        let Some(Spread { least, most, .. }) = of else {
            continue;
        };
        if most > 0.0 && (most - least) / most > limits.imbalance_size {
            let evidence = format!("one process {word} {most:.0} bytes, another {least:.0}");
            found.add(code, Some(drishti), differing, name, evidence, None);
        }
    }
}

fn collectives(found: &mut Found, of: &MpiIoFacts, limits: &Thresholds) {
    for (codes, drishti, collective, independent, what) in [
        (
            ["T24", "T26"],
            ["M02", "M04"],
            of.collective_reads,
            of.independent_reads,
            "reads",
        ),
        (
            ["T25", "T27"],
            ["M03", "M05"],
            of.collective_writes,
            of.independent_writes,
            "writes",
        ),
    ] {
        if collective > 0 {
            let evidence = format!("{collective} collective {what}");
            found.add(
                codes[1],
                Some(drishti[1]),
                Severity::Good,
                None,
                evidence,
                None,
            );
        } else if independent > limits.collective_operations_absolute {
            let evidence =
                format!("{independent} independent {what} through MPI-IO, none collective");
            let hint = "collective calls let aggregators write large pieces (compare btio-full with btio-simple)";
            found.add(
                codes[0],
                Some(drishti[0]),
                Severity::High,
                None,
                evidence,
                Some(hint),
            );
        }
    }
    for (code, drishti, nonblocking, what) in [
        ("T28", "M06", of.nonblocking_reads, "reads"),
        ("T29", "M07", of.nonblocking_writes, "writes"),
    ] {
        // what an application does not do it need not do without waiting
        let any = match what {
            "reads" => of.collective_reads.saturating_add(of.independent_reads),
            _ => of.collective_writes.saturating_add(of.independent_writes),
        };
        if nonblocking == 0 && any > 0 {
            let evidence = format!("all {any} {what} through MPI-IO wait for their end");
            found.add(code, Some(drishti), Severity::Info, None, evidence, None);
        }
    }
}

fn writers(found: &mut Found, file: &FileFacts, facts: &Facts, asked: Asked, limits: &Thresholds) {
    let name = Some(file.name.as_str());
    let is_independent = file
        .mpi_io
        .is_some_and(|of| of.independent_writes > 0 && of.collective_writes == 0);
    if let (Some((callers, writers)), Some(_)) = (file.writers, file.mpi_io)
        && callers > 0
        && writers > 0
        // without collective writes there are no aggregators
        && !is_independent
    {
        let evidence = format!(
            "{callers} processes wrote through MPI-IO, and {writers} of them to the file system"
        );
        let (severity, code, drishti) = match facts.nodes {
            Some(nodes) if writers > nodes => (Severity::Info, "T30", Some("M09")),
            Some(nodes) if writers == nodes => (Severity::Good, "T30", Some("M10")),
            _ => (Severity::Info, "T30", None),
        };
        found.add(
            code,
            drishti,
            severity,
            name,
            evidence,
            Some("the factor `aggregators`"),
        );
        if let Some(wanted) = asked.aggregators
            && wanted != writers
        {
            let evidence = format!("{wanted} aggregators were asked for, and {writers} wrote");
            let hint = "the library did not take the setting: `cvc doctor` and the quirks of MPI libraries say which do";
            found.add("T40", None, Severity::High, name, evidence, Some(hint));
        }
    }
    if let Some((bytes, changes)) = file.shared_extents {
        let of = share(bytes, file.posix.write_end);
        if bytes > 0 && of > limits.shared_bytes {
            let evidence = format!(
                "{bytes} bytes ({} of the file) were written by more than one process",
                percent(of)
            );
            let hint = "with Open MPI try `--mca io romio321`: OMPIO's aggregators can write the same places";
            found.add("T41", None, Severity::Warning, name, evidence, Some(hint));
        }
        let writers = file.writers.map_or(0, |(_, to_files)| to_files);
        if writers > 1 && changes >= 4 * writers {
            let evidence = format!(
                "along the file the writer changes {changes} times between {writers} processes"
            );
            let hint = "processes lock each other's blocks: larger contiguous parts, by `aggregators` and `cb_buffer`";
            found.add("T42", None, Severity::Warning, name, evidence, Some(hint));
        }
    }
}

/// Files of one role, such as the images of a checkpoint, of which the last tenth takes long.
fn late_files(found: &mut Found, facts: &Facts, limits: &Thresholds) {
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
        if all > 0.0 && late / all > limits.late_files {
            let evidence = format!(
                "the last tenth of {} files takes {} of the time of all ({late:.2} of {all:.2} s)",
                times.len(),
                percent(late / all)
            );
            found.add(
                "T43",
                None,
                Severity::Warning,
                Some(&role),
                evidence,
                Some("a slow node or process: another `mapping`, or leave the node out"),
            );
        }
    }
}
