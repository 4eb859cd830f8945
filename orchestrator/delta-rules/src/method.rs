//! Against which earlier state a state is stored.

use crate::threshold::{InvalidRule, Threshold};
use serde::{Deserialize, Serialize};

/// A method without its settings, as campaign files and options name it.
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
    /// Each against the one before
    Incremental,
    /// Each against the first
    Differential,
    /// Each against a base, which moves when too much has changed since
    Adca,
    /// As adca, with a limit for the files that a restore needs
    Bounded,
}

impl MethodName {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Full,
        Self::Incremental,
        Self::Differential,
        Self::Adca,
        Self::Bounded,
    ];

    /// Returns its name in files, records and options.
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

    /// Returns the method with those of these settings that it has.
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
        /// Maximum number of files of a chain, 2 or more.
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

impl Decision {
    /// That for the first state of a series.
    pub const FIRST: Self = Self {
        against: None,
        becomes_base: true,
    };
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
    /// Returns ADCA with a ratio as its threshold.
    #[must_use]
    pub const fn adca(ratio: f64) -> Self {
        Self::Adca {
            threshold: Threshold::Ratio(ratio),
        }
    }

    /// Returns ADCA with a ratio as its threshold, and at most `files` files to a restore.
    #[must_use]
    pub const fn bounded(ratio: f64, files: u32) -> Self {
        Self::Bounded {
            threshold: Threshold::Ratio(ratio),
            files,
        }
    }

    /// Refuses settings that cannot be.
    ///
    /// # Errors
    /// A threshold or a length of chains that is none.
    pub fn check(self) -> Result<Self, InvalidRule> {
        if let Some(threshold) = self.threshold() {
            threshold.check()?;
        }
        match self.files() {
            Some(files) if files < 2 => Err(InvalidRule::ChainLength(files)),
            _ => Ok(self),
        }
    }

    /// Returns when its base moves, if it has one that does.
    #[must_use]
    pub fn threshold(self) -> Option<Threshold> {
        match self {
            Self::Adca { threshold } | Self::Bounded { threshold, .. } => Some(threshold),
            Self::Full | Self::Incremental | Self::Differential => None,
        }
    }

    /// Returns the maximum number of files of a chain, if it bounds that.
    #[must_use]
    pub fn files(self) -> Option<u32> {
        match self {
            Self::Bounded { files, .. } => Some(files),
            _ => None,
        }
    }

    /// Returns the states that the next one may be stored against.
    #[must_use]
    pub fn bases(self) -> &'static [Base] {
        match self {
            Self::Full => &[],
            _ => &[Base::First, Base::Current, Base::Previous],
        }
    }

    /// Returns whether it may store a state against the first one, whatever the base of the moment is.
    #[must_use]
    pub fn returns_to_first(self) -> bool {
        matches!(self, Self::Differential | Self::Bounded { .. })
    }

    /// Returns its name without settings.
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

    /// Returns its name in files and options.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.name().as_str()
    }

    /// Describes it with its settings in a few words.
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

    /// Decides for a state after others, by what changed since the base of the moment and since the state before. `chain`: files that restore the
    /// base of the moment.
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
            // the states after a base that moves need one file more; two files are enough for a base against the first, but states against it need a third
            Self::Bounded { files, .. } if moves && chain + 2 > files => {
                against(Base::First, files > 2)
            }
            Self::Adca { .. } | Self::Bounded { .. } => against(Base::Current, moves),
        }
    }
}
