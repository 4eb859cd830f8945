//! Prints the description of a trace.

use cvc_core::units::{counted, duration, size};
use cvc_show::{Blocks, Table, or_dash};
use cvc_trace::document::{
    BurstKind, ShownCounts, ShownFile, ShownModule, TraceDocument, severities,
};
use cvc_trace::findings::{Finding, Severity};
use cvc_trace::{LayerTotal, ZoneTimes};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of files, processes and bursts listed; JSON has all.
const LISTED: usize = 15;

/// Maximum number of findings listed that have the same finding code.
const ALIKE: usize = 3;

/// Summarizes a trace in a sentence: operations, bytes, and the rhythm of bursts.
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

/// Summarizes a log's counters: totals at the lowest interfaces, counts at the interfaces above, differences between events and totals, and
/// incomplete modules.
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
    let lowest: BTreeMap<&str, LayerTotal> = of.logs.iter().flat_map(|log| &log.lowest).fold(
        BTreeMap::new(),
        |mut all, (name, layer)| {
            let sum = all.entry(*name).or_default();
            *sum = LayerTotal::sum([*sum, *layer].iter());
            all
        },
    );
    let ops = |layer: &LayerTotal| {
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
            let layer = LayerTotal {
                writes,
                reads,
                ..LayerTotal::default()
            };
            (writes.saturating_add(reads) > 0).then(|| format!("{} {}", m.module, ops(&layer)))
        })
        .collect();
    if !above.is_empty() {
        text.push_str(&format!(
            " The layers above, not added: {}.",
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
            " Darshan ran out of memory for records of {}: the true numbers are larger.",
            incomplete.join(", ")
        ));
    }
    text
}

/// Describes how the events of a log differ from its counters.
fn of_missing_events(
    total: &LayerTotal,
    events: &LayerTotal,
    streams: Option<&LayerTotal>,
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
    let limit = if all { usize::MAX } else { LISTED };
    out.say(in_a_sentence(of));
    if of.trace.partial {
        out.line("The run did not finish: this is the record until then.");
    }
    for missing in of.missing.iter().take(LISTED) {
        out.say(format!("missing: {}: {}", missing.part, missing.problem));
    }
    let more = of.missing.len().saturating_sub(LISTED) as u64 + of.more_missing;
    if more > 0 {
        out.line(format!(
            "missing: {more} more; --json has the first hundred"
        ));
    }
    show_findings(out, &of.findings, all);
    show_modules(out, of);
    if all {
        show_records(out, of);
    }
    show_files(out, of, limit);
    let bursts = of.bursts.iter();
    let bursts: Vec<_> = bursts.filter(|b| b.kind == BurstKind::Write).collect();
    if bursts.len() > 1 {
        let rows = Table::of(
            bursts,
            &[
                ("burst of writes", &|b| format!("{:.3} s", b.start_s)),
                ("ends", &|b| format!("{:.3} s", b.end_s)),
                ("writes", &|b| b.operations.to_string()),
                ("written", &|b| size(b.bytes as f64)),
                ("MiB/s", &|b| rate(b.bandwidth_mib_s)),
            ],
        );
        out.gap();
        out.first_rows(rows, limit, |n| format!("and {n} more; --all lists them"));
    }
    show_orders(out, of, limit);
    if let Some(zones) = zones {
        show_zones(out, zones);
    }
}

/// Prints the sequences of reads and writes; a sequence of one operation is left out.
fn show_orders(out: &mut Blocks, of: &TraceDocument, limit: usize) {
    let several = of.orders.iter().filter(|of| of.operations > 1);
    let rows = Table::of(
        several,
        &[
            ("order of operations", &|of| of.role.clone()),
            ("processes", &|of| names(&of.processes)),
            ("each", &|of| of.operations.to_string()),
            ("what each does", &|of| of.words.clone()),
        ],
    );
    if !rows.rows.is_empty() {
        out.gap();
        let rows = rows.wrap(&["order of operations", "processes", "what each does"]);
        out.first_rows(rows, limit, |n| format!("and {n} more; --all lists them"));
    }
    if of.orders_left_out > 0 {
        out.line(format!(
            "the order of {} of further processes and files was not checked",
            counted(of.orders_left_out, "operation")
        ));
    }
}

/// Returns the name of a single process, or the number of processes with the first name.
fn names(processes: &[String]) -> String {
    match processes {
        [one] => one.clone(),
        [first, ..] => format!("{} ({first}, …)", processes.len()),
        [] => String::new(),
    }
}

