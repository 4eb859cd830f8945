//! Blocks: days or fleets among which the counted runs of each point are divided.

use super::model::RunSettings;
use crate::point::Repeat;
use serde::{Deserialize, Serialize};

/// Blocks of runs, one after another: what differs between them by chance is part of the intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// What a block is.
    pub of: BlockKind,
    /// How many there are, at least 2; a divisor of the number of counted runs.
    pub count: u32,
}

/// The block of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// What a block is.
    pub of: BlockKind,
    /// Its number, from 1.
    pub number: u32,
}

/// What sets the runs of a block apart from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockKind {
    /// Each block runs on a day (UTC) of its own.
    Days,
    /// Each block runs on instances of its own, launched anew.
    Fleets,
}

impl BlockKind {
    /// One of them, for people.
    #[must_use]
    pub fn one(self) -> &'static str {
        match self {
            Self::Days => "day",
            Self::Fleets => "fleet",
        }
    }

    /// Several of them, as the campaign file calls them.
    #[must_use]
    pub fn many(self) -> &'static str {
        match self {
            Self::Days => "days",
            Self::Fleets => "fleets",
        }
    }
}

impl RunSettings {
    /// Number of blocks; 1 where the runs are not divided.
    #[must_use]
    pub fn block_count(&self) -> u32 {
        self.blocks.map_or(1, |blocks| blocks.count.max(1))
    }

    /// The runs of each point in a block, which is counted from 1: its warm-ups, then the counted ones, each numbered on from the block before.
    pub fn of_block(&self, block: u32) -> impl Iterator<Item = Repeat> + use<> {
        let numbers = |in_each: u32| block.saturating_sub(1) * in_each + 1..=block * in_each;
        numbers(self.warmups).map(Repeat::Warmup).chain(numbers(self.repeats / self.block_count()).map(Repeat::Measured))
    }
}
