//! `cvc delta`, and `cvc image diff`: changes between checkpoints.

mod bytes;
mod compare;
mod differences;
mod document;
mod make;
mod settings;
mod show;

pub use differences::diff;

use bytes::Bytes;

use crate::{
    args::{
        DeltaArgs, DeltaCatArgs, DeltaCommand, DeltaPruneArgs, DeltaRestoreArgs, DeltaVerifyArgs,
    },
    exit_status::ExitStatus,
    failure::Failure,
    output::{self, emit, note},
    text::paragraph,
};
use cvc_core::units::{counted, duration, size};
use cvc_delta::{DeltaError, DeltaErrorKind, KeptHashes, Series, Verified};
use serde_json::json;
use std::{io::Write, time::Instant};

pub fn delta(args: &DeltaArgs) -> Result<ExitStatus, Failure> {
    match &args.command {
        DeltaCommand::Make(args) => make::make(args),
        DeltaCommand::Restore(args) => restore(args),
        DeltaCommand::Cat(args) => cat(args),
        DeltaCommand::Show(args) => show::show(args),
        DeltaCommand::Verify(args) => verify(args),
        DeltaCommand::Prune(args) => prune(args),
        DeltaCommand::Compare(args) => compare::compare(args),
    }
}

fn restore(args: &DeltaRestoreArgs) -> Result<ExitStatus, Failure> {
    let series = Series::open(&args.series)?;
    let mut chain = series.chain(args.state)?;
    let bytes = chain.summary().images.iter().map(|i| i.bytes).sum();
    let begin = Instant::now();
    let progress = Bytes::start(bytes, "MiB written");
    chain.restore(&args.to, &|bytes| progress.advance(bytes))?;
    progress.finish();
    let images = &chain.summary().images;
    emit(paragraph(
        "",
        &format!(
            "state {} restored in {}: {}, {}, from {} of the series in {}",
            args.state,
            args.to.display(),
            counted(images.len(), "file"),
            size(bytes as f64),
            counted(chain.len(), "file"),
            duration(begin.elapsed().as_secs_f64())
        ),
    ));
    if images.iter().any(|image| image.gzip) {
        emit("gzip'd images are restored uncompressed; DMTCP restarts these as well");
    }
    Ok(ExitStatus::Done)
}

fn verify(args: &DeltaVerifyArgs) -> Result<ExitStatus, Failure> {
    let series = Series::open(&args.series)?;
    let states: Vec<u32> = match args.states.as_slice() {
        [] => series.states().iter().map(|s| s.state).collect(),
        asked => asked.to_vec(),
    };
    if args.against.is_some() && states.len() != 1 {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!(
                "--against is one state, but {} are to be compared with it",
                states.len()
            ),
            hint: Some("give the number of the state made from it".into()),
        });
    }
    // a missing state is an error of the command line, not damage
    for state in &states {
        series.chain_of(*state)?;
    }
    let all = series
        .states()
        .iter()
        .filter(|s| states.contains(&s.state))
        .map(|s| s.content_bytes)
        .sum();
    let progress = Bytes::start(all, "MiB verified");
    let mut failed: Vec<(u32, DeltaError)> = Vec::new();
    let mut found = Vec::new();
    for state in &states {
        let verified = series.verify(*state, args.against.as_deref(), &|bytes| {
            progress.advance(bytes);
        });
        let document = document::verified(*state, args.against.as_deref(), &verified);
        match &verified {
            _ if args.json => {}
            Ok(verified) => emit(paragraph("", &verified_text(verified, args))),
            // with a single state, the error is the error of the command
            Err(_) if states.len() == 1 => {}
            Err(error) => emit(paragraph("", &format!("state {state}: {error}"))),
        }
        found.push(document);
        failed.extend(verified.err().map(|error| (*state, error)));
    }
    progress.finish();
    let unknown = series.unknown_states()?;
    let unknown: Vec<String> = unknown
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    if !unknown.is_empty() {
        note(format!(
            "not verified, because manifest.json does not list them: {}",
            unknown.join(", ")
        ));
    }
    if args.json {
        let mut document = json!({ "series": args.series.display().to_string(), "states": found });
        if !unknown.is_empty() {
            document["unknown"] = json!(unknown);
        }
        output::print_json(&output::versioned(document))?;
    }
    let Some((_, first)) = failed.first() else {
        return Ok(ExitStatus::Done);
    };
    let message = format!(
        "{}: {} of {} cannot be restored",
        args.series.display(),
        failed.len(),
        counted(states.len(), "state")
    );
    let hint = first.hint().map(str::to_owned);
    match failed.pop() {
        Some((_, error)) if states.len() == 1 => Err(error.into()),
        _ => Err(Failure::Other {
            status: ExitStatus::Unreadable,
            message,
            hint,
        }),
    }
}

