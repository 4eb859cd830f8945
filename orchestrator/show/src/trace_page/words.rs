//! Describes a trace in sentences, for the abstract of its page.

use super::text::{self, escape};
use cvc_trace::{
    document::{TraceDocument, severities},
    findings::{Finding, Severity},
};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// Maximum number of findings in the abstract.
const MAX_FINDINGS: usize = 3;

/// Returns the name of the tracer as its authors spell it.
fn tracer(document: &TraceDocument) -> &str {
    match document.trace.tracer.as_str() {
        "darshan" => "Darshan",
        "dftracer" => "DFTracer",
        "" => "An unknown tracer",
        other => other,
    }
}

/// Returns the last part of a path.
fn last_part(path: &str) -> &str {
    path.rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or(path)
}

/// Returns the title of the page.
pub(super) fn title(document: &TraceDocument) -> String {
    let trace = &document.trace;
    let command = trace
        .command
        .as_deref()
        .and_then(|c| c.split_whitespace().next());
    match (command, trace.inputs.first()) {
        (Some(program), _) => format!("I/O of {}", last_part(program)),
        (None, Some(input)) => format!("I/O in {}", last_part(input)),
        (None, None) => "I/O of a trace".to_owned(),
    }
}

/// Returns the findings, the most severe first.
pub(super) fn by_severity(document: &TraceDocument) -> Vec<&Finding> {
    let mut all: Vec<&Finding> = document.findings.iter().collect();
    all.sort_by_key(|finding| Reverse(finding.severity));
    all
}

/// Returns the paragraphs of the abstract, as markup.
pub(super) fn sentences(document: &TraceDocument) -> Vec<String> {
    let trace = &document.trace;
    let mut first = tracer(document).to_owned();
    first.push_str(" recorded ");
    first.push_str(
        trace
            .command
            .as_deref()
            .map(str::trim)
            .unwrap_or("a program with an unknown command"),
    );
    if let Some(ranks) = trace.ranks {
        first.push_str(&format!(" with {}", text::of(ranks, "rank", "ranks")));
    }
    first.push_str(&of_events(document));
    if trace.partial {
        first.push_str(" The run did not finish.");
    }
    let mut second = moved(document);
    if let Some(rhythm) = &document.rhythm {
        second.push(' ');
        second.push_str(rhythm);
    }
    let mut paragraphs = vec![escape(&first), escape(&second)];
    paragraphs.push(escape(&of_findings(document)));
    let missing = document.missing.len() as u64 + document.more_missing;
    if missing > 0 {
        paragraphs.push(format!(
            "The trace is incomplete: <a href=\"#missing\">{}</a>.",
            text::of(missing, "part is missing", "parts are missing")
        ));
    }
    paragraphs
}

/// Describes the number of recorded events and files, and the time.
fn of_events(document: &TraceDocument) -> String {
    let files = document.files.len() as u64;
    let with_bytes = document
        .files
        .iter()
        .filter(|f| f.reads.bytes.max(f.writes.bytes) > 0)
        .count() as u64;
    let recorded = if document.events == 0 && !document.logs.is_empty() {
        "counters, but no single operations,".to_owned()
    } else {
        let processes = document.processes.len() as u64;
        format!(
            "{} of {}",
            text::of(document.events, "event", "events"),
            text::of(processes, "process", "processes")
        )
    };
    format!(
        ": {recorded} on {}{} in {}.",
        text::of(files, "file", "files"),
        if with_bytes < files {
            format!(" ({} read or written)", text::count(with_bytes))
        } else {
            String::new()
        },
        text::time(document.span_s)
    )
}

/// Describes the bytes read and written; from counters if the trace has any.
fn moved(document: &TraceDocument) -> String {
    let of_files = || {
        let files = document.files.iter();
        files.fold((0u64, 0u64), |(read, written), file| {
            (
                read.saturating_add(file.reads.bytes),
                written.saturating_add(file.writes.bytes),
            )
        })
    };
    let (read, written) = match document.counted() {
        Some(counted) => (counted.read_bytes, counted.written_bytes),
        None if !document.logs.is_empty() => {
            return "No supported module of the log counts reads or writes.".to_owned();
        }
        None => of_files(),
    };
    format!(
        "The program read {} and wrote {}.",
        text::size(read as f64),
        text::size(written as f64)
    )
}

fn of_findings(document: &TraceDocument) -> String {
    let severe: Vec<&Finding> = by_severity(document)
        .into_iter()
        .filter(|f| f.severity >= Severity::Warning)
        .collect();
    let counts = format!("Findings: {}", severities(&document.findings));
    if severe.is_empty() {
        return format!("{counts}.");
    }
    let evidence: Vec<String> = severe
        .iter()
        .take(MAX_FINDINGS)
        .map(|f| {
            let of = f
                .file
                .as_deref()
                .map(|file| format!("{}: ", last_part(file)));
            format!(
                "{}{} ({})",
                of.unwrap_or_default(),
                f.evidence.trim_end_matches('.'),
                f.code
            )
        })
        .collect();
    let most = if severe.len() > MAX_FINDINGS {
        "The most severe: "
    } else {
        ""
    };
    format!("{counts}. {most}{}.", evidence.join("; "))
}

/// Returns why the page has no plots; `None` if it has some.
pub(super) fn no_plots(document: &TraceDocument, none: bool) -> Option<&'static str> {
    match (none, document.events) {
        (false, _) => None,
        (true, 0) => Some(
            "There are no plots over time, because the trace has only sums, no single operations.",
        ),
        (true, _) => Some("There are no plots, because no operation of the trace moved bytes."),
    }
}

/// Returns the origin of the trace as names with values.
pub(super) fn provenance(document: &TraceDocument) -> Vec<Value> {
    const MAX_INPUTS: usize = 100;
    let trace = &document.trace;
    let mut pairs: Vec<(&str, Vec<String>)> = vec![("tracer", vec![tracer(document).to_owned()])];
    let mut optional = |name, lines: Option<Vec<String>>| pairs.extend(lines.map(|l| (name, l)));
    let one = |line: String| vec![line];
    optional("format", trace.format.clone().map(one));
    optional("command", trace.command.clone().map(one));
    optional("ranks", trace.ranks.map(|n| one(text::count(n))));
    optional(
        "began",
        trace
            .began_unix_s
            .map(|s| one(format!("{s:.3} s after 1970-01-01 00:00 UTC"))),
    );
    let mut inputs: Vec<String> = trace.inputs.iter().take(MAX_INPUTS).cloned().collect();
    if trace.inputs.len() > MAX_INPUTS {
        inputs.push(format!("and {} more", trace.inputs.len() - MAX_INPUTS));
    }
    optional("inputs", Some(inputs).filter(|all| !all.is_empty()));
    optional(
        "created by",
        Some(one(format!(
            "cvc {}, trace document version {}",
            env!("CARGO_PKG_VERSION"),
            document.schema
        ))),
    );
    pairs
        .into_iter()
        .map(|(name, lines)| {
            // a line feed within a name is escaped
            let lines: Vec<String> = lines.iter().map(|line| escape(line)).collect();
            json!({ "name": name, "value": lines.join("\n") })
        })
        .collect()
}
