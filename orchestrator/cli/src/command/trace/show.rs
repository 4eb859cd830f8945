//! A trace on a terminal.

use cvc_core::units::{counted, duration, size};
use cvc_show::{Blocks, Table};
use cvc_trace_show::{
    BurstKind, ShownCounts, ShownFile, ShownFinding, ShownLayer, ShownModule, TraceDocument,
    ZoneTimes, severities,
};
use std::collections::{BTreeMap, BTreeSet};

/// Files, processes and bursts that are listed at most; JSON has all.
const LISTED: usize = 15;

/// Findings of one code that are listed at most.
const ALIKE: usize = 3;

/// What moved, and the rhythm.
pub fn in_a_sentence(of: &TraceDocument) -> String {
    let mut sentence = if of.logs.is_empty() {
        of_events(of)
    } else {
        of_counters(of)
    };
    if let Some(rhythm) = &of.rhythm {
        sentence.push(' ');
        sentence.push_str(rhythm);
    }
    sentence.replace("processs", "processes")
}

fn of_events(of: &TraceDocument) -> String {
    let of_run = || of.files.iter().filter(|f| f.of_run);
    let (read, written) = of_run().fold((0_u64, 0_u64), |(r, w), f| {
        (
            r.saturating_add(f.reads.bytes),
            w.saturating_add(f.writes.bytes),
        )
    });
    format!(
        "{} on {} by {} in {}: {} written, {} read.",
        counted(of.events, "operation"),
        counted(of_run().count(), "file"),
        counted(of.processes.len(), "process"),
        duration(of.span_s),
        size(written as f64),
        size(read as f64)
    )
}

/// Totals of the lowest interfaces; then what is counted above them, and which part of it events are.
fn of_counters(of: &TraceDocument) -> String {
    let run_s: Vec<f64> = of.logs.iter().filter_map(|log| log.run_time_s).collect();
    let by = of.trace.ranks.map_or_else(String::new, |ranks| {
        format!(" by {}", counted(ranks, "process"))
    });
    let time = match run_s[..] {
        [] => String::new(),
        _ => format!(
            " in {}",
            duration(run_s.iter().copied().fold(0.0, f64::max))
        ),
    };
    let modules = || of.logs.iter().flat_map(|log| &log.modules);
    let Some(total) = of.counted() else {
        let unread: Vec<String> = modules()
            .filter(|m| m.read == "nothing")
            .map(ShownModule::title)
            .collect();
        let mut text = format!("No module that cvc reads has counted reads or writes{by}{time}");
        if !unread.is_empty() {
            text.push_str(&format!("; the log also has {}", unread.join(", ")));
        }
        return text + ".";
    };
    let paths: BTreeSet<&str> = of.files.iter().map(|f| f.path.as_str()).collect();
    let mut text = format!(
        "{} and {} on {}{by}{time}: {} written, {} read.",
        counted(total.writes, "write"),
        counted(total.reads, "read"),
        counted(paths.len(), "file"),
        size(total.written_bytes as f64),
        size(total.read_bytes as f64)
    );
    let lowest: BTreeMap<&str, ShownLayer> = of.logs.iter().flat_map(|log| &log.lowest).fold(
        BTreeMap::new(),
        |mut all, (name, layer)| {
            let sum = all.entry(*name).or_default();
            *sum = ShownLayer::sum([*sum, *layer].iter());
            all
        },
    );
    let ops = |layer: &ShownLayer| {
        format!(
            "{} and {}",
            counted(layer.writes, "write"),
            counted(layer.reads, "read")
        )
    };
    if lowest.len() > 1 {
        let parts: Vec<String> = lowest
            .iter()
            .map(|(name, layer)| format!("{name} {}", ops(layer)))
            .collect();
        text.push_str(&format!(" By interface: {}.", parts.join("; ")));
    }
    let above: Vec<String> = modules()
        .filter(|m| !lowest.contains_key(m.module.as_str()))
        .filter_map(|m| {
            let of = m.counts.as_ref()?;
            let (writes, reads) = (of.writes?, of.reads?);
            let layer = ShownLayer {
                writes,
                reads,
                ..ShownLayer::default()
            };
            (writes.saturating_add(reads) > 0).then(|| format!("{} {}", m.module, ops(&layer)))
        })
        .collect();
    if !above.is_empty() {
        text.push_str(&format!(
            " The layers above, which are not added: {}.",
            above.join("; ")
        ));
    }
    if let Some(events) = &of.event_totals {
        text.push_str(&of_missing_events(&total, events, lowest.get("STDIO")));
    }
    let incomplete: Vec<&str> = modules()
        .filter(|m| m.partial)
        .map(|m| m.module.as_str())
        .collect();
    if !incomplete.is_empty() {
        text.push_str(&format!(
            " Darshan had no memory for all records of {}: the true numbers are larger.",
            incomplete.join(", ")
        ));
    }
    text
}

