//! Blocks: how large they are, by what they are known again, and what is done to them before they are compressed.

use crate::threshold::InvalidRule;
use serde::{Deserialize, Serialize};

/// A size of blocks: a power of two from 4 KiB to 1 MiB, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct BlockSize(u32);

impl BlockSize {
    /// A page, the size by default.
    pub const PAGE: Self = Self(4 << 10);
    /// The largest.
    pub const MAX: Self = Self(1 << 20);

    /// Takes a number of bytes.
    ///
    /// # Errors
    /// [`InvalidRule::BlockSize`].
    pub fn new(bytes: u64) -> Result<Self, InvalidRule> {
        u32::try_from(bytes)
            .ok()
            .filter(|b| b.is_power_of_two() && (Self::PAGE.0..=Self::MAX.0).contains(b))
            .map(Self)
            .ok_or(InvalidRule::BlockSize(bytes))
    }

    /// Returns its bytes.
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

/// By what a block is known again in another state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Addressing {
    /// By their address in the process; of files that are no images, by their index
    #[default]
    Address,
    /// By their index in the file, as in the published method
    Index,
}

impl Addressing {
    /// Returns its name in files and options.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Index => "index",
        }
    }
}

/// What is done to a block before it is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Transform {
    /// Nothing
    #[default]
    None,
    /// The first bytes of all words of eight bytes, then the second ones, and so on
    Shuffle,
    /// Exclusive or with the block that was there before
    Xor,
}

impl Transform {
    /// Returns its name in files and options.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Shuffle => "shuffle",
            Self::Xor => "xor",
        }
    }
}
