//! `cvc delta show`

use super::{
    document,
    settings::{described, times_less},
};
use crate::{args::DeltaShowArgs, exit_status::ExitStatus, failure::Failure, output};
use cvc_core::units::{counted, duration, size};
use cvc_delta::{DeltaError, Series, StateFile, StateRecord};
use cvc_show::{Blocks, Table};

pub fn show(args: &DeltaShowArgs) -> Result<ExitStatus, Failure> {
    if args.path.is_dir() {
        let series = Series::open(&args.path)?;
        let document = document::series(&args.path, &series)?;
        let states = states(&series)?;
        output::answer(args.json, &document, |out| {
            show_series(out, &series, &states);
        })?;
    } else {
        let file = StateFile::open(&args.path)?;
        output::answer(args.json, &document::file(&file), |out| {
            show_file(out, &file);
        })?;
    }
    Ok(ExitStatus::Done)
}

/// The states of a series, each with the number of files that its restore needs.
fn states(series: &Series) -> Result<Vec<(&StateRecord, usize)>, DeltaError> {
    let states = series.states().iter();
    states
        .map(|s| Ok((s, series.chain_of(s.state)?.len())))
        .collect()
}

fn show_series(out: &mut Blocks, series: &Series, states: &[(&StateRecord, usize)]) {
    let Some((first, _)) = states.first() else {
        return out.say("The series has no state yet.");
    };
    let content: u64 = states.iter().map(|(s, _)| s.content_bytes).sum();
    let stored: u64 = states.iter().map(|(s, _)| s.file_bytes).sum();
    let files = states.iter().map(|(_, files)| *files).max().unwrap_or(1);
    let sentence = format!(
        "{} of {} in {}, {} times less; a restore needs at most {}.",
        counted(states.len(), "state"),
        size(content as f64),
        size(stored as f64),
        times_less(stored, content),
        counted(files, "file"),
    );
    out.say(sentence);
    out.say(format!("Stored by {}.", described(series.options())));
    out.gap();
    let mut rows = Table::plain([
        "state", "after", "base", "changed", "new", "stored", "content", "ratio", "files", "time",
    ]);
    for (state, files) in states {
        rows.row([
            state.state.to_string(),
            duration(state.taken_s - first.taken_s),
            state
                .base
                .map_or_else(|| "-".to_owned(), |base| base.to_string()),
            size(state.changed_bytes as f64),
            state
                .new_bytes
                .map_or_else(|| "-".to_owned(), |bytes| size(bytes as f64)),
            size(state.file_bytes as f64),
            size(state.content_bytes as f64),
            times_less(state.file_bytes, state.content_bytes),
            files.to_string(),
            duration(state.hash_s + state.store_s),
        ]);
    }
    out.table(rows);
    out.say(format!(
        "The next state is compared with {} of hashes.",
        size(series.kept_hashes_bytes() as f64)
    ));
}

fn show_file(out: &mut Blocks, file: &StateFile) {
    let summary = file.summary();
    let content: u64 = summary.images.iter().map(|i| i.bytes).sum();
    let changed: u64 = summary.images.iter().map(|i| i.changed_bytes).sum();
    let moved: u64 = summary.images.iter().map(|i| i.moved_bytes).sum();
    let how = match &summary.base {
        None => "in full".to_owned(),
        Some(base) if moved > 0 => format!(
            "against state {}, since which {} changed, {} of it to what was at another place",
            base.state,
            size(changed as f64),
            size(moved as f64)
        ),
        Some(base) => format!(
            "against state {}, since which {} changed",
            base.state,
            size(changed as f64)
        ),
    };
    let sentence = format!(
        "State {} of {} stored {how}: {} of {} in {}, {}.",
        summary.state,
        size(content as f64),
        counted(summary.stored_blocks, "block"),
        size(file.new_bytes() as f64),
        counted(file.packets(), "packet"),
        size(file.file_bytes() as f64),
    );
    out.say(sentence);
    let by = summary.addressing.as_str();
    let how = format!(
        "Blocks of {} by {by}, codec {}, transform {}, digest {}.",
        size(summary.block_bytes.bytes() as f64),
        summary.codec.as_str(),
        summary.transform.as_str(),
        summary.digest
    );
    out.say(how);
    out.gap();
    let mut rows =
        Table::plain(["content", "headers", "changed", "moved", "blocks", "file"]).wrap(&["file"]);
    for image in &summary.images {
        let gzip = if image.gzip { " (was gzip'd)" } else { "" };
        rows.row([
            size(image.bytes as f64),
            size(image.frame_bytes as f64),
            size(image.changed_bytes as f64),
            size(image.moved_bytes as f64),
            image.blocks.to_string(),
            format!("{}{gzip}", image.name),
        ]);
    }
    out.table(rows);
    for (name, to) in &summary.links {
        out.say(format!("link {name} to {to}"));
    }
}
