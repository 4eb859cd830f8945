//! Sizes of the parts of an image in its gzip-compressed file.

use super::owner_sums::{OwnerBytes, Part};
use serde::{Deserialize, Serialize};

/// How many bytes of a compressed file belong to each part, by the owner rules. They add up to the length of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFile {
    /// Bytes of the data of each part.
    pub owner: OwnerBytes,
    /// Bytes of headers, and overhead of the compressed stream.
    pub headers: u64,
}

impl InFile {
    /// Sums the compressed sizes of regions by part. `regions` yields the part and the stored bytes of each region, `in_file` the compressed size of
    /// each region in the same order. `stored` has the bytes of each part after the libraries' share of private anonymous memory was moved to them.
    /// The same share of compressed bytes is moved, because the owner of a single byte is unknown.
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
