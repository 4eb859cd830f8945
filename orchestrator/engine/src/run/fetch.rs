//! Fetches files from other nodes.

use super::{
    failure::RunFailure,
    nodes::{AllocatedNodes, LATER},
};
use crate::crew;
use camino::Utf8Path;
use cvc_core::{outcome::Cause, store::StoreError};
use cvc_probe::sentinel::FileFound;
use std::{fs, io::Write};

/// Copies a file from another node to this machine.
///
/// # Errors
/// The file cannot be read there, or not written here.
pub(crate) async fn fetch(
    used: &AllocatedNodes,
    node: &str,
    file: &FileFound,
    here: &Utf8Path,
) -> Result<(), RunFailure> {
    let unwritten = |error: std::io::Error| {
        let error = StoreError::io("write", here)(error);
        RunFailure::new(
            if error.is_full_disk() {
                Cause::DiskFull
            } else {
                Cause::Store
            },
            error.to_string(),
        )
    };
    let unread = |why: String| {
        RunFailure::new(
            Cause::NodeLost,
            format!("{here} of {node} cannot be fetched: {why}"),
        )
    };
    let mut copy = fs::File::create(here).map_err(unwritten)?;
    let mut offset = 0;
    while offset < file.bytes {
        let parts = used.crew.part(&[node], &file.path, offset, LATER).await;
        let parts = crew::whole(parts).map_err(|e| unread(e.to_string()))?;
        let bytes = parts
            .first()
            .map_or(Ok(Vec::new()), |(_, part)| part.bytes())
            .map_err(|e| unread(e.to_string()))?;
        if bytes.is_empty() {
            return Err(unread(format!(
                "it has {offset} bytes, not the {} that were listed",
                file.bytes
            )));
        }
        copy.write_all(&bytes).map_err(unwritten)?;
        offset += bytes.len() as u64;
    }
    Ok(())
}
