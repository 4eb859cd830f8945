//! Storage of a checkpoint series as deltas: `[checkpoint] deltas`.

use crate::units::ByteSize;
use cvc_delta_rules::{Codec, MethodName};
use serde::{Deserialize, Serialize};

/// A way to store the checkpoints of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeltaWay {
    /// Method, which determines the earlier checkpoint that each is stored against.
    pub method: MethodName,
    /// Compression.
    pub codec: Codec,
    /// Size of a block.
    pub block: ByteSize,
}

impl DeltaWay {
    /// Returns the assumed space of a series with `states` checkpoints, as a multiple of one checkpoint. If each checkpoint is stored in full without
    /// a codec, this is `states`. Otherwise it is at most two, because compression and unchanged blocks save space.
    pub fn most_states(self, states: f64) -> f64 {
        match (self.method, self.codec) {
            (MethodName::Full, Codec::None) => states,
            _ => states.min(2.0),
        }
    }
}

/// How the checkpoints of a series are stored as deltas. Each list has at least one element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaSettings {
    /// Methods.
    pub methods: Vec<MethodName>,
    /// Codecs.
    pub codecs: Vec<Codec>,
    /// Sizes of blocks.
    pub blocks: Vec<ByteSize>,
    /// Whether the series is kept with the run.
    pub keep: bool,
}

impl DeltaSettings {
    /// Returns every combination of method, codec and block size. The first combination is stored while the program runs.
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
