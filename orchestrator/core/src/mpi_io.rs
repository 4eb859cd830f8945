//! Layers of MPI-IO, and the values of their settings.

use crate::factor_value::{LEFT_TO_LIBRARY, UnknownWord, optional_text_values};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The MPI-IO layer of Open MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MpiIo {
    /// Open MPI's own.
    Ompio,
    /// ROMIO, from MPICH.
    Romio,
}

impl MpiIo {
    /// Returns the name for display.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ompio => "OMPIO",
            Self::Romio => "ROMIO",
        }
    }
}

/// Switch value of a ROMIO hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum HintSwitch {
    /// Always.
    Enable,
    /// Never.
    Disable,
    /// ROMIO decides for each access.
    Automatic,
}

impl HintSwitch {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Enable, Self::Disable, Self::Automatic];

    /// Returns the word that ROMIO reads and prints.
    pub fn word(self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Automatic => "automatic",
        }
    }
}

impl fmt::Display for HintSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for HintSwitch {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let mut all = Self::ALL.into_iter();
        all.find(|of| of.word() == text).ok_or(UnknownWord)
    }
}

/// Open MPI component for collective I/O: `vulcan`, `dynamic_gen2`, `two_phase`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct FcollComponent(String);

impl fmt::Display for FcollComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for FcollComponent {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if text.is_empty() || !text.chars().all(is_word) {
            return Err(UnknownWord);
        }
        Ok(Self(text.to_owned()))
    }
}

optional_text_values!(Some(LEFT_TO_LIBRARY); HintSwitch, FcollComponent);
