//! `cvc delta make`

use super::{
    bytes::{Bytes, bytes_of},
    document,
    settings::{FILES, named},
};
use crate::{
    args::DeltaMakeArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output::{emit, emit_json, note, versioned},
    text::paragraph,
};
use cvc_core::units::{duration, size};
use cvc_delta::{DeltaError, DeltaErrorKind, Series, SeriesOptions, StateRecord};
use cvc_delta_rules::{MethodName, Threshold};
use std::io;

pub fn make(args: &DeltaMakeArgs) -> Result<ExitStatus, Failure> {
    let (mut series, is_new) = open_or_create(args)?;
    // states are read to hash them, and again if they changed
    let progress = Bytes::start(bytes_of(&args.states), "MiB read");
    for state in &args.states {
        match series.add(state, &|bytes| progress.advance(bytes)) {
            Ok(record) => {
                for (state, wrong) in series.take_made_again() {
                    note(format!(
                        "rebuilt the hashes of state {state} from its stored data; {wrong}"
                    ));
                }
                report(args, &series, &record)?;
            }
            Err(error) => {
                progress.finish();
                if is_new {
                    series.remove_if_empty()?;
                }
                return Err(error.into());
            }
        }
    }
    progress.finish();
    Ok(ExitStatus::Done)
}

/// Opens or creates the series. Also returns whether it is new.
fn open_or_create(args: &DeltaMakeArgs) -> Result<(Series, bool), Failure> {
    if !Series::is_there(&args.series) {
        let asked = options(args, SeriesOptions::default())?;
        match Series::create(&args.series, asked) {
            Ok(series) => return Ok((series, true)),
            // another process created the series meanwhile
            Err(DeltaError {
                kind: DeltaErrorKind::Exists,
                ..
            }) if Series::is_there(&args.series) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let series = Series::open(&args.series)?;
    let asked = options(args, *series.options())?;
    refuse_others(args, series.options(), &asked)?;
    Ok((series, false))
}

fn report(args: &DeltaMakeArgs, series: &Series, record: &StateRecord) -> Result<(), Failure> {
    if args.json {
        let document = document::state(series, record)?;
        emit_json(serde_json::to_string(&versioned(document)).map_err(io::Error::from)?);
        return Ok(());
    }
    let took = duration(record.hash_s + record.store_s);
    let stored = size(record.file_bytes as f64);
    let content = size(record.content_bytes as f64);
    let what = match record.base {
        None => format!("in full, {content}"),
        Some(base) => format!(
            "against {base}, {} of {content} changed",
            size(record.changed_bytes as f64)
        ),
    };
    let moves = series.options().method.threshold().is_some();
    let base = if moves && record.becomes_base && record.base.is_some() {
        "; base of the next ones"
    } else {
        ""
    };
    emit(paragraph(
        "",
        &format!(
            "state {}: {what}, {stored} stored, {took}{base}",
            record.state
        ),
    ));
    Ok(())
}

/// Returns the options of a series, in which the options of the command line replace `options`.
fn options(args: &DeltaMakeArgs, mut options: SeriesOptions) -> Result<SeriesOptions, Failure> {
    let known = options.method;
    let name = args.method.unwrap_or(known.name());
    let has_threshold = matches!(name, MethodName::Adca | MethodName::Bounded);
    let foreign = [
        (
            "--threshold",
            args.threshold.is_some() && !has_threshold,
            "adca and bounded",
        ),
        (
            "--files",
            args.files.is_some() && name != MethodName::Bounded,
            "bounded",
        ),
    ];
    if let Some((option, _, of)) = foreign.iter().find(|(_, is_foreign, _)| *is_foreign) {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!(
                "{option} is an option of {of}, but the method is {}",
                name.as_str()
            ),
            hint: Some("leave it out, or choose another --method".into()),
        });
    }
    options.method = name.with(
        args.threshold
            .or(known.threshold())
            .unwrap_or(Threshold::DEFAULT),
        args.files.or(known.files()).unwrap_or(FILES),
    );
    if let Some(block) = args.block {
        options.block_bytes = block;
    }
    if let Some(codec) = args.codec {
        options.codec = codec;
    }
    if let Some(transform) = args.transform {
        options.transform = transform;
    }
    if let Some(packet) = args.packet {
        options.packet_blocks = packet;
    }
    if let Some(by) = args.by {
        options.addressing = by;
    }
    Ok(options)
}

/// Returns an error if options differ from those of the existing series, because all states of a series are stored in the same way.
fn refuse_others(
    args: &DeltaMakeArgs,
    has: &SeriesOptions,
    asked: &SeriesOptions,
) -> Result<(), Failure> {
    let packet = |blocks: u32| match blocks {
        0 => "stream".to_owned(),
        blocks => blocks.to_string(),
    };
    let block = |options: &SeriesOptions| size(options.block_bytes.bytes() as f64);
    let differing: Vec<String> = [
        ("method", named(has.method), named(asked.method)),
        ("block", block(has), block(asked)),
        (
            "codec",
            has.codec.as_str().into(),
            asked.codec.as_str().into(),
        ),
        (
            "transform",
            has.transform.as_str().into(),
            asked.transform.as_str().into(),
        ),
        (
            "packet",
            packet(has.packet_blocks),
            packet(asked.packet_blocks),
        ),
        (
            "by",
            has.addressing.as_str().into(),
            asked.addressing.as_str().into(),
        ),
    ]
    .into_iter()
    .filter(|(_, has, asked)| has != asked)
    .map(|(what, has, asked)| format!("{what} {has} (asked: {asked})"))
    .collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(Failure::Other {
        status: ExitStatus::Usage,
        message: format!(
            "{}: this series was created with {}",
            args.series.display(),
            differing.join("; ")
        ),
        hint: Some("leave these options out, or create another series".into()),
    })
}
