//! The JSON of `cvc delta`. Lengths are bytes and times are seconds, as their names say.

use cvc_delta::{
    Change, Changes, DeltaError, KeptHashes, Method, Series, SeriesOptions, StateFile, StateRecord,
    Threshold, Verified,
};
use serde::Serialize;
use std::path::Path;

/// A ratio; JSON has no infinite number.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Ratio {
    Finite(f64),
    Infinite(&'static str),
}

/// A method with what it was given; null is not of this method.
#[derive(Serialize)]
pub struct MethodDocument {
    method: &'static str,
    threshold_ratio: Option<Ratio>,
    threshold_bytes: Option<i64>,
    most_files: Option<u32>,
}

impl From<Method> for MethodDocument {
    fn from(method: Method) -> Self {
        let threshold = method.threshold();
        Self {
            method: method.as_str(),
            threshold_ratio: match threshold {
                Some(Threshold::Ratio(ratio)) if ratio.is_finite() => Some(Ratio::Finite(ratio)),
                Some(Threshold::Ratio(_)) => Some(Ratio::Infinite("infinite")),
                Some(Threshold::Bytes(_)) | None => None,
            },
            threshold_bytes: match threshold {
                Some(Threshold::Bytes(bytes)) => Some(bytes),
                Some(Threshold::Ratio(_)) | None => None,
            },
            most_files: method.files(),
        }
    }
}

#[derive(Serialize)]
struct OptionsDocument {
    #[serde(flatten)]
    method: MethodDocument,
    by: &'static str,
    block_bytes: u64,
    codec: &'static str,
    transform: &'static str,
    /// Null: all blocks are one stream.
    packet_blocks: Option<u32>,
}

impl From<&SeriesOptions> for OptionsDocument {
    fn from(options: &SeriesOptions) -> Self {
        Self {
            method: options.method.into(),
            by: options.addressing.as_str(),
            block_bytes: options.block_bytes.bytes(),
            codec: options.codec.as_str(),
            transform: options.transform.as_str(),
            packet_blocks: Some(options.packet_blocks).filter(|blocks| *blocks > 0),
        }
    }
}

/// A state of a series.
#[derive(Serialize)]
pub struct StateDocument<'a> {
    state: u32,
    /// Null: stored in full.
    base: Option<u32>,
    becomes_base: bool,
    file: &'a str,
    source: &'a str,
    taken_unix_s: f64,
    content_bytes: u64,
    changed_bytes: u64,
    /// Of the changed ones: what the base has at another place.
    moved_bytes: u64,
    /// What is stored, before compression; null of states that older versions stored.
    new_bytes: Option<u64>,
    changed_since_base_bytes: Option<u64>,
    changed_since_previous_bytes: Option<u64>,
    stored_bytes: u64,
    packed_bytes: u64,
    hashes_bytes: u64,
    files_to_restore: usize,
    hash_s: f64,
    store_s: f64,
    digest: &'a str,
}

impl<'a> StateDocument<'a> {
    pub fn new(series: &Series, record: &'a StateRecord) -> Result<Self, DeltaError> {
        Ok(Self {
            state: record.state,
            base: record.base,
            becomes_base: record.becomes_base,
            file: &record.file,
            source: &record.source,
            taken_unix_s: record.taken_s,
            content_bytes: record.content_bytes,
            changed_bytes: record.changed_bytes,
            moved_bytes: record.moved_bytes,
            new_bytes: record.new_bytes,
            changed_since_base_bytes: record.volumes.map(|v| v.since_base),
            changed_since_previous_bytes: record.volumes.map(|v| v.since_previous),
            stored_bytes: record.file_bytes,
            packed_bytes: record.packet_bytes,
            hashes_bytes: record.signature_bytes,
            files_to_restore: series.chain_of(record.state)?.len(),
            hash_s: record.hash_s,
            store_s: record.store_s,
            digest: &record.digest,
        })
    }
}

/// A series.
#[derive(Serialize)]
pub struct SeriesDocument<'a> {
    series: String,
    options: OptionsDocument,
    content_bytes: u64,
    stored_bytes: u64,
    hashes_bytes: u64,
    states: Vec<StateDocument<'a>>,
}

