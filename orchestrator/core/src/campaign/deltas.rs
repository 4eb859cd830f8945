//! How the checkpoints of a series are stored as deltas: `[checkpoint] deltas`.

use crate::units::ByteSize;
use serde::{Deserialize, Serialize};

/// Against which earlier state a state is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DeltaMethod {
    /// None: each is stored in full.
    Full,
    /// The one before.
    Incremental,
    /// The first.
    Differential,
    /// A base, which moves when more than twice as much differs from it as from the state before.
    Adca,
    /// As `adca`, with at most three files to a restore.
    Bounded,
}

impl DeltaMethod {
    /// Its name in campaign files and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Incremental => "incremental",
            Self::Differential => "differential",
            Self::Adca => "adca",
            Self::Bounded => "bounded",
        }
    }
}

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DeltaCodec {
    /// Not at all.
    None,
    /// DEFLATE, level 6.
    Gzip,
    /// Zstandard, level 3.
    Zstd,
    /// LZ4.
    Lz4,
}

impl DeltaCodec {
    /// Its name in campaign files and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }
}

/// A way to store the states of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeltaWay {
    /// Against which state.
    pub method: DeltaMethod,
    /// How compressed.
    pub codec: DeltaCodec,
    /// Bytes of a block.
    pub block: ByteSize,
}

/// How the checkpoints of a series are stored as deltas. No list is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaSettings {
    /// Methods.
    pub methods: Vec<DeltaMethod>,
    /// Codecs.
    pub codecs: Vec<DeltaCodec>,
    /// Sizes of blocks.
    pub blocks: Vec<ByteSize>,
    /// Whether the series stays beside the run.
    pub keep: bool,
}

impl DeltaSettings {
    /// Every combination. The first, of the first method, codec and size of blocks, is the one that is made while the program runs.
    pub fn ways(&self) -> impl Iterator<Item = DeltaWay> {
        self.methods.iter().flat_map(move |method| {
            self.codecs.iter().flat_map(move |codec| {
                self.blocks.iter().map(move |block| DeltaWay {
                    method: *method,
                    codec: *codec,
                    block: *block,
                })
            })
        })
    }
}
