//! Results of a check of a campaign's files.

use cvc_core::ids::RunId;

use crate::CampaignState;

use camino::Utf8PathBuf;
use cvc_core::store::OutcomeFile;

/// How a problem is repaired.
#[derive(Clone, Debug, PartialEq)]
pub enum Remedy {
    /// The journal is rewritten from its intact lines; the damaged file is kept next to it.
    RewriteJournal,
    /// The journal is accepted as it is now, and continued from there.
    AcceptJournal,
    /// A sealed run is added to the journal.
    RecordRun(RunId, OutcomeFile),
    /// The directory that is left of a run is renamed, and the next `cvc run` repeats the run.
    RepeatRun {
        /// The run.
        run: RunId,
        /// The attempt that had succeeded.
        attempt: u32,
        /// The problem with the run's directory.
        reason: String,
    },
}

/// A problem of a campaign's files.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Path of the file or directory.
    pub path: Utf8PathBuf,
    /// Number of the line, from 1; `None` if the problem is not in a line of a file.
    pub line: Option<usize>,
    /// Description of the problem.
    pub what: String,
    /// Consequences of the problem.
    pub consequence: String,
    /// How the problem is repaired; `None` if it need not or cannot be repaired.
    pub remedy: Option<Remedy>,
    /// Whether the problem is damage; otherwise it is only a remark.
    pub is_damage: bool,
}

/// Results of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct FsckFindings {
    /// Number of intact entries of the journal.
    pub entries: usize,
    /// Number of run directories that were checked.
    pub directories: usize,
    /// Problems, in the order in which they are repaired.
    pub problems: Vec<Problem>,
    /// The state folded from the intact entries.
    pub state: CampaignState,
}

impl FsckFindings {
    /// Returns whether any problem is damage.
    pub fn is_damaged(&self) -> bool {
        self.problems.iter().any(|p| p.is_damage)
    }
}
