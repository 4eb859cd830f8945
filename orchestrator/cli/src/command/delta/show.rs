//! `cvc delta show`

use super::{
    document,
    settings::{described, times_less},
};
use crate::{args::DeltaShowArgs, exit_status::ExitStatus, failure::Failure, output};
use cvc_core::units::{counted, duration, size};
use cvc_delta::{DeltaError, Series, StateFile, StateRecord};
use cvc_show::{Blocks, Table, or_dash};

pub fn show(args: &DeltaShowArgs) -> Result<ExitStatus, Failure> {
    if args.path.is_dir() {
        let series = Series::open(&args.path)?;
        let document = document::series(&args.path, &series)?;
        let states = states(&series)?;
        output::answer(args.json, &output::versioned(&document), |out| {
            show_series(out, &series, &states);
        })?;
    } else {
        let file = StateFile::open(&args.path)?;
        output::answer(
            args.json,
            &output::versioned(document::file(&file)),
            |out| {
                show_file(out, &file);
            },
        )?;
    }
    Ok(ExitStatus::Done)
}

/// Returns the states of a series, each with the number of files that a restore reads.
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
    let rows = Table::of(
        states,
        &[
            ("state", &|(s, _)| s.state.to_string()),
            ("after", &|(s, _)| duration(s.taken_s - first.taken_s)),
            ("base", &|(s, _)| or_dash(s.base, |base| base.to_string())),
            ("changed", &|(s, _)| size(s.changed_bytes as f64)),
            ("new", &|(s, _)| or_dash(s.new_bytes, |n| size(n as f64))),
            ("stored", &|(s, _)| size(s.file_bytes as f64)),
            ("content", &|(s, _)| size(s.content_bytes as f64)),
            ("ratio", &|(s, _)| times_less(s.file_bytes, s.content_bytes)),
            ("files", &|(_, files)| files.to_string()),
            ("time", &|(s, _)| duration(s.hash_s + s.store_s)),
        ],
    );
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
            "as changes since state {} ({} changed, {} of it moved from another place)",
            base.state,
            size(changed as f64),
            size(moved as f64)
        ),
        Some(base) => format!(
            "as changes since state {} ({} changed)",
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
    let rows = Table::of(
        &summary.images,
        &[
            ("content", &|i| size(i.bytes as f64)),
            ("headers", &|i| size(i.frame_bytes as f64)),
            ("changed", &|i| size(i.changed_bytes as f64)),
            ("moved", &|i| size(i.moved_bytes as f64)),
            ("blocks", &|i| i.blocks.to_string()),
            ("file", &|i| match i.gzip {
                true => format!("{} (was gzip'd)", i.name),
                false => i.name.clone(),
            }),
        ],
    );
    let rows = rows.wrap(&["file"]);
    out.table(rows);
    for (name, to) in &summary.links {
        out.say(format!("link {name} to {to}"));
    }
}
