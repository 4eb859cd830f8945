//! The threshold at which ADCA changes its base.

use serde::{Deserialize, Serialize};

/// An invalid setting of a method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRule {
    /// The size of blocks is invalid.
    #[error("a block of {0} bytes: expected a power of two from 4 KiB to 1 MiB")]
    BlockSize(u64),
    /// The threshold is invalid.
    #[error(
        "{0} is no threshold: a ratio is a number of 0 or more, or infinite; a difference is a number of bytes"
    )]
    Threshold(String),
    /// The maximum length of chains is invalid.
    #[error("chains of {0} files: expected 2 or more, a base and a delta")]
    ChainLength(u32),
}

/// When ADCA takes a new base: if the volume changed since the base, S(D_b), exceeds that changed since the previous state, S(D_prev). The available
/// copy of the paper lacks the operator between the two volumes; the variants are its two possible readings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Threshold {
    /// Ratio: S(D_b) / S(D_prev) > ratio. Below 1, every state becomes the base; if infinite, the base never changes.
    Ratio(#[serde(with = "ratio")] f64),
    /// Difference: S(D_b) - S(D_prev) > bytes. Below 0, every state becomes the base.
    Bytes(i64),
}

impl Threshold {
    /// The default ratio.
    pub const DEFAULT: Self = Self::Ratio(2.0);

    /// Returns the threshold if it is valid.
    ///
    /// # Errors
    /// The ratio is negative or not a number.
    pub fn check(self) -> Result<Self, InvalidRule> {
        match self {
            Self::Ratio(ratio) if ratio.is_nan() || ratio < 0.0 => {
                Err(InvalidRule::Threshold(ratio.to_string()))
            }
            _ => Ok(self),
        }
    }

    /// Returns the ratio; `None` if the threshold is a difference.
    #[must_use]
    pub fn ratio(self) -> Option<f64> {
        match self {
            Self::Ratio(ratio) => Some(ratio),
            Self::Bytes(_) => None,
        }
    }

    /// Returns whether the volume changed since the base exceeds the threshold. The volumes may have any unit for a ratio; they are in bytes for a
    /// difference.
    #[must_use]
    pub fn is_exceeded(self, since_base: f64, since_previous: f64) -> bool {
        match self {
            // without changes since the previous state, there is nothing to gain from a new base
            Self::Ratio(_) if since_previous <= 0.0 => false,
            Self::Ratio(ratio) => since_base / since_previous > ratio,
            Self::Bytes(bytes) => since_base - since_previous > bytes as f64,
        }
    }
}

/// Serialises a ratio as JSON, which has no number for infinity.
mod ratio {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    const INFINITE: &str = "infinite";

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Ratio {
        Number(f64),
        Word(String),
    }

    pub fn serialize<S: Serializer>(ratio: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if ratio.is_finite() {
            Ratio::Number(*ratio).serialize(serializer)
        } else {
            Ratio::Word(INFINITE.into()).serialize(serializer)
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        match Ratio::deserialize(deserializer)? {
            Ratio::Number(number) => Ok(number),
            Ratio::Word(word) if word == INFINITE => Ok(f64::INFINITY),
            Ratio::Word(word) => Err(serde::de::Error::custom(format_args!(
                "`{word}` is no ratio"
            ))),
        }
    }
}

/// Bytes of blocks that changed up to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volumes {
    /// Since the current base: S(D_b).
    pub since_base: u64,
    /// Since the previous state: S(D_prev).
    pub since_previous: u64,
}
