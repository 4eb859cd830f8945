//! `cvc delta show`

use super::{
    document::{FileDocument, SeriesDocument},
    settings::{described, times_less},
};
use crate::{
    args::DeltaShowArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output,
    text::{paragraph, table},
};
use cvc_core::units::{counted, duration, size};
use cvc_delta::{Series, StateFile};
use std::io::{self, Write};

pub fn show(args: &DeltaShowArgs) -> Result<ExitStatus, Failure> {
    let mut out = output::shown_as(args.json);
    if args.path.is_dir() {
        let series = Series::open(&args.path)?;
        if args.json {
            let document = SeriesDocument::new(&args.path, &series)?;
            let text = serde_json::to_string_pretty(&document).map_err(io::Error::from)?;
            writeln!(out, "{text}")?;
        } else {
            show_series(&mut out, &series)?;
        }
    } else {
        let file = StateFile::open(&args.path)?;
        if args.json {
            let text = serde_json::to_string_pretty(&FileDocument::from(&file))
                .map_err(io::Error::from)?;
            writeln!(out, "{text}")?;
        } else {
            show_file(&mut out, &file)?;
        }
    }
    Ok(ExitStatus::Done)
}

fn show_series(out: &mut impl Write, series: &Series) -> Result<(), Failure> {
    let states = series.states();
    let Some(first) = states.first() else {
        writeln!(out, "{}", paragraph("", "The series has no state yet."))?;
        return Ok(());
    };
    let content: u64 = states.iter().map(|s| s.content_bytes).sum();
    let stored: u64 = states.iter().map(|s| s.file_bytes).sum();
    let files: Vec<usize> = states
        .iter()
        .map(|s| series.chain_of(s.state).map(|chain| chain.len()))
        .collect::<Result<_, _>>()?;
    let sentence = format!(
        "{} of {} in {}, {} times less; a restore needs at most {}.",
        counted(states.len(), "state"),
        size(content as f64),
        size(stored as f64),
        times_less(stored, content),
        counted(files.iter().max().copied().unwrap_or(1), "file"),
    );
    writeln!(out, "{}", paragraph("", &sentence))?;
    writeln!(
        out,
        "{}\n",
        paragraph("", &format!("Stored by {}.", described(series.options())))
    )?;
    let mut rows = table(
        [
            "state", "after", "base", "changed", "new", "stored", "content", "ratio", "files",
            "time",
        ],
        &[],
    );
    for (state, files) in states.iter().zip(files) {
        rows.add_row([
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
    writeln!(out, "{}", rows.trim_fmt())?;
    writeln!(
        out,
        "{}",
        paragraph(
            "",
            &format!(
                "The next state is compared with {} of hashes.",
                size(series.kept_hashes_bytes() as f64)
            )
        )
    )?;
    Ok(())
}

fn show_file(out: &mut impl Write, file: &StateFile) -> Result<(), Failure> {
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
    writeln!(out, "{}", paragraph("", &sentence))?;
    let by = summary.addressing.as_str();
    let how = format!(
        "Blocks of {} by {by}, codec {}, transform {}, digest {}.",
        size(summary.block_bytes.bytes() as f64),
        summary.codec.as_str(),
        summary.transform.as_str(),
        summary.digest
    );
    writeln!(out, "{}\n", paragraph("", &how))?;
    let mut rows = table(
        ["content", "headers", "changed", "moved", "blocks", "file"],
        &["file"],
    );
    for image in &summary.images {
        let gzip = if image.gzip { " (was gzip'd)" } else { "" };
        rows.add_row([
            size(image.bytes as f64),
            size(image.frame_bytes as f64),
            size(image.changed_bytes as f64),
            size(image.moved_bytes as f64),
            image.blocks.to_string(),
            format!("{}{gzip}", image.name),
        ]);
    }
    writeln!(out, "{}", rows.trim_fmt())?;
    for (name, to) in &summary.links {
        writeln!(out, "{}", paragraph("", &format!("link {name} to {to}")))?;
    }
    Ok(())
}
