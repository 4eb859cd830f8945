//! `cvc predict --layout`: operations, time and number of files with each layout of checkpoints.

use super::{delta_input::usage, spread::number};
use crate::{
    args::{LayoutArgs, PredictArgs},
    command::bandwidth::Bandwidths,
    exit_status::ExitStatus,
    failure::Failure,
    output,
};
use camino::Utf8Path;
use cvc_core::units::{MIB, counted, duration, size};
use cvc_model::{
    Estimate,
    metadata::{cost::StorageRates, crossing::WinningRange, known::KnownFileSystem},
};
use cvc_prediction::{
    layout::{
        DmtcpForecast, LayoutAnswer, LayoutQuestion, OperationSource, layout_answer,
        parse_operations,
    },
    predict::PredictError,
};
use cvc_probe::bandwidth::StorageBandwidth;
use cvc_show::{Blocks, Table, format::significant};
use serde::Serialize;

/// The answer as JSON.
#[derive(Serialize)]
struct LayoutOutput<'a> {
    schema: u32,
    processes: u32,
    nodes: u64,
    checkpoints: u64,
    servers: u64,
    rates: StorageRates,
    #[serde(flatten)]
    answer: &'a LayoutAnswer,
}

pub fn predict_layout(args: &PredictArgs) -> Result<ExitStatus, Failure> {
    let source = operations(&args.layouts)?;
    let question = question(args)?;
    let answer = layout_answer(&source, &question)?;
    let shown = LayoutOutput {
        schema: 1,
        processes: question.processes,
        nodes: question.nodes(),
        checkpoints: question.checkpoints,
        servers: question.servers,
        rates: question.rates,
        answer: &answer,
    };
    output::answer(args.json, &shown, |out| show(out, &question, &answer))?;
    Ok(ExitStatus::Done)
}

fn operations(of: &LayoutArgs) -> Result<OperationSource, Failure> {
    if let Some(path) = &of.operations {
        let text = std::fs::read_to_string(path).map_err(|e| PredictError::Unreadable {
            path: path.clone(),
            message: e.to_string(),
            hint: "give a table of counts; `cvc metadata --csv` prints lines of it".into(),
        })?;
        return Ok(OperationSource::Counted(parse_operations(path, &text)?));
    }
    let known =
        (of.file_system).and_then(|file_system| KnownFileSystem::from_name(file_system.name()));
    known.map(OperationSource::Known).ok_or_else(|| {
        usage(
            "--layout: missing operations of the file system".into(),
            Some("add --file-system pvfs2, orangefs or moosefs, or --operations with a table of counts"),
        )
    })
}

