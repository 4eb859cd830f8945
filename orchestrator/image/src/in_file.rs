//! What the parts of a gzip'd image take of its file.

use super::owner_sums::{OwnerBytes, Part};
use serde::{Deserialize, Serialize};

/// Bytes of a compressed file by what they hold, by the owner rules. Sums up to the length of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFile {
    /// Data of the parts.
    pub owner: OwnerBytes,
    /// Headers, and what belongs to the compressed stream itself.
    pub headers: u64,
}

impl InFile {
    /// Sums up regions, each a part with its stored bytes, of which is known what it takes, and divides private anonymous memory between program and libraries as the
    /// zones are divided: which bytes of it are whose nothing tells, so both are taken to be compressed alike.
    pub(super) fn of(
        regions: impl Iterator<Item = (Part, u64)>,
        in_file: &[f64],
        stored: &OwnerBytes,
        file_bytes: u64,
    ) -> Self {
        let (mut all, mut found) = ([0_u64; Part::ALL.len()], [0.0; Part::ALL.len()]);
        for ((part, stored_bytes), bytes) in regions.zip(in_file) {
            all[part as usize] += stored_bytes;
            found[part as usize] += bytes;
        }
        for part in [Part::Allocated, Part::Heap] {
            let (whole, kept) = (all[part as usize], stored.get(part));
            if kept < whole {
                let given = found[part as usize] * (whole - kept) as f64 / whole as f64;
                found[part as usize] -= given;
                found[Part::LibraryMemory as usize] += given;
            }
        }
        let mut owner = OwnerBytes::default();
        let mut left = file_bytes;
        for part in Part::ALL {
            let bytes = (found[part as usize].round().max(0.0) as u64).min(left);
            owner.add(part, bytes);
            left -= bytes;
        }
        Self {
            owner,
            headers: left,
        }
    }
}
