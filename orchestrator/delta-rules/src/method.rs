//! Methods of storing the states (checkpoints) of a series. A method decides for each state which earlier state it is stored against, that is, as
//! changes since that state.

use crate::threshold::{InvalidRule, Threshold};
use serde::{Deserialize, Serialize};

/// Name of a method, without settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "DeltaMethod")
)]
#[serde(rename_all = "lowercase")]
pub enum MethodName {
    /// Each in full
    Full,
    /// Each as changes since the previous one
    Incremental,
    /// Each as changes since the first
    Differential,
    /// Each as changes since a base, which moves after too many changes
    Adca,
    /// As adca, with a limited number of files per restore
    Bounded,
}

impl MethodName {
    /// All methods.
    pub const ALL: [Self; 5] = [
        Self::Full,
        Self::Incremental,
        Self::Differential,
        Self::Adca,
        Self::Bounded,
    ];

    /// Returns the name used in files, records and options.
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

    /// Returns the method with the settings that apply to it; other settings are ignored.
    #[must_use]
    pub fn with(self, threshold: Threshold, files: u32) -> Method {
        match self {
            Self::Full => Method::Full,
            Self::Incremental => Method::Incremental,
            Self::Differential => Method::Differential,
            Self::Adca => Method::Adca { threshold },
            Self::Bounded => Method::Bounded { threshold, files },
        }
    }
}

/// A method of storing the states of a series, with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Method {
    /// Stores each state in full.
    Full,
    /// Stores each state against the previous one.
    Incremental,
    /// Stores each state against the first one.
    Differential,
    /// Stores each state against a base, which changes when the difference from it exceeds the threshold.
    Adca {
        /// The threshold at which the base changes.
        threshold: Threshold,
    },
    /// As ADCA, with at most `files` files per restore: a new base that would make the chain longer is stored against the first state.
    Bounded {
        /// The threshold at which the base changes.
        threshold: Threshold,
        /// Maximum number of files in a chain, at least 2.
        files: u32,
    },
}

/// The decision of a method for a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The state that it is stored against; `None`: it is stored in full.
    pub against: Option<Base>,
    /// Whether it becomes the base of later states.
    pub becomes_base: bool,
}

impl Decision {
    /// The decision for the first state of a series.
    pub const FIRST: Self = Self {
        against: None,
        becomes_base: true,
    };
}

/// An earlier state whose hashes are kept, so that a new state can be compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The first state.
    First,
    /// The current base.
    Current,
    /// The previous state.
    Previous,
}

impl Method {
    /// Returns ADCA with this ratio as the threshold.
    #[must_use]
    pub const fn adca(ratio: f64) -> Self {
        Self::Adca {
            threshold: Threshold::Ratio(ratio),
        }
    }

    /// Returns ADCA with this ratio as the threshold, and at most `files` files per restore.
    #[must_use]
    pub const fn bounded(ratio: f64, files: u32) -> Self {
        Self::Bounded {
            threshold: Threshold::Ratio(ratio),
            files,
        }
    }

    /// Returns the method if its settings are valid.
    ///
    /// # Errors
    /// The threshold, or the maximum length of chains, is invalid.
    pub fn check(self) -> Result<Self, InvalidRule> {
        if let Some(threshold) = self.threshold() {
            threshold.check()?;
        }
        match self.files() {
            Some(files) if files < 2 => Err(InvalidRule::ChainLength(files)),
            _ => Ok(self),
        }
    }

    /// Returns the threshold at which the base changes; `None` if the method has none.
    #[must_use]
    pub fn threshold(self) -> Option<Threshold> {
        match self {
            Self::Adca { threshold } | Self::Bounded { threshold, .. } => Some(threshold),
            Self::Full | Self::Incremental | Self::Differential => None,
        }
    }

    /// Returns the maximum number of files in a chain; `None` if the method has no limit.
    #[must_use]
    pub fn files(self) -> Option<u32> {
        match self {
            Self::Bounded { files, .. } => Some(files),
            _ => None,
        }
    }

    /// Returns the states that the next state may be stored against.
    #[must_use]
    pub fn bases(self) -> &'static [Base] {
        match self {
            Self::Full => &[],
            _ => &[Base::First, Base::Current, Base::Previous],
        }
    }

    /// Returns whether the method may store a state against the first state while the current base is another.
    #[must_use]
    pub fn returns_to_first(self) -> bool {
        matches!(self, Self::Differential | Self::Bounded { .. })
    }

    /// Returns the name, without settings.
    #[must_use]
    pub fn name(self) -> MethodName {
        match self {
            Self::Full => MethodName::Full,
            Self::Incremental => MethodName::Incremental,
            Self::Differential => MethodName::Differential,
            Self::Adca { .. } => MethodName::Adca,
            Self::Bounded { .. } => MethodName::Bounded,
        }
    }

    /// Returns the name used in files and options.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.name().as_str()
    }

    /// Describes the method with its settings, in a few words.
    #[must_use]
    pub fn describe(self) -> String {
        let ratio = self.threshold().and_then(Threshold::ratio);
        match (self.files(), ratio) {
            (None, Some(ratio)) => format!("ADCA, ratio {ratio}"),
            (Some(files), Some(ratio)) if ratio >= 1.0 => {
                format!("bounded to {files} files, ratio {ratio}")
            }
            (Some(files), _) => format!("bounded to {files} files"),
            (None, None) => self.as_str().to_owned(),
        }
    }

    /// Decides how to store a state that is not the first, from the volumes that changed since the current base and since the previous state.
    /// `chain` is the number of files needed to restore the current base.
    #[must_use]
    pub fn decide(self, since_base: f64, since_previous: f64, chain: u32) -> Decision {
        let against = |base, becomes_base| Decision {
            against: Some(base),
            becomes_base,
        };
        let moves = self
            .threshold()
            .is_some_and(|threshold| threshold.is_exceeded(since_base, since_previous));
        match self {
            Self::Full => Decision::FIRST,
            Self::Incremental => against(Base::Previous, true),
            Self::Differential => against(Base::First, false),
            // after the base changes, each later state needs one file more than the new base. If the new base is stored against the first state, it
            // needs two files, and later states need three
            Self::Bounded { files, .. } if moves && chain + 2 > files => {
                against(Base::First, files > 2)
            }
            Self::Adca { .. } | Self::Bounded { .. } => against(Base::Current, moves),
        }
    }
}