impl<'a> SeriesDocument<'a> {
    pub fn new(path: &Path, series: &'a Series) -> Result<Self, DeltaError> {
        let sum = |of: fn(&StateRecord) -> u64| series.states().iter().map(of).sum();
        Ok(Self {
            series: path.display().to_string(),
            options: series.options().into(),
            content_bytes: sum(|s| s.content_bytes),
            stored_bytes: sum(|s| s.file_bytes),
            hashes_bytes: series.kept_hashes_bytes(),
            states: series
                .states()
                .iter()
                .map(|record| StateDocument::new(series, record))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// A file of a state.
#[derive(Serialize)]
pub struct FileDocument<'a> {
    file: String,
    state: u32,
    base: Option<u32>,
    by: &'static str,
    block_bytes: u64,
    codec: &'static str,
    transform: &'static str,
    packet_blocks: Option<u32>,
    packets: usize,
    stored_blocks: u32,
    stored_bytes: u64,
    content_bytes: u64,
    changed_bytes: u64,
    moved_bytes: u64,
    new_bytes: u64,
    digest: &'a str,
    files: Vec<EntryDocument<'a>>,
    links: Vec<LinkDocument<'a>>,
}

#[derive(Serialize)]
struct EntryDocument<'a> {
    name: &'a str,
    content_bytes: u64,
    header_bytes: u64,
    blocks: u64,
    changed_bytes: u64,
    moved_bytes: u64,
    /// Was it gzip'd? It is restored uncompressed.
    gzip: bool,
    unique_pid: Option<&'a str>,
    digest: &'a str,
}

#[derive(Serialize)]
struct LinkDocument<'a> {
    name: &'a str,
    to: &'a str,
}

impl<'a> From<&'a StateFile> for FileDocument<'a> {
    fn from(file: &'a StateFile) -> Self {
        let summary = file.summary();
        Self {
            file: file.path().display().to_string(),
            state: summary.state,
            base: summary.base.as_ref().map(|base| base.state),
            by: summary.addressing.as_str(),
            block_bytes: summary.block_bytes.bytes(),
            codec: summary.codec.as_str(),
            transform: summary.transform.as_str(),
            packet_blocks: Some(summary.packet_blocks).filter(|blocks| *blocks > 0),
            packets: file.packets(),
            stored_blocks: summary.stored_blocks,
            stored_bytes: file.file_bytes(),
            content_bytes: summary.images.iter().map(|i| i.bytes).sum(),
            changed_bytes: summary.images.iter().map(|i| i.changed_bytes).sum(),
            moved_bytes: summary.images.iter().map(|i| i.moved_bytes).sum(),
            new_bytes: file.new_bytes(),
            digest: &summary.digest,
            files: summary
                .images
                .iter()
                .map(|image| EntryDocument {
                    name: &image.name,
                    content_bytes: image.bytes,
                    header_bytes: image.frame_bytes,
                    blocks: image.blocks,
                    changed_bytes: image.changed_bytes,
                    moved_bytes: image.moved_bytes,
                    gzip: image.gzip,
                    unique_pid: image.unique_pid.as_deref(),
                    digest: &image.digest,
                })
                .collect(),
            links: summary
                .links
                .iter()
                .map(|(name, to)| LinkDocument { name, to })
                .collect(),
        }
    }
}

/// What `cvc delta verify` found of a state.
#[derive(Serialize)]
pub struct VerifiedDocument {
    pub state: u32,
    /// Whether it can be restored, and is the same as what it was compared with.
    pub whole: bool,
    /// What is missing, damaged or differs; null: nothing.
    pub error: Option<String>,
    pub content_bytes: Option<u64>,
    pub files_to_restore: Option<usize>,
    /// What it was compared with.
    pub against: Option<String>,
    /// `unneeded`, `whole`, `made again` or `wrong`; null where the state is not whole.
    pub hashes: Option<&'static str>,
    /// What was wrong with them.
    pub hashes_error: Option<String>,
    /// Why they could not be made again.
    pub hashes_write_error: Option<String>,
}

impl VerifiedDocument {
    pub fn new(state: u32, against: Option<&Path>, of: &Result<Verified, DeltaError>) -> Self {
        let against = against.map(|path| path.display().to_string());
        let verified = of.as_ref().ok();
        let (hashes, hashes_error) = match verified.map(|v| &v.hashes) {
            None => (None, None),
            Some(KeptHashes::Unneeded) => (Some("unneeded"), None),
            Some(KeptHashes::Whole) => (Some("whole"), None),
            Some(KeptHashes::MadeAgain(wrong)) => (Some("made again"), Some(wrong.clone())),
            Some(KeptHashes::Wrong(wrong, _)) => (Some("wrong"), Some(wrong.clone())),
        };
        let hashes_write_error = match verified.map(|v| &v.hashes) {
            Some(KeptHashes::Wrong(_, why)) => Some(why.clone()),
            _ => None,
        };
        Self {
            state,
            whole: verified.is_some(),
            error: of.as_ref().err().map(ToString::to_string),
            content_bytes: verified.map(|v| v.bytes),
            files_to_restore: verified.map(|v| v.files),
            against,
            hashes,
            hashes_error,
            hashes_write_error,
        }
    }
}

/// What `cvc delta verify` found.
#[derive(Serialize)]
pub struct VerifyDocument {
    pub series: String,
    pub states: Vec<VerifiedDocument>,
    /// Files of states that the manifest does not know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// What differs of something.
#[derive(Serialize)]
struct ChangeDocument {
    /// All of the newer state.
    bytes: u64,
    /// In both at the same place, with another content.
    changed_bytes: u64,
    /// Only in the newer state.
    new_bytes: u64,
    /// Only in the older state.
    gone_bytes: u64,
}

impl From<Change> for ChangeDocument {
    fn from(change: Change) -> Self {
        Self {
            bytes: change.bytes,
            changed_bytes: change.changed,
            new_bytes: change.new,
            gone_bytes: change.gone,
        }
    }
}

#[derive(Serialize)]
struct PartDocument {
    zone: &'static str,
    part: &'static str,
    #[serde(flatten)]
    change: ChangeDocument,
}

/// What differs between two states.
#[derive(Serialize)]
pub struct DiffDocument<'a> {
    old: String,
    new: String,
    block_bytes: u64,
    total: ChangeDocument,
    parts: Vec<PartDocument>,
    other_files: ChangeDocument,
    files_in_both: usize,
    new_files: &'a [String],
    gone_files: &'a [String],
}

impl<'a> DiffDocument<'a> {
    pub fn new(old: &Path, new: &Path, block_bytes: u64, changes: &'a Changes) -> Self {
        Self {
            old: old.display().to_string(),
            new: new.display().to_string(),
            block_bytes,
            total: changes.total().into(),
            parts: changes
                .parts
                .iter()
                .map(|part| PartDocument {
                    zone: part.part.zone().as_str(),
                    part: part.part.as_str(),
                    change: part.change.into(),
                })
                .collect(),
            other_files: changes.other_files.into(),
            files_in_both: changes.files,
            new_files: &changes.new_files,
            gone_files: &changes.gone_files,
        }
    }
}
