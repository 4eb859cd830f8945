//! `cvc image diff`

use super::{
    bytes::{Bytes, bytes_of},
    document::DiffDocument,
};
use crate::{
    args::ImageDiffArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output,
    text::{paragraph, table},
};
use cvc_core::units::{counted, size};
use cvc_delta::{Change, Changes, changes};
use std::io::{self, Write};

pub fn diff(args: &ImageDiffArgs) -> Result<ExitStatus, Failure> {
    let progress = Bytes::start(bytes_of(&[&args.old, &args.new]), "MiB read");
    let changes = changes(&args.old, &args.new, args.block, &|bytes| {
        progress.advance(bytes);
    });
    progress.finish();
    let changes = changes?;
    let mut out = output::shown_as(args.json);
    if args.json {
        let document = DiffDocument::new(&args.old, &args.new, args.block.bytes(), &changes);
        let text = serde_json::to_string_pretty(&document).map_err(io::Error::from)?;
        writeln!(out, "{text}")?;
    } else {
        show(&mut out, &changes, args.block.bytes())?;
    }
    Ok(ExitStatus::Done)
}

/// Files that are named at most; JSON has all.
const NAMED: usize = 3;

/// How much of the newer state the older one does not have.
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

fn show(out: &mut impl Write, changes: &Changes, block_bytes: u64) -> io::Result<()> {
    let total = changes.total();
    let sentence = if total.changed + total.new + total.gone == 0 {
        format!("Nothing differs of {}.", size(total.bytes as f64))
    } else {
        format!(
            "{} of {} differ ({}) in blocks of {}: {} changed, {} are new; {} are gone.",
            size((total.changed + total.new) as f64),
            size(total.bytes as f64),
            share(&total),
            size(block_bytes as f64),
            size(total.changed as f64),
            size(total.new as f64),
            size(total.gone as f64),
        )
    };
    writeln!(out, "{}\n", paragraph("", &sentence))?;
    let mut rows = table(
        ["zone", "part", "all", "changed", "new", "gone", "differs"],
        &[],
    );
    let mut row = |zone: &str, part: &str, change: &Change| {
        rows.add_row([
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
    writeln!(out, "{}", rows.trim_fmt())?;
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
            writeln!(out, "{}", paragraph("", &text))?;
        }
    }
    Ok(())
}
