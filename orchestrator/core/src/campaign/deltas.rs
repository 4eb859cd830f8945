//! How the checkpoints of a series are stored as deltas: `[checkpoint] deltas`.

use super::{
    checker::{Checker, Place},
    raw::RawDeltas,
};
use crate::{source::Step, units::ByteSize};
use serde::{Deserialize, Serialize};

/// Smallest and largest block, bytes: as `cvc delta` has them.
const BLOCKS: std::ops::RangeInclusive<u64> = (4 << 10)..=(1 << 20);

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

/// Checks them, where `place` gives positions below `[checkpoint]`.
pub(super) fn read(check: &mut Checker<'_>, raw: &RawDeltas, place: &Place<'_>) -> DeltaSettings {
    list(check, "methods", &raw.methods, place);
    list(check, "codecs", &raw.codecs, place);
    list(check, "blocks", &raw.blocks, place);
    for (i, block) in raw.blocks.iter().enumerate() {
        if !(block.0.is_power_of_two() && BLOCKS.contains(&block.0)) {
            check.fail(
                place(&["deltas".into(), "blocks".into(), i.into()]),
                format!("a block of {block}"),
                "write a power of two from \"4KiB\", a page, to \"1MiB\"",
            );
        }
    }
    DeltaSettings {
        methods: raw.methods.clone(),
        codecs: raw.codecs.clone(),
        blocks: raw.blocks.clone(),
        keep: raw.keep,
    }
}

/// Refuses a list that is empty, or has something twice.
fn list<T: PartialEq>(check: &mut Checker<'_>, key: &str, list: &[T], place: &Place<'_>) {
    let way: [Step<'_>; 2] = ["deltas".into(), key.into()];
    if list.is_empty() {
        check.fail(
            place(&way),
            format!("the list `{key}` is empty"),
            "give at least one, or remove the key to get its default",
        );
    }
    for (i, value) in list.iter().enumerate() {
        if list[..i].contains(value) {
            check.fail(
                place(&[way[0], way[1], i.into()]),
                format!("it is given twice in `{key}`"),
                "remove one",
            );
        }
    }
}
