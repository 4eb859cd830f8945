//! Against which earlier state a state is stored.

use crate::error::DeltaErrorKind;
use serde::{Deserialize, Serialize};

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
    pub fn check(self) -> Result<Self, DeltaErrorKind> {
        match self {
            Self::Ratio(ratio) if ratio.is_nan() || ratio < 0.0 => {
                Err(DeltaErrorKind::Threshold(ratio.to_string()))
            }
            _ => Ok(self),
        }
    }

    /// Whether the difference to the base is too much.
    #[must_use]
    pub fn is_exceeded(self, volumes: Volumes) -> bool {
        match self {
            // nothing changed since the state before: what changed since the base cannot pay for a base
            Self::Ratio(_) if volumes.since_previous == 0 => false,
            Self::Ratio(ratio) => volumes.since_base as f64 / volumes.since_previous as f64 > ratio,
            Self::Bytes(bytes) => {
                i128::from(volumes.since_base) - i128::from(volumes.since_previous)
                    > i128::from(bytes)
            }
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

/// How states of a series are stored.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Method {
    /// Each in full.
    Full,
    /// Each against the one before.
    Incremental,
    /// Each against the first.
    Differential,
    /// Each against a base, which moves when the difference to it exceeds the threshold.
    Adca {
        /// When.
        threshold: Threshold,
    },
    /// As ADCA, but at most `files` files restore a state: a base that would make the chain longer is stored against the first state.
    Bounded {
        /// When the base moves.
        threshold: Threshold,
        /// Files of a chain at most, 2 or more.
        files: u32,
    },
}

/// What a method decides for a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The state against which it is stored; none: in full.
    pub against: Option<Base>,
    /// Whether it becomes the base of the states after it.
    pub becomes_base: bool,
}

/// An earlier state of which the hashes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The first.
    First,
    /// The base of the moment.
    Current,
    /// The one before.
    Previous,
}

impl Method {
    /// Refuses settings that are none.
    ///
    /// # Errors
    /// [`DeltaErrorKind::Threshold`], [`DeltaErrorKind::ChainLength`].
    pub fn check(self) -> Result<Self, DeltaErrorKind> {
        match self {
            Self::Adca { threshold } => threshold.check().map(|_| self),
            Self::Bounded { threshold, files } => {
                threshold.check()?;
                if files < 2 {
                    Err(DeltaErrorKind::ChainLength(files))
                } else {
                    Ok(self)
                }
            }
            Self::Full | Self::Incremental | Self::Differential => Ok(self),
        }
    }

    /// Whether it may store a state against the first one, whatever the base of the moment is.
    pub(crate) fn returns_to_first(self) -> bool {
        match self {
            Self::Differential | Self::Bounded { .. } => true,
            Self::Full | Self::Incremental | Self::Adca { .. } => false,
        }
    }

    /// Its name in files and options.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Incremental => "incremental",
            Self::Differential => "differential",
            Self::Adca { .. } => "adca",
            Self::Bounded { .. } => "bounded",
        }
    }

    /// Decides for the state after others. `chain`: files that restore the base of the moment.
    pub(crate) fn decide(self, volumes: Volumes, chain: u32) -> Decision {
        let against = |base, becomes_base| Decision {
            against: Some(base),
            becomes_base,
        };
        match self {
            Self::Full => Decision {
                against: None,
                becomes_base: true,
            },
            Self::Incremental => against(Base::Previous, true),
            Self::Differential => against(Base::First, false),
            Self::Adca { threshold } => against(Base::Current, threshold.is_exceeded(volumes)),
            Self::Bounded { threshold, files } => {
                // the states after it need one file more
                let moves = threshold.is_exceeded(volumes);
                if moves && chain + 2 > files {
                    // two files are enough for a base against the first, but states against it need a third
                    against(Base::First, files > 2)
                } else {
                    against(Base::Current, moves)
                }
            }
        }
    }
}
