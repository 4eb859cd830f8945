//! How blocks are compressed.

use serde::{Deserialize, Serialize};

/// Compression method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "DeltaCodec")
)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// No compression
    None,
    /// DEFLATE, level 6
    Gzip,
    /// Zstandard, level 3
    #[default]
    Zstd,
    /// LZ4 blocks
    Lz4,
}

impl Codec {
    /// All codecs.
    pub const ALL: [Self; 4] = [Self::None, Self::Gzip, Self::Zstd, Self::Lz4];

    /// Returns the name used in files, records and options.
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