fn question(args: &PredictArgs) -> Result<LayoutQuestion, Failure> {
    let of = &args.layouts;
    let missing = |what: &str, hint: &'static str| {
        usage(format!("--layout: {what} is not given"), Some(hint))
    };
    let processes = of.processes.ok_or_else(|| {
        missing(
            "the number of processes",
            "add --processes, as in --processes 128",
        )
    })?;
    let bytes = of
        .size
        .map(|size| size.0)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| missing("the size of a checkpoint", "add --size, as in --size 8GiB"))?;
    let measured = of.measured.as_deref();
    let measured = measured.map(|path| measured_storage(path, of.per_node));
    let measured = measured.transpose()?;
    let creates_s = measured.as_ref().and_then(|of| of.creates_s);
    let operations_s = of.metadata_rate.or(creates_s).ok_or_else(|| {
        missing(
            "the rate of metadata operations",
            "add --metadata-rate, in operations per second (e.g. from mdtest), or --measured",
        )
    })?;
    let mib_s = match (args.stored.bandwidth, &measured) {
        (Some(mib_s), _) => mib_s,
        (None, Some(measured)) => measured.write_mib_s,
        (None, None) => {
            return Err(missing(
                "the bandwidth",
                "add --bandwidth, as in --bandwidth 400MiB, or --measured with the output of `cvc bandwidth DIR --json`",
            ));
        }
    };
    if args.kept.interval == Some(0.0) {
        return Err(usage(
            "--interval: no time between checkpoints".into(),
            Some("give the interval, as in 1h"),
        ));
    }
    if of.per_node > processes {
        return Err(usage(
            format!(
                "--per-node {}: there are only {}",
                of.per_node,
                counted(processes, "process")
            ),
            Some("--processes is the total of all nodes"),
        ));
    }
    for (option, stripe) in [("--stripe", of.stripe), ("--write-size", of.write_size)] {
        if stripe.is_some_and(|size| size.0 == 0) {
            return Err(usage(
                format!("{option}: no bytes"),
                Some("give a size, as in 64KiB"),
            ));
        }
    }
    let planned = args.kept.checkpoints();
    if planned == Some(0) {
        return Err(usage(
            "the job ends before its first checkpoint".into(),
            Some("--interval must be shorter than --for"),
        ));
    }
    Ok(LayoutQuestion {
        processes,
        per_node: of.per_node,
        bytes,
        checkpoints: of.checkpoints.map(u64::from).or(planned).unwrap_or(1),
        servers: u64::from(of.servers),
        rates: StorageRates {
            bytes_s: mib_s * MIB,
            operations_s,
        },
        interval_s: args.kept.interval,
        keep: u64::from(args.kept.keep),
        file_limit: of.file_limit.or(measured.and_then(|of| of.free_files)),
        stripe_bytes: of.stripe.map(|size| size.0),
        block_bytes: of.write_size.map(|size| size.0),
        dmtcp: of.dmtcp.then(|| {
            let nodes = processes.div_ceil(of.per_node);
            (of.launchers.unwrap_or(nodes + 1), of.packed)
        }),
    })
}

/// Reads the measurement whose number of writers is nearest to the number of processes on a node.
fn measured_storage(path: &Utf8Path, per_node: u32) -> Result<StorageBandwidth, Failure> {
    let hint = "write it with `cvc bandwidth DIR --json > FILE`, DIR on the file system";
    let text =
        std::fs::read_to_string(path).map_err(|e| usage(format!("{path}: {e}"), Some(hint)))?;
    let found: Bandwidths = serde_json::from_str(&text)
        .map_err(|e| usage(format!("{path}: no bandwidths: {e}"), Some(hint)))?;
    let distance = |writers: usize| writers.abs_diff(per_node as usize);
    let all = found.storage.into_iter();
    let nearest = all.min_by_key(|of| distance(of.writers));
    let nearest = nearest.filter(|of| of.write_mib_s > 0.0);
    nearest.ok_or_else(|| usage(format!("{path}: no storage measurements"), Some(hint)))
}

fn show(out: &mut Blocks, question: &LayoutQuestion, answer: &LayoutAnswer) {
    out.say(format!(
        "{} on {}, {} of {}, {} (operations: {})",
        counted(question.processes, "process"),
        counted(question.nodes(), "node"),
        counted(question.checkpoints, "checkpoint"),
        size(question.bytes as f64),
        counted(question.servers, "metadata server"),
        answer.source
    ));
    out.gap();
    let mut rows = Table::plain([
        "layout",
        "operations",
        "interval",
        "time",
        "interval of it",
        "files kept",
        "peak",
    ])
    .right_from(1);
    for of in &answer.layouts {
        rows.row([
            of.layout.word().to_owned(),
            amount(of.operations.value),
            ends(of.operations, amount),
            duration(of.time.total_s.value),
            ends(of.time.total_s, duration),
            of.files.kept.to_string(),
            of.files.peak.to_string(),
        ]);
    }
    out.table(rows);
    show_load(out, question, answer);
    show_ranges(out, "nodes", &answer.by_nodes);
    show_ranges(out, "checkpoints", &answer.by_checkpoints);
    if let Some(dmtcp) = &answer.dmtcp {
        show_dmtcp(out, question, dmtcp);
    }
    out.gap();
    out.say(format!("{}.", answer.sentence));
    let mut notes: Vec<(&str, Vec<&str>)> = Vec::new();
    for of in &answer.layouts {
        for note in &of.notes {
            match notes.iter_mut().find(|(text, _)| text == note) {
                Some((_, layouts)) => layouts.push(of.layout.word()),
                None => notes.push((note, vec![of.layout.word()])),
            }
        }
    }
    for (note, layouts) in notes {
        out.say(format!("note: {}: {note}", layouts.join(", ")));
    }
    for unknown in &answer.unknown {
        out.say(format!("unknown: {}", unknown.reason));
    }
    for warning in &answer.warnings {
        out.say(format!("warning: {warning}"));
    }
}

