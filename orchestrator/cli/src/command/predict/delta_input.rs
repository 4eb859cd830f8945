//! Input of `cvc predict --delta`: a table of pairs, directories of checkpoints, or a campaign that took series of checkpoints.

use crate::command::records::warn_of_index;
use crate::{args::PredictArgs, exit_status::ExitStatus, failure::Failure, output::bar};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::units::ByteSize;
use cvc_delta::{
    Addressing, BlockSize, Codec, DeltaError, DeltaErrorKind, Matrix, Method, Parts, Series,
    SeriesOptions, Signature, TimeSource, changed_by_part,
};
use cvc_model::delta::ChangedPair;
use cvc_prediction::{
    delta::{
        CodecAnswer, Packed, PackedState, ZonePairs, packed_of, pairs_from_csv, pairs_of, series_of,
    },
    holdout::rebuild_index,
};
use cvc_session::campaigns::campaign_dir;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

/// Changes between checkpoints, by blocks of one size.
pub struct Input {
    /// Bytes of a block; `None` for a table of pairs.
    pub block_bytes: Option<u64>,
    /// Where the times of the checkpoints come from.
    pub times: TimeSource,
    /// All pairs of checkpoints with the volume that changed between them.
    pub pairs: Vec<ChangedPair>,
    /// The same pairs, by zone.
    pub zones: Vec<ZonePairs>,
    /// Measured codecs; empty if blocks are stored uncompressed.
    pub codecs: Vec<CodecAnswer>,
}

/// Maximum number of checkpoints that are stored to measure a codec.
const SAMPLE: usize = 4;
/// Minimum plausible time between checkpoints' files, seconds; a smaller difference comes from copying the files.
const SHORTEST_S: f64 = 1.0;
const MIB: f64 = (1u64 << 20) as f64;

/// Reads the input that the command line names, for each block size.
pub fn read(args: &PredictArgs, states: &[Utf8PathBuf]) -> Result<Vec<Input>, Failure> {
    let stored = &args.stored;
    let is_table = |path: &Utf8PathBuf| path.extension() == Some("csv");
    if stored.every.is_some() && (!args.from.is_empty() || states.iter().any(is_table)) {
        return Err(usage(
            "--every: a campaign and a table have the times of their checkpoints".into(),
            Some("leave it out, or give the directories of the checkpoints"),
        ));
    }
    if !args.from.is_empty() {
        if let Some(state) = states.first() {
            return Err(usage(
                format!("{state}: states in addition to --from"),
                Some("give either the states of a run or the campaign that took them"),
            ));
        }
        let [campaign] = args.from.as_slice() else {
            return Err(usage(
                "--delta --from: several campaigns".into(),
                Some("give only the one with the series"),
            ));
        };
        if !stored.block.is_empty() {
            return Err(usage(
                "--block: a campaign has only its recorded block sizes".into(),
                Some("leave it out; all are tried"),
            ));
        }
        return of_campaign(args, campaign);
    }
    if let Some(path) = states.iter().find(|p| is_table(p)) {
        if states.len() > 1 {
            return Err(usage(
                format!("{path}: a table of pairs in addition to other states"),
                Some("give one table, or directories of checkpoints"),
            ));
        }
        if !stored.block.is_empty() {
            return Err(usage(
                format!("{path}: --block: a table has one block size"),
                Some("give the directories of the checkpoints"),
            ));
        }
        if !stored.codec.is_empty() {
            return Err(usage(
                format!("{path}: --codec: a table has no data on codecs"),
                Some("give the directories of the checkpoints, or a campaign with --from"),
            ));
        }
        return Ok(vec![Input {
            block_bytes: None,
            times: TimeSource::Given,
            pairs: pairs_from_csv(path)?,
            zones: Vec::new(),
            codecs: Vec::new(),
        }]);
    }
    of_states(args, states)
}

