//! `cvc delta compare`: the bytes that each method would store for a series of checkpoints.

use super::{
    bytes::{Bytes, bytes_of},
    document::method_fields,
    settings::{named, times_less},
};
use crate::{
    args::DeltaCompareArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output::{self, emit, note},
};
use cvc_core::units::{counted, duration, size};
use cvc_delta::{Addressing, Matrix, Series, SeriesOptions, TimeSource};
use cvc_delta_rules::{Codec, Method, MethodName};
use cvc_os::{atomic_file::Durability, output_file};
use cvc_show::{Blocks, Table};
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    io::{self, Write},
    path::Path,
    time::Instant,
};

/// Minimum ratio of the full volume to the stored volume that is reported as a gain.
const WORTH: f64 = 1.1;

/// Bytes that a method stores for all states (checkpoints).
#[derive(Serialize)]
struct MethodVolume {
    #[serde(flatten, serialize_with = "method_fields")]
    method: Method,
    by: &'static str,
    total_bytes: u64,
    last_bytes: u64,
    files_to_restore_last: u32,
    most_files_to_restore: u32,
    /// For each state, numbered from 1, its base and its stored bytes.
    states: Vec<StoredState>,
}

#[derive(Serialize)]
struct StoredState {
    state: usize,
    base: Option<usize>,
    becomes_base: bool,
    stored_bytes: u64,
    files_to_restore: u32,
}

/// Measured sizes of the states with a codec.
#[derive(Serialize)]
struct PackedVolume {
    #[serde(flatten, serialize_with = "method_fields")]
    method: Method,
    codec: &'static str,
    total_bytes: u64,
    last_bytes: u64,
    hash_s: f64,
    store_s: f64,
    restore_last_s: f64,
}

#[derive(Serialize)]
struct StatePair {
    from: usize,
    to: usize,
    distance_s: f64,
    changed_bytes: u64,
    bytes: u64,
}

pub fn compare(args: &DeltaCompareArgs) -> Result<ExitStatus, Failure> {
    let is_alone = args.csv.as_deref() == Some(Path::new("-"));
    let ways: Vec<Addressing> = match args.by {
        Some(by) => vec![by],
        None if is_alone => vec![Addressing::Address],
        None => vec![Addressing::Address, Addressing::Index],
    };
    let all = bytes_of(&args.states);
    let progress = Bytes::start(all * ways.len() as u64, "MiB read");
    let matrices: Result<Vec<(Addressing, Matrix)>, _> = ways
        .into_iter()
        .map(|by| {
            let report = |bytes| progress.advance(bytes);
            Ok((by, Matrix::read(&args.states, by, args.block, &report)?))
        })
        .collect::<Result<_, cvc_delta::DeltaError>>();
    progress.finish();
    let matrices = matrices?;
    if args.csv.is_some() && matrices.iter().any(|(_, of)| of.times == TimeSource::Files) {
        note(
            "warning: intervals come from file times: if the files were copied without `cp -p`, these show when",
        );
    }
    if let Some(path) = &args.csv {
        let text = csv(&matrices[0].1);
        if is_alone {
            output::shown().write_all(text.as_bytes())?;
            return Ok(ExitStatus::Done);
        }
        output_file::write(path, text.as_bytes(), Durability::Visible).map_err(|error| {
            Failure::Other {
                status: ExitStatus::Store,
                message: format!("cannot write {}: {error}", path.display()),
                hint: None,
            }
        })?;
    }
    let methods: Vec<MethodVolume> = MethodName::ALL
        .into_iter()
        .flat_map(|name| matrices.iter().map(move |of| (name, of)))
        .map(|(name, (by, matrix))| stored(name.with(args.threshold, args.files), *by, matrix))
        .collect();
    let packed = match args.pack {
        Some(name) => pack(args, name.with(args.threshold, args.files), all)?,
        None => Vec::new(),
    };
    if args.json {
        let pairs = matrices
            .iter()
            .map(|(by, matrix)| json!({ "by": by.as_str(), "pairs": pairs(matrix) }));
        output::print_json(&output::versioned(json!({
            "states": given(args, &matrices[0].1),
            "block_bytes": args.block.bytes(),
            "methods": methods,
            "packed": packed,
            "pairs": pairs.collect::<Vec<_>>(),
        })))?;
        return Ok(ExitStatus::Done);
    }
    if let Some(path) = &args.csv {
        emit(path.display());
    }
    let mut out = Blocks::default();
    // the text for `bounded` contains all settings
    let limits = named(MethodName::Bounded.with(args.threshold, args.files));
    let limits = limits
        .replace("bounded, ", "adca and bounded with ")
        .replace(", at most", ", bounded with at most");
    show(
        &mut out,
        &matrices[0].1,
        &methods,
        args.block.bytes(),
        &limits,
    );
    if let Some(name) = args.pack {
        let method = named(name.with(args.threshold, args.files));
        show_packed(&mut out, &method, &packed);
    }
    output::print(&out)?;
    Ok(ExitStatus::Done)
}