/// Describes a state that was verified without errors.
fn verified_text(verified: &Verified, args: &DeltaVerifyArgs) -> String {
    let same = match &args.against {
        Some(path) => format!(", the same bytes as {}", path.display()),
        None => String::new(),
    };
    let hashes = match &verified.hashes {
        KeptHashes::Unneeded | KeptHashes::Whole => String::new(),
        KeptHashes::MadeAgain(wrong) => {
            format!("; its hashes were rebuilt from the stored data; {wrong}")
        }
        KeptHashes::Wrong(wrong, why) => {
            format!("; its hashes are damaged: {wrong}; they cannot be rebuilt now: {why}")
        }
    };
    format!(
        "state {}: whole, {} from {}{same}{hashes}",
        verified.state,
        size(verified.bytes as f64),
        counted(verified.files, "file"),
    )
}

/// Writes a range of a file of a state to standard output.
fn cat(args: &DeltaCatArgs) -> Result<ExitStatus, Failure> {
    let series = Series::open(&args.series)?;
    let mut chain = series.chain(args.state)?;
    let from = args.from.map_or(0, |bytes| bytes.0);
    let to = match args.length {
        Some(length) => from.saturating_add(length.0),
        None => u64::MAX,
    };
    let mut out = output::shown_bytes().ok_or_else(|| Failure::Other {
        status: ExitStatus::Usage,
        message: "standard output is a terminal, and files of states are binary".into(),
        hint: Some("redirect it: `cvc delta cat ... > FILE`, or `| xxd`".into()),
    })?;
    let written = chain.read(&args.file, from..to, &mut |bytes| {
        out.write_all(bytes).map_err(|error| DeltaError {
            path: "standard output".into(),
            kind: DeltaErrorKind::Io {
                verb: "write",
                error,
            },
        })
    });
    match written {
        // a write error concerns standard output, because the command writes nothing else
        Err(DeltaError {
            kind:
                DeltaErrorKind::Io {
                    verb: "write",
                    error,
                },
            ..
        }) => Err(error.into()),
        written => {
            written?;
            out.flush()?;
            Ok(ExitStatus::Done)
        }
    }
}

fn prune(args: &DeltaPruneArgs) -> Result<ExitStatus, Failure> {
    let mut series = Series::open(&args.series)?;
    let removed = series.prune(args.keep)?;
    let bytes: u64 = removed.iter().map(|s| s.file_bytes).sum();
    let numbers =
        |states: &[cvc_delta::StateRecord]| states.iter().map(|s| s.state.to_string()).collect();
    let kept: Vec<String> = numbers(series.states());
    let gone: Vec<String> = numbers(&removed);
    let text = if gone.is_empty() {
        format!(
            "nothing to remove: all of {} are among the last states or needed to restore them",
            counted(kept.len(), "state")
        )
    } else {
        format!(
            "{} removed, {} freed: {}; left: {}",
            counted(gone.len(), "state"),
            size(bytes as f64),
            gone.join(", "),
            kept.join(", ")
        )
    };
    emit(paragraph("", &text));
    Ok(ExitStatus::Done)
}