/// How the events of a log differ from its counters.
fn of_missing_events(
    total: &ShownLayer,
    events: &ShownLayer,
    streams: Option<&ShownLayer>,
) -> String {
    let mut text = String::new();
    for (what, all, of_events, by_streams) in [
        (
            "writes",
            total.writes,
            events.writes,
            streams.map_or(0, |s| s.writes),
        ),
        (
            "reads",
            total.reads,
            events.reads,
            streams.map_or(0, |s| s.reads),
        ),
    ] {
        if all == of_events {
            continue;
        }
        text.push_str(&format!(
            " {all} {what} are counted, {of_events} of them are events"
        ));
        let by_streams = by_streams.min(all.saturating_sub(of_events));
        if by_streams > 0 {
            text.push_str(&format!(
                "; {by_streams} went through streams, which have no events"
            ));
        }
        let others = all.saturating_sub(of_events).saturating_sub(by_streams);
        if others > 0 {
            text.push_str(&format!("; {others} more have none"));
        }
        text.push('.');
    }
    text
}

pub fn show(out: &mut Blocks, of: &TraceDocument, zones: Option<&ZoneTimes>, all: bool) {
    out.say(in_a_sentence(of));
    if of.trace.partial {
        out.line("The run did not come to its end: this is what was recorded until then.");
    }
    for missing in of.missing.iter().take(LISTED) {
        let text = format!("missing: {}: {}", missing.part, missing.problem);
        out.say(text);
    }
    let more = of.missing.len().saturating_sub(LISTED) as u64 + of.more_missing;
    if more > 0 {
        out.line(format!(
            "missing: {more} more; --json has the first hundred"
        ));
    }
    let is_good = |f: &&ShownFinding| f.severity == "good" || f.severity == "info";
    let told: Vec<&ShownFinding> = of.findings.iter().filter(|f| all || !is_good(f)).collect();
    let hides = told.len() < of.findings.len();
    let counts = format!(
        "Findings: {}{}",
        severities(&of.findings),
        if hides { "; --all lists all" } else { "" }
    );
    out.gap();
    out.say(counts);
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
            out.say(text);
            if let Some(hint) = finding.hint {
                out.item(1, format!("hint: {hint}"));
            }
        }
        for (code, n) in before.into_iter().filter(|(_, n)| !all && *n > ALIKE) {
            let more = counted((n - ALIKE) as u64, "more file");
            out.line(format!("{code}: {more}; --all lists them"));
        }
    }
    show_modules(out, of);
    if all {
        show_records(out, of);
    }
    let files: Vec<&ShownFile> = of
        .files
        .iter()
        .filter(|f| all || f.of_run && f.reads.operations.max(f.writes.operations) > 0)
        .collect();
    if !files.is_empty() {
        out.gap();
        let mut rows = Table::plain([
            "file",
            "writes",
            "written",
            "MiB/s",
            "writers",
            "pattern of writes",
            "reads",
            "read",
        ])
        .wrap(&["file", "pattern of writes"]);
        for file in files.iter().take(if all { usize::MAX } else { LISTED }) {
            let rate = |r: Option<f64>| r.map_or_else(|| "-".to_owned(), |r| format!("{r:.1}"));
            rows.row([
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
        out.table(rows);
        if !all && files.len() > LISTED {
            out.line(format!(
                "and {} more files; --all lists them",
                files.len() - LISTED
            ));
        }
    }
    let bursts: Vec<_> = of
        .bursts
        .iter()
        .filter(|b| b.kind == BurstKind::Write)
        .collect();
    if bursts.len() > 1 {
        out.gap();
        let mut rows = Table::plain(["burst of writes", "ends", "writes", "written", "MiB/s"]);
        for burst in bursts.iter().take(if all { usize::MAX } else { LISTED }) {
            rows.row([
                format!("{:.3} s", burst.start_s),
                format!("{:.3} s", burst.end_s),
                burst.operations.to_string(),
                size(burst.bytes as f64),
                burst
                    .bandwidth_mib_s
                    .map_or_else(|| "-".to_owned(), |r| format!("{r:.1}")),
            ]);
        }
        out.table(rows);
        if !all && bursts.len() > LISTED {
            out.line(format!(
                "and {} more; --all lists them",
                bursts.len() - LISTED
            ));
        }
    }
    if let Some(zones) = zones {
        show_zones(out, zones);
    }
}

/// How many wrote, and how evenly.
fn writers(file: &ShownFile) -> String {
    match file.written_least_most {
        Some((least, most)) if least < most => {
            format!(
                "{} ({:.0} %)",
                file.writers.unwrap_or(0),
                least as f64 / most as f64 * 100.0
            )
        }
        _ => file
            .writers
            .map_or_else(|| "-".to_owned(), |n| n.to_string()),
    }
}

fn cell<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

/// Numbers of a module or record as cells.
fn counts(of: &ShownCounts) -> [String; 9] {
    let count = |n: Option<u64>| cell(n, |n| n.to_string());
    let bytes = |n: Option<u64>| cell(n, |n| size(n as f64));
    let time = |s: Option<f64>| cell(s, |s| format!("{s:.3}"));
    [
        count(of.opens),
        count(of.writes),
        bytes(of.written_bytes),
        count(of.reads),
        bytes(of.read_bytes),
        time(of.write_s),
        time(of.read_s),
        time(of.meta_s),
        of.common_sizes
            .iter()
            .map(|(bytes, _)| bytes.to_string())
            .collect::<Vec<_>>()
            .join(" "),
    ]
}

/// Columns of [`counts`].
const COUNTS: [&str; 9] = [
    "opens",
    "writes",
    "written",
    "reads",
    "read",
    "write s",
    "read s",
    "other s",
    "common sizes",
];

/// What each module counted. These are layers: the same bytes can be in several.
fn show_modules(out: &mut Blocks, of: &TraceDocument) {
    if of.logs.is_empty() {
        return;
    }
    out.gap();
    let head: Vec<&str> = ["module", "files"]
        .into_iter()
        .chain(COUNTS)
        .chain(["MiB/s"])
        .collect();
    let mut rows = Table::plain(head.clone()).wrap(&["module", "common sizes"]);
    for module in of.logs.iter().flat_map(|log| &log.modules) {
        let mut row = vec![module.title()];
        match &module.counts {
            Some(of) => {
                row.push(module.files.to_string());
                row.extend(counts(of));
                row.push(cell(module.bandwidth_mib_s, |r| format!("{r:.1}")));
            }
            None => row.resize(head.len(), String::new()),
        }
        rows.row(row);
    }
    out.table(rows);
}

/// What was counted for each file and rank.
fn show_records(out: &mut Blocks, of: &TraceDocument) {
    if of.records.is_empty() {
        return;
    }
    out.gap();
    let head = ["record", "module", "rank"].into_iter().chain(COUNTS);
    let mut rows =
        Table::plain(head.collect::<Vec<_>>()).wrap(&["record", "module", "common sizes"]);
    for record in &of.records {
        let rank = record
            .rank
            .map_or_else(|| "all".to_owned(), |rank| rank.to_string());
        let mut row = vec![record.file.clone(), record.module.to_owned(), rank];
        row.extend(counts(&record.counts));
        rows.row(row);
    }
    out.table(rows);
    if of.more_records > 0 {
        out.line(format!(
            "and {} more records; --csv has all",
            of.more_records
        ));
    }
}

fn show_zones(out: &mut Blocks, zones: &ZoneTimes) {
    out.gap();
    let text = format!(
        "{}, written in {:.3} s; the longest took {:.3} s.",
        counted(zones.images, "image"),
        zones.storage_s,
        zones.longest_s
    );
    out.say(text);
    for name in &zones.without_writes {
        out.line(format!("no write of {name} is in the trace"));
    }
    let mut rows = Table::plain([
        "zone",
        "part",
        "writes",
        "bytes",
        "in writes",
        "with pauses",
        "MiB/s",
    ])
    .wrap(&["part"]);
    for zone in &zones.zones {
        rows.row([
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
    out.table(rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(writes: u64, reads: u64) -> ShownLayer {
        ShownLayer {
            writes,
            reads,
            ..ShownLayer::default()
        }
    }

    #[test]
    fn events_that_differ_from_counters_are_explained() {
        let text = of_missing_events(&layer(435, 9), &layer(399, 9), Some(&layer(36, 0)));
        assert_eq!(
            text,
            " 435 writes are counted, 399 of them are events; 36 went through streams, which have no events."
        );
        let text = of_missing_events(&layer(10, 0), &layer(7, 0), None);
        assert_eq!(
            text,
            " 10 writes are counted, 7 of them are events; 3 more have none."
        );
        let most = layer(u64::MAX, u64::MAX);
        assert!(of_missing_events(&most, &layer(0, 1), Some(&most)).contains("streams"));
    }
}
