//! The file of a state: packets with the blocks that it stores, then tables that say where each block of each file is.
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
//! All numbers are little-endian. Each packet and each table has a checksum, so that damage is found where it is, and everything else stays readable.
//! Files of version 1 have no table of moved blocks, and no reference to any.

mod read;
pub mod wire;
mod write;

pub use read::StateFile;
pub use write::{StateWriter, Written};

use crate::hash::digest_of_state;
use cvc_delta_rules::{Addressing, BlockSize, Codec, Transform};
use serde::{Deserialize, Serialize};

/// First and last bytes of a file; the last one is the version.
const MAGIC: [u8; 8] = *b"cvcdelt\x02";
/// The first version with references to blocks that the base has at another place.
const WITH_MOVED: u8 = 2;
/// Bytes of an entry of the index: offset (8), compressed (8), uncompressed (8), checksum (16).
const INDEX_ENTRY: usize = 40;

/// Where the content of a block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// From the base, at the same place.
    Base,
    /// Nothing but zeros.
    Zero,
    /// The `n`th stored block.
    Stored(u32),
    /// The same, as exclusive or with the base's.
    Xored(u32),
    /// From the base, at another place: the `n`th moved block of the file.
    Moved(u32),
}

/// The code of all moved blocks: which one it is follows from the order.
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

    /// `moved`: moved blocks before it.
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

/// Most blocks that a file can store: their codes end below that of moved blocks.
pub const MAX_STORED: u32 = (u32::MAX - 3) / 2;

/// What a state is, and how it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Its number in the series, from 1.
    pub state: u32,
    /// The state that it is stored against; none if it is stored in full.
    pub base: Option<BaseRef>,
    /// By what blocks are known.
    pub addressing: Addressing,
    /// Size of a block, bytes.
    pub block_bytes: BlockSize,
    /// How packets are compressed.
    pub codec: Codec,
    /// What is done to blocks before.
    pub transform: Transform,
    /// Blocks in a packet; 0 if all are one stream.
    pub packet_blocks: u32,
    /// Blocks that are stored.
    pub stored_blocks: u32,
    /// Digest of the state: of the names and digests of all its files.
    pub digest: String,
    /// Its files.
    pub images: Vec<ImageEntry>,
    /// Its symbolic links: name, and what they say.
    pub links: Vec<(String, String)>,
}

impl Summary {
    /// The digest that its names, permissions, digests of files and links have together.
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
    /// Its number in the series.
    pub state: u32,
    /// Its digest.
    pub digest: String,
}

/// A file of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageEntry {
    /// Its name, below the directory of the state.
    pub name: String,
    /// Length of its content, uncompressed, bytes.
    pub bytes: u64,
    /// Permissions.
    pub mode: u32,
    /// Was it gzip'd? Its content is stored, and restored, uncompressed.
    pub gzip: bool,
    /// The process of an image: host, pid and time, as DMTCP numbers them.
    pub unique_pid: Option<String>,
    /// Digest of the content: BLAKE3 of its layout, and of the hashes of its blocks and its frame, 128 bits.
    pub digest: String,
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes of blocks that differ from the base's at the same place (of a full state: all).
    pub changed_bytes: u64,
    /// Of these, bytes of blocks that the base has at another place: they are not stored again.
    #[serde(default)]
    pub moved_bytes: u64,
    /// Bytes outside of blocks: headers of an image.
    pub frame_bytes: u64,
}
