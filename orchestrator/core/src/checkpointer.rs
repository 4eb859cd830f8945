//! The checkpointers that campaigns name, and how they differ outside `cvc-engine`; no other code compares checkpointers.

use crate::registry::define_kind;
use serde::{Deserialize, Serialize};

crate::checkpointers!(
    define_kind,
    #[doc = " Checkpointer of a run."]
    CheckpointerKind
);

impl Default for CheckpointerKind {
    fn default() -> Self {
        Self::None
    }
}

/// Software that takes checkpoints at cvc's request: an image of each process, from which the process continues where it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Driven {
    /// Name for display.
    pub title: &'static str,
    /// Program that starts other programs under the checkpointer, in `bin` of its prefix.
    pub launcher: &'static str,
    /// Documentation page about the checkpointer.
    pub page: &'static str,
    /// Prefix and suffix of image file names.
    pub images: (&'static str, &'static str),
    /// Whether the checkpointer can compress images (see [`crate::point::Compression`]).
    pub compresses: bool,
    /// Estimated time to start and end the checkpointer, seconds.
    pub start_s: f64,
    /// Estimated additional time for each process, seconds.
    pub process_s: f64,
}

impl Driven {
    /// Returns whether a file has the name of an uncompressed image.
    pub fn is_image(&self, name: &str) -> bool {
        let (begin, end) = self.images;
        name.starts_with(begin) && name.ends_with(end)
    }
}

/// Estimates include coordinator, launch, waiting for peers, and end.
const DMTCP: Driven = Driven {
    title: "DMTCP",
    launcher: "dmtcp_launch",
    page: "docs/dmtcp.md",
    images: ("ckpt_", ".dmtcp"),
    compresses: true,
    start_s: 4.0,
    process_s: 0.2,
};

impl CheckpointerKind {
    /// Returns the checkpointer as software that cvc drives, which takes each checkpoint at the run's [`crate::point::Moment`]. `None` if there are
    /// no checkpoints, or if the program decides when to write its own.
    pub fn driven(self) -> Option<Driven> {
        match self {
            Self::None | Self::Application => None,
            Self::Dmtcp => Some(DMTCP),
        }
    }

    /// Returns all checkpointers that cvc drives.
    pub fn all_driven() -> impl Iterator<Item = (Self, Driven)> {
        let all = Self::ALL.iter();
        all.filter_map(|kind| Some((*kind, kind.driven()?)))
    }

    /// Returns the driven checkpointer with this name in campaign files; runs record its version under that name.
    pub fn driven_of_word(word: &str) -> Option<Driven> {
        let found = Self::all_driven().find(|(kind, _)| kind.word() == word);
        found.map(|(_, driven)| driven)
    }

    /// Returns whether anything takes checkpoints of a run.
    pub fn takes_checkpoints(self) -> bool {
        match self {
            Self::None => false,
            Self::Application | Self::Dmtcp => true,
        }
    }

    /// Returns whether cvc requests each checkpoint of a run.
    pub fn is_driven(self) -> bool {
        self.driven().is_some()
    }

    /// Returns whether the program writes its own checkpoints.
    pub fn has_own_files(self) -> bool {
        self.takes_checkpoints() && !self.is_driven()
    }

    /// Returns whether the checkpointer can compress its checkpoints.
    pub fn compresses(self) -> bool {
        self.driven().is_some_and(|of| of.compresses)
    }
}