fn of_states(args: &PredictArgs, states: &[Utf8PathBuf]) -> Result<Vec<Input>, Failure> {
    if states.len() < 2 {
        let message = if states.is_empty() {
            "--delta: no state"
        } else {
            "--delta: only one state; changes between checkpoints need two states of a run"
        };
        return Err(usage(
            message.into(),
            Some(
                "give the directories of consecutive checkpoints, oldest first, or a campaign with --from",
            ),
        ));
    }
    let mut sizes = args.stored.block.clone();
    if sizes.is_empty() {
        sizes.push(ByteSize(BlockSize::PAGE.bytes()));
    }
    sizes.sort_unstable();
    sizes.dedup();
    let mut all = Vec::new();
    for size in sizes {
        let block = BlockSize::new(size.0).map_err(|rule| {
            usage(
                format!("--block: {rule}"),
                Some("the minimum is a page, 4KiB"),
            )
        })?;
        let (mut matrix, zones) = compare(states, block).map_err(delta_failure)?;
        set_times(&mut matrix, args.stored.every, zones.has_images)?;
        let pairs = pairs_of(&matrix)?;
        all.push(Input {
            times: matrix.times,
            block_bytes: Some(block.bytes()),
            zones: zone_pairs(&matrix, &zones),
            codecs: measure(args, states, block)?,
            pairs,
        });
    }
    Ok(all)
}

