//! How the checkpoints of a series are stored as deltas: `[checkpoint] deltas`.

use crate::units::ByteSize;
use cvc_delta_rules::{Codec, MethodName};
use serde::{Deserialize, Serialize};

/// A way to store the states of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeltaWay {
    /// Against which state.
    pub method: MethodName,
    /// How compressed.
    pub codec: Codec,
    /// Bytes of a block.
    pub block: ByteSize,
}

/// How the checkpoints of a series are stored as deltas. No list is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaSettings {
    /// Methods.
    pub methods: Vec<MethodName>,
    /// Codecs.
    pub codecs: Vec<Codec>,
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