fn given(args: &DeltaCompareArgs, matrix: &Matrix) -> Vec<Value> {
    let facts = matrix.taken_s.iter().zip(&matrix.bytes);
    (1..)
        .zip(args.states.iter().zip(facts))
        .map(|(n, (path, (taken_s, bytes)))| {
            json!({ "state": n, "path": path.display().to_string(), "taken_unix_s": taken_s, "bytes": bytes })
        })
        .collect()
}

fn stored(method: Method, by: Addressing, matrix: &Matrix) -> MethodVolume {
    let choices = matrix.choices(method);
    let last = choices.last();
    MethodVolume {
        method,
        by: by.as_str(),
        total_bytes: choices.iter().map(|c| c.bytes).sum(),
        last_bytes: last.map_or(0, |c| c.bytes),
        files_to_restore_last: last.map_or(0, |c| c.files),
        most_files_to_restore: choices.iter().map(|c| c.files).max().unwrap_or(0),
        states: choices
            .iter()
            .enumerate()
            .map(|(n, choice)| StoredState {
                state: n + 1,
                base: choice.base.map(|base| base + 1),
                becomes_base: choice.becomes_base,
                stored_bytes: choice.bytes,
                files_to_restore: choice.files,
            })
            .collect(),
    }
}

fn pairs(matrix: &Matrix) -> Vec<StatePair> {
    (1..matrix.len())
        .flat_map(|to| (0..to).map(move |from| (from, to)))
        .map(|(from, to)| StatePair {
            from: from + 1,
            to: to + 1,
            distance_s: matrix.taken_s[to] - matrix.taken_s[from],
            changed_bytes: matrix.changed(to, from),
            bytes: matrix.bytes[to],
        })
        .collect()
}

fn csv(matrix: &Matrix) -> String {
    let mut text = "from,to,distance_s,changed_bytes,bytes\n".to_owned();
    for pair in pairs(matrix) {
        let _ = writeln!(
            text,
            "{},{},{:.3},{},{}",
            pair.from, pair.to, pair.distance_s, pair.changed_bytes, pair.bytes
        );
    }
    text
}

