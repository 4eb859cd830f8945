//! Blocks: days or fleets among which the counted runs of each point are divided.

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
