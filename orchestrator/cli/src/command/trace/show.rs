//! A trace on a terminal.

use crate::text::{paragraph, table};
use cvc_core::units::{counted, duration, size};
use cvc_trace_show::{BurstKind, ShownFile, ShownFinding, TraceDocument, ZoneTimes, severities};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// Files, processes and bursts that are listed at most; JSON has all.
const LISTED: usize = 15;

/// Findings of one code that are listed at most.
const ALIKE: usize = 3;

/// Events, bytes and rhythm.
pub fn in_a_sentence(of: &TraceDocument) -> String {
    let of_run = || of.files.iter().filter(|f| f.of_run);
    let (read, written) =
        of_run().fold((0, 0), |(r, w), f| (r + f.reads.bytes, w + f.writes.bytes));
    let mut sentence = format!(
        "{} on {} by {} in {}: {} written, {} read.",
        counted(of.events, "operation"),
        counted(of_run().count(), "file"),
        counted(of.processes.len(), "process"),
        duration(of.span_s),
        size(written as f64),
        size(read as f64)
    );
    if let Some(rhythm) = &of.rhythm {
        sentence.push(' ');
        sentence.push_str(rhythm);
    }
    sentence.replace("processs", "processes")
}

pub fn show(
    out: &mut impl Write,
    of: &TraceDocument,
    zones: Option<&ZoneTimes>,
    all: bool,
) -> io::Result<()> {
    writeln!(out, "{}", paragraph("", &in_a_sentence(of)))?;
    if of.trace.partial {
        writeln!(
            out,
            "The run did not come to its end: this is what was recorded until then."
        )?;
    }
    for missing in of.missing.iter().take(LISTED) {
        let text = format!("missing: {}: {}", missing.part, missing.problem);
        writeln!(out, "{}", paragraph("", &text))?;
    }
    let more = of.missing.len().saturating_sub(LISTED) as u64 + of.more_missing;
    if more > 0 {
        writeln!(out, "missing: {more} more; --json has the first hundred")?;
    }
    let is_good = |f: &&ShownFinding| f.severity == "good" || f.severity == "info";
    let told: Vec<&ShownFinding> = of.findings.iter().filter(|f| all || !is_good(f)).collect();
    let hides = told.len() < of.findings.len();
    let counts = format!(
        "Findings: {}{}",
        severities(&of.findings),
        if hides { "; --all lists all" } else { "" }
    );
    writeln!(out, "\n{}", paragraph("", &counts))?;
    if !told.is_empty() {
        let mut before: BTreeMap<&str, usize> = BTreeMap::new();
        for finding in told {
            let same = before.entry(finding.code).or_default();
            *same += 1;
            if !all && *same > ALIKE {
                continue;
            }
            let drishti = finding
                .drishti
                .map_or_else(String::new, |code| format!(" (Drishti {code})"));
            let file = finding
                .file
                .as_ref()
                .map_or_else(String::new, |file| format!("{file}: "));
            let text = format!(
                "{} {}{drishti}: {file}{}",
                finding.code, finding.severity, finding.evidence
            );
            writeln!(out, "{}", paragraph("", &text))?;
            if let Some(hint) = finding.hint {
                writeln!(out, "{}", paragraph("  hint: ", hint))?;
            }
        }
        for (code, n) in before.into_iter().filter(|(_, n)| !all && *n > ALIKE) {
            let more = counted((n - ALIKE) as u64, "more file");
            writeln!(out, "{code}: {more}; --all lists them")?;
        }
    }
    let files: Vec<&ShownFile> = of
        .files
        .iter()
        .filter(|f| all || f.of_run && f.reads.operations + f.writes.operations > 0)
        .collect();
    if !files.is_empty() {
        writeln!(out)?;
        let mut rows = table(
            [
                "file",
                "writes",
                "written",
                "MiB/s",
                "writers",
                "pattern of writes",
                "reads",
                "read",
            ],
            &["file", "pattern of writes"],
        );
        for file in files.iter().take(if all { usize::MAX } else { LISTED }) {
            let rate = |r: Option<f64>| r.map_or_else(|| "-".to_owned(), |r| format!("{r:.1}"));
            rows.add_row([
                file.path.clone(),
                file.writes.operations.to_string(),
                size(file.writes.bytes as f64),
                rate(file.writes.bandwidth_mib_s),
                writers(file),
                file.writes.pattern.clone(),
                file.reads.operations.to_string(),
                size(file.reads.bytes as f64),
            ]);
        }
        writeln!(out, "{}", rows.trim_fmt())?;
        if !all && files.len() > LISTED {
            writeln!(
                out,
                "and {} more files; --all lists them",
                files.len() - LISTED
            )?;
        }
    }
    let bursts: Vec<_> = of
        .bursts
        .iter()
        .filter(|b| b.kind == BurstKind::Write)
        .collect();
    if bursts.len() > 1 {
        writeln!(out)?;
        let mut rows = table(
            ["burst of writes", "ends", "writes", "written", "MiB/s"],
            &[],
        );
        for burst in bursts.iter().take(if all { usize::MAX } else { LISTED }) {
            rows.add_row([
                format!("{:.3} s", burst.start_s),
                format!("{:.3} s", burst.end_s),
                burst.operations.to_string(),
                size(burst.bytes as f64),
                burst
                    .bandwidth_mib_s
                    .map_or_else(|| "-".to_owned(), |r| format!("{r:.1}")),
            ]);
        }
        writeln!(out, "{}", rows.trim_fmt())?;
        if !all && bursts.len() > LISTED {
            writeln!(out, "and {} more; --all lists them", bursts.len() - LISTED)?;
        }
    }
    if let Some(zones) = zones {
        show_zones(out, zones)?;
    }
    Ok(())
}

/// How many wrote, and how evenly.
fn writers(file: &ShownFile) -> String {
    match file.written_least_most {
        Some((least, most)) if least < most => {
            format!(
                "{} ({:.0} %)",
                file.writers,
                least as f64 / most as f64 * 100.0
            )
        }
        _ => file.writers.to_string(),
    }
}

fn show_zones(out: &mut impl Write, zones: &ZoneTimes) -> io::Result<()> {
    writeln!(out)?;
    let text = format!(
        "{}, written in {:.3} s; the longest took {:.3} s.",
        counted(zones.images, "image"),
        zones.storage_s,
        zones.longest_s
    );
    writeln!(out, "{}", paragraph("", &text))?;
    for name in &zones.without_writes {
        writeln!(out, "no write of {name} is in the trace")?;
    }
    let mut rows = table(
        [
            "zone",
            "part",
            "writes",
            "bytes",
            "in writes",
            "with pauses",
            "MiB/s",
        ],
        &["part"],
    );
    for zone in &zones.zones {
        rows.add_row([
            zone.zone.clone(),
            zone.part.to_owned(),
            zone.writes.to_string(),
            size(zone.bytes as f64),
            format!("{:.4} s", zone.time_s),
            format!("{:.4} s", zone.elapsed_s),
            zone.bandwidth_mib_s
                .map_or_else(|| "-".to_owned(), |r| format!("{r:.0}")),
        ]);
    }
    writeln!(out, "{}", rows.trim_fmt())
}
