//! What a check finds.

use cvc_core::ids::RunId;

use crate::CampaignState;

use camino::Utf8PathBuf;
use cvc_core::store::OutcomeFile;

/// How a problem is repaired.
#[derive(Clone, Debug, PartialEq)]
pub enum Remedy {
    /// The journal is written anew from its whole lines; the damaged one is kept beside it.
    RewriteJournal,
    /// The journal goes on from where it is.
    AcceptJournal,
    /// A run that was sealed is written into the journal.
    RecordRun(RunId, OutcomeFile),
    /// What is left of a run is put aside, and the next `cvc run` repeats it.
    RepeatRun {
        /// Which run.
        run: RunId,
        /// The attempt that had succeeded.
        attempt: u32,
        /// What is wrong with its directory.
        reason: String,
    },
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Where.
    pub path: Utf8PathBuf,
    /// Line, from 1, in a file of lines.
    pub line: Option<usize>,
    /// What.
    pub what: String,
    /// What is lost by it, and what can go on.
    pub consequence: String,
    /// How it is repaired; `None` if nothing needs to be done, or nothing can be.
    pub remedy: Option<Remedy>,
    /// Whether anything is wrong, or only remarkable.
    pub is_damage: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Whole entries of the journal.
    pub entries: usize,
    /// Run directories that were checked.
    pub directories: usize,
    /// Problems, in the order in which they are repaired.
    pub problems: Vec<Problem>,
    /// The state that follows from what is whole.
    pub state: CampaignState,
}

impl Findings {
    /// Whether anything is damaged.
    pub fn is_damaged(&self) -> bool {
        self.problems.iter().any(|p| p.is_damage)
    }
}