/// Formats a count, with decimals only if it is not an integer.
fn amount(value: f64) -> String {
    match value.fract() == 0.0 {
        true => format!("{value:.0}"),
        false => number(value),
    }
}

fn ends(of: Estimate, show: impl Fn(f64) -> String) -> String {
    match of.interval {
        None => "not checked".to_owned(),
        Some(ends) if ends.low == ends.high => "exact".to_owned(),
        Some(ends) => {
            let (low, high) = (show(ends.low), show(ends.high));
            match low == high {
                true => low,
                false => format!("{low} … {high}"),
            }
        }
    }
}

fn show_load(out: &mut Blocks, question: &LayoutQuestion, answer: &LayoutAnswer) {
    let Some(interval_s) = question.interval_s else {
        return;
    };
    out.gap();
    out.say(format!(
        "metadata server, one checkpoint every {}, {} operations a second",
        duration(interval_s),
        amount(question.rates.operations_s)
    ));
    out.gap();
    let mut rows = Table::plain([
        "layout",
        "operations a day",
        "of its capacity",
        "supported jobs",
    ])
    .right_from(1);
    for of in &answer.layouts {
        if let Some(load) = of.load {
            rows.row([
                of.layout.word().to_owned(),
                amount(load.operations_a_day),
                format!(
                    "{} %",
                    significant(100.0 * load.operations_a_day / load.capacity_a_day)
                ),
                amount(load.jobs),
            ]);
        }
    }
    out.table(rows);
}

fn show_ranges(out: &mut Blocks, of: &str, ranges: &[WinningRange]) {
    if ranges.is_empty() {
        return;
    }
    out.gap();
    let mut rows = Table::plain([of, "fewest operations"]);
    for (i, range) in ranges.iter().enumerate() {
        let words: Vec<&str> = range.layouts.iter().map(|layout| layout.word()).collect();
        let numbers = match (range.from == range.to, i + 1 == ranges.len()) {
            (true, _) => range.from.to_string(),
            (false, true) => format!("{} and more", range.from),
            (false, false) => format!("{} to {}", range.from, range.to),
        };
        rows.row([numbers, words.join(", ")]);
    }
    out.table(rows);
}

fn show_dmtcp(out: &mut Blocks, question: &LayoutQuestion, of: &DmtcpForecast) {
    out.gap();
    let kinds: Vec<String> = (of.operations.kinds.iter())
        .filter(|of| of.count > 0)
        .map(|of| format!("{} {}", of.kind, of.count))
        .collect();
    out.say(format!(
        "DMTCP's images, one checkpoint: {} ({}), {} files and directories: {}",
        counted(of.operations.total, "system call"),
        duration(of.operations_s),
        of.operations.entries,
        kinds.join(", ")
    ));
    out.say(format!(
        "With a directory per node, the number of calls is the same, and the largest directory has {} entries instead of {}.",
        of.operations.largest_per_node_directory, of.operations.largest_directory
    ));
    out.say(format!(
        "With node-local storage and one archive per node copied in the background ({}), shared storage gets {} instead of {} ({}, {:.1} %).",
        counted(question.nodes(), "node"),
        counted(of.operations.copied_behind, "call"),
        of.operations.total,
        duration(of.copied_behind_s),
        100.0 * of.operations.copied_behind as f64 / of.operations.total.max(1) as f64
    ));
}
