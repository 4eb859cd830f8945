//! `cvc metadata`: counts metadata operations between two moments, by kind and source.

use crate::{
    args::MetadataArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output::{self, versioned},
};
use camino::Utf8Path;
use cvc_model::metadata::{Layout, MetadataSetting};
use cvc_show::{Blocks, Table};
use cvc_trace::metadata_operations::{
    CounterError, CounterOptions, CounterSnapshot, MetadataCounts, MetadataKind, SourceCounts,
    difference, read_counters, since_start,
};
use std::io::Write;

/// Maximum number of sources in the table.
const MAX_SHOWN: usize = 40;

pub fn metadata(args: &MetadataArgs) -> Result<ExitStatus, Failure> {
    let options = CounterOptions {
        under: args
            .under
            .as_ref()
            .map(|dir| dir.as_str().as_bytes().to_vec()),
    };
    let read = |path: &Utf8Path| read_counters(path.as_std_path(), &options).map_err(failed);
    let counts = match &args.counts[..] {
        [before, after] => {
            let (before, after) = (read(before)?, read(after)?);
            same_counter(&before, &after)?;
            let idle = match &args.idle[..] {
                [first, second] => Some((read(first)?, read(second)?)),
                _ => None,
            };
            if let Some((first, second)) = &idle {
                same_counter(first, second)?;
                same_counter(first, &after)?;
            }
            difference(&before, &after, idle.as_ref().map(|(a, b)| (a, b)))
        }
        [only] if args.idle.is_empty() => since_start(&read(only)?),
        _ => {
            return Err(Failure::Other {
                status: ExitStatus::Usage,
                message: "--idle: there are no counts from before the run".to_owned(),
                hint: Some("give counts from before and from after".into()),
            });
        }
    };
    if args.csv {
        print_csv(args.setting, &counts)?;
    } else {
        output::answer(args.json, &versioned(&counts), |out| show(out, &counts))?;
    }
    Ok(ExitStatus::Done)
}

fn failed(error: CounterError) -> Failure {
    let hint = match &error {
        CounterError::Read { .. } => {
            "give a file that exists, or a directory with one for each node"
        }
        CounterError::Unrecognised { .. } | CounterError::Empty { .. } => {
            "supported: strace -ttt -y, `gluster volume profile VOL info cumulative`, .stats of MooseFS, the access log of OrangeFS, /proc/self/mountstats \
             of NFS, and llite and mdc statistics of Lustre"
        }
        CounterError::Mixed { .. } => "put each counter's files in a separate directory",
    };
    Failure::Other {
        status: ExitStatus::Unreadable,
        message: error.to_string(),
        hint: Some(hint.into()),
    }
}

fn same_counter(first: &CounterSnapshot, second: &CounterSnapshot) -> Result<(), Failure> {
    if first.counter == second.counter {
        return Ok(());
    }
    Err(Failure::Other {
        status: ExitStatus::Usage,
        message: format!(
            "the first counts come from {}, the others from {}",
            first.counter, second.counter
        ),
        hint: Some("give counts from the same counter".into()),
    })
}

const UNKNOWN: &str = "unknown";

fn known(count: Option<u64>) -> String {
    count.map_or_else(|| UNKNOWN.to_owned(), |count| count.to_string())
}

fn print_csv(
    setting: Option<(Layout, MetadataSetting)>,
    counts: &MetadataCounts,
) -> Result<(), Failure> {
    let mut out = output::shown();
    if let Some((layout, at)) = setting {
        writeln!(out, "layout,clients,checkpoints,servers,kind,count")?;
        let mut line = |kind: &str, count: Option<u64>| {
            let (layout, clients, checkpoints, servers) =
                (layout.word(), at.clients, at.checkpoints, at.servers);
            writeln!(
                out,
                "{layout},{clients},{checkpoints},{servers},{kind},{}",
                known(count)
            )
        };
        // one source that counts messages suffices, because a source without a count may be of an unknown kind
        let counts_messages = counts.sources.iter().any(|of| of.messages.is_some());
        if counts_messages {
            line("message", counts.messages)?;
            return Ok(());
        }
        for of in &counts.kinds {
            line(of.kind.word(), of.count)?;
        }
        return Ok(());
    }
    writeln!(out, "source,kind,count")?;
    for source in &counts.sources {
        let name = cvc_core::visible::inert(&source.source).replace('"', "\"\"");
        for kind in MetadataKind::ALL {
            let count = source.unknown.is_none().then(|| count_of(source, kind));
            writeln!(out, "\"{name}\",{},{}", kind.word(), known(count))?;
        }
        if source.messages.is_some() {
            writeln!(out, "\"{name}\",message,{}", known(source.messages))?;
        }
    }
    Ok(())
}

fn count_of(source: &SourceCounts, kind: MetadataKind) -> u64 {
    source.kinds.get(&kind).copied().unwrap_or(0)
}

fn show(out: &mut Blocks, counts: &MetadataCounts) {
    let occurring: Vec<MetadataKind> = MetadataKind::ALL
        .into_iter()
        .filter(|kind| counts.sources.iter().any(|of| count_of(of, *kind) > 0))
        .collect();
    out.say(format!(
        "{}: {} metadata operations{}",
        counts.counter,
        known(counts.total),
        counts.messages.map_or_else(String::new, |of| format!(
            ", {of} messages to metadata servers"
        ))
    ));
    out.gap();
    let mut kinds = Table::plain(["kind", "count", "by their own names"]);
    for of in &counts.kinds {
        if of.count.is_none() || of.count > Some(0) {
            kinds.row([
                of.kind.word().to_owned(),
                known(of.count),
                native(counts, of.kind).join(", "),
            ]);
        }
    }
    out.table(kinds);
    if counts.sources.len() > 1 {
        out.gap();
        let mut heads = vec!["source", "all"];
        heads.extend(occurring.iter().map(|kind| kind.word()));
        let mut rows = Table::plain(heads).right_from(1);
        for source in counts.sources.iter().take(MAX_SHOWN) {
            let is_known = source.unknown.is_none();
            let all = is_known.then(|| source.kinds.values().sum());
            let mut row = vec![source.source.clone(), known(all)];
            row.extend(
                occurring
                    .iter()
                    .map(|kind| known(is_known.then(|| count_of(source, *kind)))),
            );
            rows.row(row);
        }
        out.table(rows);
        if counts.sources.len() > MAX_SHOWN {
            out.say(format!(
                "{} more sources: --csv or --json lists all",
                counts.sources.len() - MAX_SHOWN
            ));
        }
    }
    for source in &counts.sources {
        if let Some(why) = &source.unknown {
            out.say(format!("unknown: {}: {why}", source.source));
        }
    }
    for note in &counts.notes {
        out.say(format!("note: {note}"));
    }
}

/// Returns the file system's own names of the operations that belong to a kind, over all sources.
fn native(counts: &MetadataCounts, kind: MetadataKind) -> Vec<String> {
    let mut names: Vec<String> = counts
        .sources
        .iter()
        .flat_map(|source| source.native.iter())
        .filter(|(_, of)| of.kind == kind && of.count > 0)
        .map(|(name, _)| name.clone())
        .collect();
    names.sort();
    names.dedup();
    names
}
