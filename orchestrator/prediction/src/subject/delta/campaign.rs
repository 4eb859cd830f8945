//! Series of a campaign: pairs of checkpoints, in total and by zone, and the effects of codecs on them.

use super::packing::{Packed, PackedState};
use cvc_core::record::names;
use cvc_index::{Index, SeriesStored, SeriesVolume, error::AnalysisError};
use cvc_model::delta::ChangedPair;
use std::collections::{BTreeMap, BTreeSet};

const MIB: f64 = (1u64 << 20) as f64;

/// A series: the checkpoints of one run, as pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct CampaignSeries {
    /// Identifier of the point.
    pub point: String,
    /// Identifier of the run.
    pub run: String,
    /// All pairs.
    pub pairs: Vec<ChangedPair>,
    /// Pairs by zone of memory, for pairs with known zones.
    pub zones: Vec<ZonePairs>,
}

/// Pairs in one zone of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct ZonePairs {
    /// Name of the zone.
    pub zone: String,
    /// The changes in the zone. `full_mib`, the maximum that can change, is the size of the zone or, if unknown, of the whole checkpoint.
    pub pairs: Vec<ChangedPair>,
}

/// Point, run, and checkpoints by number: the time of the request, and the bytes.
type RunStates = (String, String, BTreeMap<u32, (f64, f64)>);

/// Returns the series of each point of a campaign that has one, in the order of the campaign. The series is that of the point's run with the most
/// checkpoints; among equal runs, the first. Pairs that were taken at the same time are skipped.
///
/// # Errors
/// The index cannot be read.
pub fn series_of(index: &Index) -> Result<Vec<CampaignSeries>, AnalysisError> {
    let mut states: Vec<RunStates> = Vec::new();
    for state in index.series_states()? {
        let is_known = states.last().is_some_and(|(_, run, _)| *run == state.run);
        if !is_known {
            states.push((state.point, state.run, BTreeMap::new()));
        }
        if let Some((.., of)) = states.last_mut() {
            of.insert(state.ckpt, (state.at_s, state.bytes));
        }
    }
    let mut chosen: Vec<RunStates> = Vec::new();
    for found in states {
        match chosen.iter_mut().find(|(point, ..)| *point == found.0) {
            Some(known) if known.2.len() < found.2.len() => *known = found,
            Some(_) => {}
            None => chosen.push(found),
        }
    }
    let mut series: Vec<CampaignSeries> = Vec::new();
    let changes = index.series_changes()?;
    let sizes = index.zone_sizes()?;
    for (point, run, of) in chosen {
        let (mut pairs, mut zones) = (Vec::new(), BTreeMap::<String, Vec<ChangedPair>>::new());
        for change in changes.iter().filter(|c| c.run == run) {
            let (Some(older), Some(newer)) = (of.get(&change.since), of.get(&change.ckpt)) else {
                continue;
            };
            let pair = ChangedPair {
                from: change.since,
                to: change.ckpt,
                distance_s: newer.0 - older.0,
                changed_mib: change.bytes / MIB,
                full_mib: newer.1 / MIB,
            };
            if pair.distance_s > 0.0 {
                let Some(zone) = &change.zone else {
                    pairs.push(pair);
                    continue;
                };
                let size = sizes.iter().find(|s| s.run == run && s.zone == *zone);
                zones.entry(zone.clone()).or_default().push(ChangedPair {
                    full_mib: size.map_or(pair.full_mib, |s| {
                        (s.bytes / MIB).max(pair.changed_mib).max(f64::MIN_POSITIVE)
                    }),
                    ..pair
                });
            }
        }
        if !pairs.is_empty() {
            let zones = zones
                .into_iter()
                .map(|(zone, pairs)| ZonePairs { zone, pairs });
            series.push(CampaignSeries {
                point,
                run,
                pairs,
                zones: zones.collect(),
            });
        }
    }
    Ok(series)
}

/// Returns the MiB of the blocks in all files that restore a checkpoint with a method; `None` if a base in the chain is unknown.
fn chain_mib(volumes: &[&SeriesVolume], method: &str, ckpt: u32) -> Option<f64> {
    let (mut mib, mut next) = (0.0, ckpt);
    loop {
        let of = volumes
            .iter()
            .find(|v| v.method == method && v.ckpt == next)?;
        mib += of.bytes / MIB;
        match of.base {
            Some(base) if base < next => next = base,
            None if next == 1 || method == "full" => return Some(mib),
            Some(_) | None => return None,
        }
    }
}

/// Returns the effects of codecs on the series of a point, by block size, from records of stored files; empty if the campaign has none. Checkpoints
/// stored while the program ran have no store time, because the program used the cores at the same time.
///
/// # Errors
/// The index cannot be read.
pub fn packed_of(index: &Index, point: &str) -> Result<Vec<Packed>, AnalysisError> {
    let of_point = |name: &str| -> Result<Vec<SeriesStored>, AnalysisError> {
        let mut records = index.series_stored(name)?;
        records.retain(|r| r.point == point);
        Ok(records)
    };
    let (bytes, store_s, restore_s) = (
        of_point(names::SERIES_FILE_BYTES)?,
        of_point(names::SERIES_STORE_S)?,
        of_point(names::SERIES_RESTORE_S)?,
    );
    let all = index.series_volumes()?;
    let volumes: Vec<&SeriesVolume> = all.iter().filter(|v| v.point == point).collect();
    let ways: BTreeSet<(u32, String)> = bytes.iter().map(|r| (r.block, r.codec.clone())).collect();
    let mut packed = Vec::new();
    for (block, codec) in ways {
        let mut states = Vec::new();
        for file in bytes
            .iter()
            .filter(|r| r.block == block && r.codec == codec)
        {
            let is_same = |r: &&SeriesStored| {
                (r.block, &r.codec, &r.method, r.ckpt)
                    == (file.block, &file.codec, &file.method, file.ckpt)
            };
            // the volumes in records are those of pages
            let volume = volumes
                .iter()
                .find(|v| v.method == file.method && v.ckpt == file.ckpt && v.bytes > 0.0);
            let Some(volume) = volume else {
                continue;
            };
            let stored = store_s.iter().find(is_same).filter(|r| !r.is_live);
            let restored_s = restore_s.iter().find(is_same).map(|r| r.value);
            states.push(PackedState {
                is_full: file.ckpt == 1 || file.method == "full",
                blocks_mib: volume.bytes / MIB,
                file_mib: file.value / MIB,
                store_s: stored.map(|r| r.value),
                restored: chain_mib(&volumes, &file.method, file.ckpt).zip(restored_s),
                method: file.method.clone(),
                state: file.ckpt,
            });
        }
        packed.push(Packed {
            codec,
            block_bytes: u64::from(block),
            states,
        });
    }
    Ok(packed)
}