fn show_findings(out: &mut Blocks, findings: &[Finding], all: bool) {
    let shown = findings.iter();
    let shown: Vec<&Finding> = shown
        .filter(|f| all || f.severity >= Severity::Warning)
        .collect();
    let hint = match shown.len() < findings.len() {
        true => "; --all lists all",
        false => "",
    };
    out.gap();
    out.say(format!("Findings: {}{hint}", severities(findings)));
    let mut before: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in shown {
        let same = before.entry(finding.code).or_default();
        *same += 1;
        if !all && *same > ALIKE {
            continue;
        }
        let mut text = format!("{} {}", finding.code, finding.severity.word());
        if let Some(code) = finding.drishti {
            text += &format!(" (Drishti {code})");
        }
        if let Some(file) = &finding.file {
            text += &format!(": {file}");
        }
        out.say(format!("{text}: {}", finding.evidence));
        if let Some(hint) = finding.hint {
            out.item(1, format!("hint: {hint}"));
        }
    }
    for (code, n) in before.into_iter().filter(|(_, n)| !all && *n > ALIKE) {
        let more = counted((n - ALIKE) as u64, "more file");
        out.line(format!("{code}: {more}; --all lists them"));
    }
}

fn show_files(out: &mut Blocks, of: &TraceDocument, limit: usize) {
    let is_shown = |f: &&ShownFile| {
        limit == usize::MAX || f.of_run && f.reads.operations.max(f.writes.operations) > 0
    };
    let rows = Table::of(
        of.files.iter().filter(is_shown),
        &[
            ("file", &|f| f.path.clone()),
            ("writes", &|f| f.writes.operations.to_string()),
            ("written", &|f| size(f.writes.bytes as f64)),
            ("MiB/s", &|f| rate(f.writes.bandwidth_mib_s)),
            ("writers", &|f| writers(f)),
            ("pattern of writes", &|f| f.writes.pattern.clone()),
            ("reads", &|f| f.reads.operations.to_string()),
            ("read", &|f| size(f.reads.bytes as f64)),
        ],
    );
    if !rows.rows.is_empty() {
        out.gap();
        let rows = rows.wrap(&["file", "pattern of writes"]);
        out.first_rows(rows, limit, |n| {
            format!("and {n} more files; --all lists them")
        });
    }
}

/// Formats a rate in MiB/s.
fn rate(mib_s: Option<f64>) -> String {
    or_dash(mib_s, |r| format!("{r:.1}"))
}

/// Formats the number of writers. If they wrote different volumes, adds the smallest volume of a writer in percent of the largest.
fn writers(file: &ShownFile) -> String {
    match file.written_least_most {
        Some((least, most)) if least < most => {
            format!(
                "{} ({:.0} %)",
                file.writers.unwrap_or(0),
                least as f64 / most as f64 * 100.0
            )
        }
        _ => or_dash(file.writers, |n| n.to_string()),
    }
}

/// Formats the counters of a module or a record as cells.
fn counts(of: &ShownCounts) -> [String; 9] {
    let count = |n: Option<u64>| or_dash(n, |n| n.to_string());
    let bytes = |n: Option<u64>| or_dash(n, |n| size(n as f64));
    let time = |s: Option<f64>| or_dash(s, |s| format!("{s:.3}"));
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

/// Headings for [`counts`].
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

/// Prints the counters of each module. Modules are layers, so the same bytes can count in several.
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
                row.push(rate(module.bandwidth_mib_s));
            }
            None => row.resize(head.len(), String::new()),
        }
        rows.row(row);
    }
    out.table(rows);
}

/// Prints the counters of each file and rank.
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
    let rows = Table::of(
        &zones.zones,
        &[
            ("zone", &|z| z.zone.clone()),
            ("part", &|z| z.part.to_owned()),
            ("writes", &|z| z.writes.to_string()),
            ("bytes", &|z| size(z.bytes as f64)),
            ("in writes", &|z| format!("{:.4} s", z.time_s)),
            ("with pauses", &|z| format!("{:.4} s", z.elapsed_s)),
            ("MiB/s", &|z| {
                or_dash(z.bandwidth_mib_s, |r| format!("{r:.0}"))
            }),
            ("line of a write", &|z| {
                or_dash(z.line.as_ref(), |line| {
                    format!(
                        "{:.3} ms + {:.3} ms/MiB",
                        1e3 * line.per_write_s,
                        1e3 * line.per_mib_s
                    )
                })
            }),
            ("r", &|z| {
                or_dash(z.line.as_ref(), |line| format!("{:.2}", line.correlation))
            }),
        ],
    );
    let rows = rows.wrap(&["part"]);
    out.table(rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(writes: u64, reads: u64) -> LayerTotal {
        LayerTotal {
            writes,
            reads,
            ..LayerTotal::default()
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