/// Stores the states with each codec, and restores the last state.
fn pack(args: &DeltaCompareArgs, method: Method, all: u64) -> Result<Vec<PackedVolume>, Failure> {
    let in_temporary = |error: io::Error| Failure::Other {
        status: ExitStatus::Store,
        message: format!(
            "cannot make a temporary directory in {}: {error}",
            std::env::temp_dir().display()
        ),
        hint: Some("set TMPDIR to another directory".into()),
    };
    let progress = Bytes::start(all * Codec::ALL.len() as u64, "MiB packed");
    let mut packed = Vec::new();
    for codec in Codec::ALL {
        let dir = tempfile::Builder::new()
            .prefix("cvc-delta-")
            .tempdir()
            .map_err(in_temporary)?;
        let options = SeriesOptions {
            method,
            block_bytes: args.block,
            codec,
            ..SeriesOptions::default()
        };
        let mut series = Series::create(&dir.path().join("series"), options)?;
        for state in &args.states {
            series.add(state, &|bytes| progress.advance(bytes))?;
        }
        let states = series.states();
        let last = states.last().map_or(1, |s| s.state);
        let begin = Instant::now();
        series.restore(last, &dir.path().join("restored"), &|_| {})?;
        packed.push(PackedVolume {
            method,
            codec: codec.as_str(),
            total_bytes: states.iter().map(|s| s.file_bytes).sum(),
            last_bytes: states.last().map_or(0, |s| s.file_bytes),
            hash_s: states.iter().map(|s| s.hash_s).sum(),
            store_s: states.iter().map(|s| s.store_s).sum(),
            restore_last_s: begin.elapsed().as_secs_f64(),
        });
    }
    progress.finish();
    Ok(packed)
}

/// Returns the method that stores the fewest bytes; of equal ones, the method with the fewest files.
fn least(methods: &[MethodVolume]) -> Option<&MethodVolume> {
    methods
        .iter()
        .min_by_key(|m| (m.total_bytes, m.most_files_to_restore))
}

fn in_a_sentence(matrix: &Matrix, methods: &[MethodVolume], block_bytes: u64) -> String {
    let full: u64 = matrix.bytes.iter().sum();
    let Some(least) = least(methods) else {
        return String::new();
    };
    let files = |of: &MethodVolume| counted(of.most_files_to_restore, "file");
    if (full as f64) < WORTH * least.total_bytes as f64 {
        return format!(
            "Deltas do not pay: of {} of {} in blocks of {}, the best method ({} by {}) stores {} instead of {}.",
            counted(matrix.len(), "state"),
            size(full as f64),
            size(block_bytes as f64),
            named(least.method),
            least.by,
            size(least.total_bytes as f64),
            size(full as f64)
        );
    }
    format!(
        "The smallest volume is stored by {}, by {} in blocks of {}: {} instead of {} for {}, {} times less; a restore needs up to {}.",
        named(least.method),
        least.by,
        size(block_bytes as f64),
        size(least.total_bytes as f64),
        size(full as f64),
        counted(matrix.len(), "state"),
        times_less(least.total_bytes, full),
        files(least)
    )
}

fn show(
    out: &mut Blocks,
    matrix: &Matrix,
    methods: &[MethodVolume],
    block_bytes: u64,
    limits: &str,
) {
    out.say(in_a_sentence(matrix, methods, block_bytes));
    out.gap();
    let full: u64 = matrix.bytes.iter().sum();
    let rows = Table::of(
        methods,
        &[
            ("method", &|m| m.method.as_str().to_owned()),
            ("by", &|m| m.by.to_owned()),
            ("all", &|m| size(m.total_bytes as f64)),
            ("last", &|m| size(m.last_bytes as f64)),
            ("times less", &|m| times_less(m.total_bytes, full)),
            ("files, most", &|m| m.most_files_to_restore.to_string()),
            ("files, last", &|m| m.files_to_restore_last.to_string()),
        ],
    );
    out.table(rows);
    out.say(format!(
        "Blocks before compression, without the headers of images; {limits}."
    ));
}

fn show_packed(out: &mut Blocks, method: &str, packed: &[PackedVolume]) {
    out.gap();
    out.say(format!(
        "Stored by address with {method}, and the last one restored:"
    ));
    out.gap();
    let rows = Table::of(
        packed,
        &[
            ("codec", &|c| c.codec.to_owned()),
            ("all", &|c| size(c.total_bytes as f64)),
            ("last", &|c| size(c.last_bytes as f64)),
            ("hash", &|c| duration(c.hash_s)),
            ("store", &|c| duration(c.store_s)),
            ("restore", &|c| duration(c.restore_last_s)),
        ],
    );
    out.table(rows);
}