/// Sizes of zones, and their changes between checkpoints, MiB.
#[derive(Default)]
struct ZoneVolumes {
    /// Whether the checkpoints contain images.
    has_images: bool,
    /// Size by zone and checkpoint.
    sizes: BTreeMap<(&'static str, usize), f64>,
    /// Changed volume by zone, newer and older checkpoint; a pair without an entry is unchanged.
    changed: BTreeMap<(&'static str, usize, usize), f64>,
}

/// Reads checkpoints, and compares each with all earlier ones.
fn compare(states: &[Utf8PathBuf], block: BlockSize) -> Result<(Matrix, ZoneVolumes), DeltaError> {
    let progress = bar();
    progress.set_message("reading states");
    let mut zones = ZoneVolumes::default();
    let mut each = |new: &Signature, parts: &Parts, before: &[Signature]| {
        let newer = before.len();
        zones.has_images |= !parts.is_empty();
        for (part, bytes) in parts.bytes(new) {
            *zones
                .sizes
                .entry((part.zone().as_str(), newer))
                .or_default() += bytes as f64 / MIB;
        }
        for (older, old) in before.iter().enumerate() {
            for (part, bytes) in changed_by_part(new, parts, old) {
                let at = (part.zone().as_str(), newer, older);
                *zones.changed.entry(at).or_default() += bytes as f64 / MIB;
            }
        }
    };
    let read = |bytes| progress.advance(bytes);
    let matrix = Matrix::read_each(states, Addressing::Address, block, &read, &mut each)?;
    progress.finish_and_clear();
    Ok((matrix, zones))
}

/// Sets the times of the checkpoints: at intervals of `every_s`, or from their files.
fn set_times(matrix: &mut Matrix, every_s: Option<f64>, has_images: bool) -> Result<(), Failure> {
    const HINT: &str = "add --every 60s if they were taken every minute, or DMTCP's dmtcp_restart_script*.sh, which has the time";
    if let Some(every_s) = every_s {
        matrix.taken_s = (0..matrix.len()).map(|n| n as f64 * every_s).collect();
        matrix.times = TimeSource::Given;
        return Ok(());
    }
    if matrix.times != TimeSource::Files {
        return Ok(());
    }
    let refuse = |message: String| Failure::Other {
        status: ExitStatus::Model,
        message,
        hint: Some(HINT.into()),
    };
    if has_images {
        return Err(refuse(
            "the times of these images are unknown: file times are those of a copy".into(),
        ));
    }
    let close = matrix.taken_s.windows(2).enumerate().find(|(_, t)| {
        let apart_s = t[1] - t[0];
        (0.0..SHORTEST_S).contains(&apart_s)
    });
    match close {
        Some((n, t)) => Err(refuse(format!(
            "the files of state {} are {:.3} s newer than those of state {}: these are times of a copy, not of checkpoints",
            n + 2,
            t[1] - t[0],
            n + 1
        ))),
        None => Ok(()),
    }
}

/// Returns all pairs for each zone that changed at all; a pair without a change in the zone has volume 0.
fn zone_pairs(matrix: &Matrix, zones: &ZoneVolumes) -> Vec<ZonePairs> {
    let names: BTreeSet<&'static str> = zones.changed.keys().map(|(zone, ..)| *zone).collect();
    let of = |zone: &'static str| {
        let pairs = (1..matrix.len()).flat_map(|newer| (0..newer).map(move |older| (newer, older)));
        let pair = |(newer, older): (usize, usize)| {
            let changed = zones.changed.get(&(zone, newer, older));
            let changed_mib = changed.copied().unwrap_or(0.0);
            let size = zones.sizes.get(&(zone, newer)).copied().unwrap_or(0.0);
            ChangedPair {
                from: older as u32,
                to: newer as u32,
                distance_s: matrix.taken_s[newer] - matrix.taken_s[older],
                changed_mib,
                full_mib: size.max(changed_mib).max(f64::MIN_POSITIVE),
            }
        };
        ZonePairs {
            zone: zone.to_owned(),
            pairs: pairs.map(pair).collect(),
        }
    };
    names.into_iter().map(of).collect()
}

/// Measures the codecs. For each codec, stores the first [`SAMPLE`] checkpoints as deltas to their predecessors, and restores the last of them.
fn measure(
    args: &PredictArgs,
    states: &[Utf8PathBuf],
    block: BlockSize,
) -> Result<Vec<CodecAnswer>, Failure> {
    let mut names = args.stored.codec.clone();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    // storing without a codec measures the write time alone
    let wants_none = names.contains(&Codec::None);
    names.retain(|name| *name != Codec::None);
    let sample = &states[..states.len().min(SAMPLE)];
    let progress = bar();
    progress.set_message("storing states");
    let plain = pack(sample, block, Codec::None, &|bytes| progress.advance(bytes))?;
    let mut answers: Vec<CodecAnswer> = Vec::new();
    answers.extend(plain.answer(None).filter(|_| wants_none));
    for name in names {
        let packed = pack(sample, block, name, &|bytes| progress.advance(bytes))?;
        answers.extend(packed.answer(Some(&plain)));
    }
    progress.finish_and_clear();
    if answers.is_empty() {
        return Err(usage(
            "--codec: nothing changed between the first states, so there is nothing to compress"
                .into(),
            Some("leave --codec out, or give states with computation in between"),
        ));
    }
    Ok(answers)
}

fn pack(
    states: &[Utf8PathBuf],
    block: BlockSize,
    codec: Codec,
    progress: &dyn Fn(u64),
) -> Result<Packed, Failure> {
    let dir = tempfile::Builder::new()
        .prefix("cvc-predict-")
        .tempdir()
        .map_err(|error| Failure::Other {
            status: ExitStatus::Store,
            message: format!(
                "cannot make a temporary directory in {}: {error}",
                std::env::temp_dir().display()
            ),
            hint: Some("set TMPDIR to another directory".into()),
        })?;
    let options = SeriesOptions {
        method: Method::Incremental,
        block_bytes: block,
        codec,
        ..SeriesOptions::default()
    };
    let mut series = Series::create(&dir.path().join("series"), options)?;
    for state in states {
        series.add(state.as_ref(), progress)?;
    }
    let records = series.states();
    let last = records.last().map_or(1, |s| s.state);
    let begin = Instant::now();
    series.restore(last, &dir.path().join("restored"), &|_| {})?;
    let restore_s = begin.elapsed().as_secs_f64();
    // restoring the last checkpoint reads all earlier ones
    let chain_mib = records.iter().map(|s| s.changed_bytes as f64 / MIB).sum();
    let state = |s: &cvc_delta::StateRecord| PackedState {
        method: "incremental".to_owned(),
        state: s.state,
        is_full: s.base.is_none(),
        blocks_mib: s.changed_bytes as f64 / MIB,
        file_mib: s.file_bytes as f64 / MIB,
        store_s: Some(s.store_s),
        restored: (s.state == last).then_some((chain_mib, restore_s)),
    };
    Ok(Packed {
        codec: codec.as_str().to_owned(),
        block_bytes: block.bytes(),
        states: records.iter().map(state).collect(),
    })
}

/// Returns the series of a campaign, one input for each block size that was recorded.
fn of_campaign(args: &PredictArgs, campaign: &Utf8Path) -> Result<Vec<Input>, Failure> {
    let dir = campaign_dir(campaign, None, &args.place.campaigns)?;
    let index = rebuild_index(dir.root())?;
    warn_of_index(dir.root(), &index)?;
    let mut series = series_of(&index)?;
    let known: Vec<String> = series.iter().map(|s| s.point.clone()).collect();
    if let Some(point) = &args.stored.point {
        series.retain(|s| s.point.starts_with(point.as_str()));
        if series.is_empty() {
            return Err(usage(
                format!(
                    "--point {point}: no point of {campaign} with this identifier has a series"
                ),
                Some(&format!("points with a series: {}", known.join(", "))),
            ));
        }
    }
    let Some(found) = series.first() else {
        return Err(Failure::Other {
            status: ExitStatus::Model,
            message: format!("{campaign}: no successful run has a series of checkpoints"),
            hint: Some(
                "a campaign takes one with `moment = { every_s = 60, count = 8 }` in [checkpoint]"
                    .into(),
            ),
        });
    };
    if series.len() > 1 {
        return Err(usage(
            format!("{campaign}: {} points have series", series.len()),
            Some(&format!("choose one with --point: {}", known.join(", "))),
        ));
    }
    let packed = packed_of(&index, &found.point)?;
    let wanted: Vec<&str> = args.stored.codec.iter().map(|name| name.as_str()).collect();
    if let Some(missing) = wanted
        .iter()
        .find(|w| packed.iter().all(|p| p.codec != **w))
    {
        let mut has: Vec<&str> = packed.iter().map(|p| p.codec.as_str()).collect();
        has.sort_unstable();
        has.dedup();
        let hint = if has.is_empty() {
            "leave --codec out: it stored no files, so uncompressed blocks count".to_owned()
        } else {
            format!("it has {}", has.join(", "))
        };
        return Err(usage(
            format!("--codec {missing}: {campaign} has no data on it"),
            Some(&hint),
        ));
    }
    let mut blocks: Vec<u64> = packed.iter().map(|p| p.block_bytes).collect();
    blocks.dedup();
    let input = |block_bytes: Option<u64>, codecs: Vec<CodecAnswer>| Input {
        block_bytes,
        times: TimeSource::Given,
        pairs: found.pairs.clone(),
        zones: found.zones.clone(),
        codecs,
    };
    let mut all = Vec::new();
    for block in blocks {
        let of = || packed.iter().filter(|p| p.block_bytes == block);
        let plain = of().find(|p| p.codec == "none");
        let is_wanted = |p: &&Packed| wanted.is_empty() || wanted.contains(&p.codec.as_str());
        let codecs: Vec<CodecAnswer> = of()
            .filter(is_wanted)
            .filter_map(|p| p.answer(plain))
            .collect();
        if !codecs.is_empty() {
            all.push(input(Some(block), codecs));
        }
    }
    if all.is_empty() {
        // records of series count changed pages
        all.push(input(Some(BlockSize::PAGE.bytes()), Vec::new()));
    }
    Ok(all)
}

pub(super) fn usage(message: String, hint: Option<&str>) -> Failure {
    Failure::Other {
        status: ExitStatus::Usage,
        message,
        hint: hint.map(str::to_owned),
    }
}

/// Converts an error about checkpoints that form no pairs.
fn delta_failure(error: DeltaError) -> Failure {
    let status = match error.kind {
        DeltaErrorKind::NoCommonProcess { .. } => ExitStatus::Usage,
        _ => ExitStatus::Unreadable,
    };
    Failure::Other {
        status,
        hint: error.hint().map(str::to_owned),
        message: error.to_string(),
    }
}
