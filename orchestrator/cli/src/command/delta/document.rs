//! The JSON of `cvc delta`. As the keys say, lengths are in bytes and times in seconds.

use cvc_delta::{
    Addressing, Change, DeltaError, KeptHashes, PageChanges, Series, SeriesOptions, StateFile,
    StateRecord, Transform, Verified,
};
use cvc_delta_rules::{Codec, Method, Threshold};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::path::Path;

/// Returns a method with its parameters as fields; a parameter that the method does not have is null.
pub fn method(of: Method) -> Value {
    let (threshold, most_files) = (of.threshold(), of.files());
    let (ratio, bytes) = match threshold {
        // JSON has no infinite number
        Some(Threshold::Ratio(ratio)) if ratio.is_infinite() => (json!("infinite"), None),
        Some(Threshold::Ratio(ratio)) => (json!(ratio), None),
        Some(Threshold::Bytes(bytes)) => (Value::Null, Some(bytes)),
        None => (Value::Null, None),
    };
    json!({ "method": of.as_str(), "threshold_ratio": ratio, "threshold_bytes": bytes, "most_files": most_files })
}

/// Merges the fields of several objects.
fn together(objects: impl IntoIterator<Item = Value>) -> Value {
    let all = objects.into_iter().filter_map(|object| match object {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    Value::Object(all.flatten().collect())
}

/// Returns the fields that describe how blocks are stored.
fn storing(by: Addressing, block: u64, codec: Codec, transform: Transform, packet: u32) -> Value {
    // null means that all blocks form one stream
    let packet = Some(packet).filter(|blocks| *blocks > 0);
    json!({ "by": by.as_str(), "block_bytes": block, "codec": codec.as_str(), "transform": transform.as_str(), "packet_blocks": packet })
}

fn options(of: &SeriesOptions) -> Value {
    let block = of.block_bytes.bytes();
    together([
        method(of.method),
        storing(
            of.addressing,
            block,
            of.codec,
            of.transform,
            of.packet_blocks,
        ),
    ])
}

/// Returns a state of a series. `base` is null for a state stored in full; `new_bytes` (before compression) is null for a state stored by older
/// versions.
pub fn state(series: &Series, of: &StateRecord) -> Result<Value, DeltaError> {
    Ok(json!({
        "state": of.state,
        "base": of.base,
        "becomes_base": of.becomes_base,
        "file": of.file,
        "source": of.source,
        "taken_unix_s": of.taken_s,
        "content_bytes": of.content_bytes,
        "changed_bytes": of.changed_bytes,
        "moved_bytes": of.moved_bytes,
        "new_bytes": of.new_bytes,
        "changed_since_base_bytes": of.volumes.map(|v| v.since_base),
        "changed_since_previous_bytes": of.volumes.map(|v| v.since_previous),
        "stored_bytes": of.file_bytes,
        "packed_bytes": of.packet_bytes,
        "hashes_bytes": of.signature_bytes,
        "files_to_restore": series.chain_of(of.state)?.len(),
        "hash_s": of.hash_s,
        "store_s": of.store_s,
        "digest": of.digest,
    }))
}

/// Returns a series.
pub fn series(path: &Path, of: &Series) -> Result<Value, DeltaError> {
    let sum = |field: fn(&StateRecord) -> u64| of.states().iter().map(field).sum::<u64>();
    let states = of.states().iter().map(|record| state(of, record));
    Ok(json!({
        "series": path.display().to_string(),
        "options": options(of.options()),
        "content_bytes": sum(|s| s.content_bytes),
        "stored_bytes": sum(|s| s.file_bytes),
        "hashes_bytes": of.kept_hashes_bytes(),
        "states": states.collect::<Result<Vec<_>, _>>()?,
    }))
}

/// Returns a file of a state.
pub fn file(of: &StateFile) -> Value {
    let summary = of.summary();
    let block = summary.block_bytes.bytes();
    let images = summary.images.iter();
    let head = json!({
        "file": of.path().display().to_string(),
        "state": summary.state,
        "base": summary.base.as_ref().map(|base| base.state),
    });
    let rest = json!({
        "packets": of.packets(),
        "stored_blocks": summary.stored_blocks,
        "stored_bytes": of.file_bytes(),
        "content_bytes": images.clone().map(|i| i.bytes).sum::<u64>(),
        "changed_bytes": images.clone().map(|i| i.changed_bytes).sum::<u64>(),
        "moved_bytes": images.clone().map(|i| i.moved_bytes).sum::<u64>(),
        "new_bytes": of.new_bytes(),
        "digest": summary.digest,
        "files": images.map(|image| json!({
            "name": image.name,
            "content_bytes": image.bytes,
            "header_bytes": image.frame_bytes,
            "blocks": image.blocks,
            "changed_bytes": image.changed_bytes,
            "moved_bytes": image.moved_bytes,
            // whether the image was a gzip'd file; it is restored uncompressed
            "gzip": image.gzip,
            "unique_pid": image.unique_pid,
            "digest": image.digest,
        })).collect::<Vec<_>>(),
        "links": summary.links.iter().map(|(name, to)| json!({ "name": name, "to": to })).collect::<Vec<_>>(),
    });
    let stored = storing(
        summary.addressing,
        block,
        summary.codec,
        summary.transform,
        summary.packet_blocks,
    );
    together([head, stored, rest])
}

/// Returns the result of `cvc delta verify` for a state: whether it can be restored, whether it equals the state given by `--against`, and its
/// hashes.
pub fn verified(state: u32, against: Option<&Path>, of: &Result<Verified, DeltaError>) -> Value {
    let verified = of.as_ref().ok();
    let (hashes, error, write_error) = match verified.map(|v| &v.hashes) {
        None => (None, None, None),
        Some(KeptHashes::Unneeded) => (Some("unneeded"), None, None),
        Some(KeptHashes::Whole) => (Some("whole"), None, None),
        Some(KeptHashes::MadeAgain(wrong)) => (Some("made again"), Some(wrong), None),
        Some(KeptHashes::Wrong(wrong, why)) => (Some("wrong"), Some(wrong), Some(why)),
    };
    json!({
        "state": state,
        "whole": verified.is_some(),
        "error": of.as_ref().err().map(ToString::to_string),
        "content_bytes": verified.map(|v| v.bytes),
        "files_to_restore": verified.map(|v| v.files),
        "against": against.map(|path| path.display().to_string()),
        "hashes": hashes,
        "hashes_error": error,
        "hashes_write_error": write_error,
    })
}

/// Returns the differences between two states: in total, by part of images, and in other files.
pub fn diff(old: &Path, new: &Path, block_bytes: u64, changes: &PageChanges) -> Value {
    let change = |of: Change| json!({ "bytes": of.bytes, "changed_bytes": of.changed, "new_bytes": of.new, "gone_bytes": of.gone });
    let parts = changes.parts.iter().map(|part| {
        let name = json!({ "zone": part.part.zone().as_str(), "part": part.part.as_str() });
        together([name, change(part.change)])
    });
    json!({
        "old": old.display().to_string(),
        "new": new.display().to_string(),
        "block_bytes": block_bytes,
        "total": change(changes.total()),
        "parts": parts.collect::<Vec<_>>(),
        "other_files": change(changes.other_files),
        "files_in_both": changes.files,
        "new_files": changes.new_files,
        "gone_files": changes.gone_files,
    })
}

/// Writes a method as the fields of [`method`].
pub fn method_fields<S: Serializer>(of: &Method, serializer: S) -> Result<S::Ok, S::Error> {
    method(*of).serialize(serializer)
}
