//! The file of a state: packets with the stored blocks, then tables with the source of each block of each file.
//!
//! ```text
//! "cvcdelt", version                         8 bytes
//! packets                                    each Q stored blocks, compressed
//! tables: head (JSON), index of packets,     sections: length (8), checksum (16), bytes;
//!         lengths of blocks,                 all but the head and frames are
//!         for each file its frame, extents,  compressed with zstd
//!         references, moved blocks
//! where the tables begin, "cvcdelt", version 16 bytes
//! ```
//!
//! All numbers are little-endian. Each packet and each table has a checksum: damage can be located, and everything else stays readable. Files of
//! version 1 have no table of moved blocks and no references to moved blocks.

mod read;
pub mod wire;
mod write;

pub use read::StateFile;
pub use write::{StateWriter, WrittenDelta};

use crate::hash::digest_of_state;
use cvc_delta_rules::{Addressing, BlockSize, Codec, Transform};
use serde::{Deserialize, Serialize};

/// First and last bytes of a file. The last byte of this constant is the format version.
const MAGIC: [u8; 8] = *b"cvcdelt\x02";
/// First format version with references to blocks that the base has at another place.
const WITH_MOVED: u8 = 2;
/// Length of an index entry, bytes: offset (8), compressed length (8), uncompressed length (8), checksum (16).
const INDEX_ENTRY: usize = 40;

/// Where the content of a block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The base's block at the same place.
    Base,
    /// None: the block is all zeros.
    Zero,
    /// The stored block with this number in this file.
    Stored(u32),
    /// The XOR of the stored block with this number and the base's block at the same place.
    Xored(u32),
    /// The base's block at another place, which is this entry in the file's table of moved blocks.
    Moved(u32),
}

/// Code of all references to moved blocks. It needs no number: the first such reference means the first entry in the table of moved blocks, and so on.
const MOVED: u32 = u32::MAX;

impl Reference {
    fn code(self) -> u32 {
        match self {
            Self::Base => 0,
            Self::Zero => 1,
            Self::Stored(n) => 2 + 2 * n,
            Self::Xored(n) => 3 + 2 * n,
            Self::Moved(_) => MOVED,
        }
    }

    /// Decodes a reference. `moved` is the number of moved blocks before it; it is increased for a moved block.
    fn of(code: u32, moved: &mut u32) -> Self {
        match code {
            0 => Self::Base,
            1 => Self::Zero,
            MOVED => {
                *moved += 1;
                Self::Moved(*moved - 1)
            }
            n if n % 2 == 0 => Self::Stored((n - 2) / 2),
            n => Self::Xored((n - 3) / 2),
        }
    }
}

/// Maximum number of blocks that a file can store: their codes must be below `MOVED`.
pub const MAX_STORED: u32 = (u32::MAX - 3) / 2;

/// A state and how it is stored; the head of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaSummary {
    /// Number of the state in the series, from 1.
    pub state: u32,
    /// The state that this one is stored against; `None` if it is stored in full.
    pub base: Option<BaseRef>,
    /// The addressing of blocks.
    pub addressing: Addressing,
    /// Size of a block, bytes.
    pub block_bytes: BlockSize,
    /// Compression of packets.
    pub codec: Codec,
    /// The transform of blocks before compression.
    pub transform: Transform,
    /// Number of blocks in a packet; 0 if all blocks are one stream.
    pub packet_blocks: u32,
    /// Number of stored blocks.
    pub stored_blocks: u32,
    /// Digest of the state; covers the names and digests of all its files.
    pub digest: String,
    /// The files of the state, images or not.
    pub images: Vec<ImageEntry>,
    /// Symbolic links of the state: name and target.
    pub links: Vec<(String, String)>,
}

impl DeltaSummary {
    /// Computes the digest of the state from its names, permissions, digests of files, and links.
    #[must_use]
    pub fn digest_of_files(&self) -> String {
        let files = self.images.iter();
        let files = files.map(|i| (i.name.as_str(), i.mode, i.digest.as_str()));
        digest_of_state(files, &self.links)
    }
}

/// The base of a delta.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseRef {
    /// Number of the base in the series.
    pub state: u32,
    /// Digest of the base.
    pub digest: String,
}

/// A file of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageEntry {
    /// Name relative to the directory of the state.
    pub name: String,
    /// Length of the uncompressed content, bytes.
    pub bytes: u64,
    /// Permissions of the file.
    pub mode: u32,
    /// Whether the original was gzip-compressed. Its content is stored and restored uncompressed.
    pub gzip: bool,
    /// DMTCP's identifier of the process in an image: host, pid and time.
    pub unique_pid: Option<String>,
    /// Digest of the content: 128 bits of BLAKE3 over the layout, the hashes of all blocks, and the hash of the frame.
    pub digest: String,
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes of blocks that differ from the base's blocks at the same place; in a full state, all bytes of blocks.
    pub changed_bytes: u64,
    /// The part of `changed_bytes` in blocks that the base has at another place; these are not stored again.
    #[serde(default)]
    pub moved_bytes: u64,
    /// Bytes outside blocks, such as the headers of an image.
    pub frame_bytes: u64,
}
