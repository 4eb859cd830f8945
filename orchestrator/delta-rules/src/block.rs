//! Blocks: their size, their addressing, and their transform before compression.

use crate::threshold::InvalidRule;
use serde::{Deserialize, Serialize};

/// Size of blocks, bytes: a power of two from 4 KiB to 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct BlockSize(u32);

impl BlockSize {
    /// The default: 4 KiB, one page.
    pub const PAGE: Self = Self(4 << 10);
    /// The largest size: 1 MiB.
    pub const MAX: Self = Self(1 << 20);

    /// Creates a block size from a number of bytes.
    ///
    /// # Errors
    /// [`InvalidRule::BlockSize`] if the number is not a power of two in the valid range.
    pub fn new(bytes: u64) -> Result<Self, InvalidRule> {
        u32::try_from(bytes)
            .ok()
            .filter(|b| b.is_power_of_two() && (Self::PAGE.0..=Self::MAX.0).contains(b))
            .map(Self)
            .ok_or(InvalidRule::BlockSize(bytes))
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        u64::from(self.0)
    }
}

impl TryFrom<u64> for BlockSize {
    type Error = InvalidRule;

    fn try_from(bytes: u64) -> Result<Self, InvalidRule> {
        Self::new(bytes)
    }
}

impl From<BlockSize> for u64 {
    fn from(size: BlockSize) -> Self {
        size.bytes()
    }
}

/// How blocks are matched between states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Addressing {
    /// By address in the process; by index in files other than images
    #[default]
    Address,
    /// By index in the file, as in the published method
    Index,
}

impl Addressing {
    /// Returns the name used in files and options.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Index => "index",
        }
    }
}

/// Transform of a block before compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Transform {
    /// No transform
    #[default]
    None,
    /// First bytes of all eight-byte words, then second bytes, and so on
    Shuffle,
    /// XOR with the base's block at the same place
    Xor,
}

impl Transform {
    /// Returns the name used in files and options.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Shuffle => "shuffle",
            Self::Xor => "xor",
        }
    }
}
