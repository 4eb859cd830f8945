//! `cvc image diff`

use super::{
    bytes::{Bytes, bytes_of},
    document,
};
use crate::{args::ImageDiffArgs, exit_status::ExitStatus, failure::Failure, output};
use cvc_core::units::{counted, size};
use cvc_delta::{Change, PageChanges, changes};
use cvc_show::{Blocks, Table};

pub fn diff(args: &ImageDiffArgs) -> Result<ExitStatus, Failure> {
    let progress = Bytes::start(bytes_of(&[&args.old, &args.new]), "MiB read");
    let changes = changes(&args.old, &args.new, args.block, &|bytes| {
        progress.advance(bytes);
    });
    progress.finish();
    let changes = changes?;
    let document = document::diff(&args.old, &args.new, args.block.bytes(), &changes);
    output::answer(args.json, &output::versioned(&document), |out| {
        show(out, &changes, args.block.bytes());
    })?;
    Ok(ExitStatus::Done)
}

/// Maximum number of files named in the text; JSON has all.
const NAMED: usize = 3;

/// Formats the fraction of the newer state that the older one does not contain.
fn share(change: &Change) -> String {
    if change.bytes == 0 {
        return "-".to_owned();
    }
    let percent = 100.0 * (change.changed + change.new) as f64 / change.bytes as f64;
    match percent {
        0.0 => "0 %".to_owned(),
        p if p < 0.1 => "<0.1 %".to_owned(),
        p => format!("{p:.1} %"),
    }
}

fn show(out: &mut Blocks, changes: &PageChanges, block_bytes: u64) {
    let total = changes.total();
    let sentence = if total.changed + total.new + total.gone == 0 {
        format!("No difference in {}.", size(total.bytes as f64))
    } else {
        format!(
            "{} of {} differ ({}) in blocks of {}: {} changed, {} new; {} removed.",
            size((total.changed + total.new) as f64),
            size(total.bytes as f64),
            share(&total),
            size(block_bytes as f64),
            size(total.changed as f64),
            size(total.new as f64),
            size(total.gone as f64),
        )
    };
    out.say(sentence);
    out.gap();
    let mut rows = Table::plain(["zone", "part", "all", "changed", "new", "gone", "differs"]);
    let mut row = |zone: &str, part: &str, change: &Change| {
        rows.row([
            zone.to_owned(),
            part.to_owned(),
            size(change.bytes as f64),
            size(change.changed as f64),
            size(change.new as f64),
            size(change.gone as f64),
            share(change),
        ]);
    };
    for part in &changes.parts {
        row(part.part.zone().as_str(), part.part.as_str(), &part.change);
    }
    if changes.other_files != Change::default() {
        row("-", "other files", &changes.other_files);
    }
    row("sum", "", &total);
    out.table(rows);
    for (names, what) in [
        (&changes.new_files, "only in the newer one"),
        (&changes.gone_files, "only in the older one"),
    ] {
        if !names.is_empty() {
            let more = match names.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            let text = format!(
                "{} {what}: {}{more}",
                counted(names.len(), "file"),
                names[..names.len().min(NAMED)].join(", ")
            );
            out.say(text);
        }
    }
}
