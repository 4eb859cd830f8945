//! When the base of ADCA moves.

use serde::{Deserialize, Serialize};

/// A setting of a method that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRule {
    /// A size of blocks that is none.
    #[error("a block of {0} bytes: expected a power of two from 4 KiB to 1 MiB")]
    BlockSize(u64),
    /// A threshold that is none.
    #[error(
        "{0} is no threshold: a ratio is a number of 0 or more, or infinite; a difference is a number of bytes"
    )]
    Threshold(String),
    /// A bound on the length of chains that is none.
    #[error("chains of {0} files: expected 2 or more, a base and a delta")]
    ChainLength(u32),
}

/// When ADCA takes a new base: if what changed since the base exceeds what changed since the state before. The paper's copy has lost the operator:
/// both readings are here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Threshold {
    /// S(D_b) / S(D_prev) > ratio. Below 1 it takes a new base every time, infinite never.
    Ratio(#[serde(with = "ratio")] f64),
    /// S(D_b) - S(D_prev) > bytes. Below 0 it takes a new base every time.
    Bytes(i64),
}

impl Threshold {
    /// The ratio by default.
    pub const DEFAULT: Self = Self::Ratio(2.0);

    /// Refuses what is no threshold.
    ///
    /// # Errors
    /// A ratio that is negative or not a number.
    pub fn check(self) -> Result<Self, InvalidRule> {
        match self {
            Self::Ratio(ratio) if ratio.is_nan() || ratio < 0.0 => {
                Err(InvalidRule::Threshold(ratio.to_string()))
            }
            _ => Ok(self),
        }
    }

    /// Returns its ratio, unless it is a difference.
    #[must_use]
    pub fn ratio(self) -> Option<f64> {
        match self {
            Self::Ratio(ratio) => Some(ratio),
            Self::Bytes(_) => None,
        }
    }

    /// Returns whether what changed since the base exceeds what changed since the state before, in any unit for a ratio, in bytes for a difference.
    #[must_use]
    pub fn is_exceeded(self, since_base: f64, since_previous: f64) -> bool {
        match self {
            // nothing changed since the state before: what changed since the base cannot pay for a base
            Self::Ratio(_) if since_previous <= 0.0 => false,
            Self::Ratio(ratio) => since_base / since_previous > ratio,
            Self::Bytes(bytes) => since_base - since_previous > bytes as f64,
        }
    }
}

/// A ratio in JSON, which has no infinite number.
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

/// Bytes of blocks that a state has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volumes {
    /// Since the base: S(D_b).
    pub since_base: u64,
    /// Since the state before: S(D_prev).
    pub since_previous: u64,
}
