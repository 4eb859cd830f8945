//! Blocks of runs: the counted runs of each point are divided among several days or fleets.

use serde::{Deserialize, Serialize};

/// Division of runs into consecutive blocks, so that intervals include random differences between days or fleets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// Kind of the blocks.
    pub of: BlockKind,
    /// Number of blocks, at least 2; divides the number of counted runs.
    pub count: u32,
}

/// The block of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Kind of the block.
    pub of: BlockKind,
    /// Number of the block, from 1.
    pub number: u32,
}

/// What separates a block of runs from the other blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockKind {
    /// Each block runs on a separate day (UTC).
    Days,
    /// Each block runs on newly launched instances.
    Fleets,
}

impl BlockKind {
    /// Returns the noun for one block, for display.
    #[must_use]
    pub fn one(self) -> &'static str {
        match self {
            Self::Days => "day",
            Self::Fleets => "fleet",
        }
    }

    /// Returns the plural noun, which is also the key in campaign files.
    #[must_use]
    pub fn many(self) -> &'static str {
        match self {
            Self::Days => "days",
            Self::Fleets => "fleets",
        }
    }
}
