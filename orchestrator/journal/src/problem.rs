//! Why an event may not follow the previous ones.

use camino::Utf8Path;
use cvc_core::{
    ids::{IllegalName, LeaseId, PointId, RunId},
    nodelist::NodeListError,
    store::StoreError,
};

/// An event that may not follow the previous ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {line}: {problem}")]
pub struct IllegalEvent {
    /// Number of the entry, which is also the number of its line in the journal.
    pub line: u64,
    /// The problem.
    pub problem: EventProblem,
}

impl IllegalEvent {
    /// Returns the error for the journal at this path.
    pub fn in_file(self, path: &Utf8Path) -> StoreError {
        StoreError::damaged(
            path,
            usize::try_from(self.line).unwrap_or(usize::MAX),
            self.problem.to_string(),
        )
    }
}

/// Why an event may not follow the previous ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventProblem {
    /// The journal has already been opened; only its first event does that.
    #[error("the journal is opened a second time")]
    OpenedTwice,
    /// The campaign already has a lineage.
    #[error("the campaign is given a second lineage")]
    SecondLineage,
    /// Another attempt at the run is open.
    #[error("attempt {attempt} at run {run} is {what} while attempt {open} is under way")]
    OtherUnderWay {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// What the event does with the attempt, as in `started`.
        what: &'static str,
        /// The attempt that is under way.
        open: u32,
    },
    /// The run has already succeeded, and needs no further attempt.
    #[error("attempt {attempt} at run {run} is intended although the run has succeeded")]
    HasSucceeded {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
    },
    /// The attempt has already ended.
    #[error("attempt {attempt} at run {run} is {what} after the run has ended")]
    HasEnded {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// What the event does with the attempt.
        what: &'static str,
    },
    /// The attempt was never begun.
    #[error("attempt {attempt} at run {run} is {what} but was never intended")]
    NeverIntended {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// What the event does with the attempt.
        what: &'static str,
    },
    /// The attempt did not finish the run, so it cannot be discarded.
    #[error("attempt {attempt} at run {run} is discarded but was not the one that finished")]
    NotFinished {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
    },
    /// The point is already in the state that the event gives it.
    #[error("point {point} is {what} a second time")]
    PointTwice {
        /// The point.
        point: PointId,
        /// What the event does with the point.
        what: &'static str,
    },
    /// The point is not quarantined, so it cannot be released.
    #[error("point {0} is released but was not quarantined")]
    NotQuarantined(PointId),
    /// The lease was never requested.
    #[error("lease {lease} is {what} but was never intended")]
    NoLease {
        /// The lease.
        lease: LeaseId,
        /// What the event does with the lease.
        what: &'static str,
    },
    /// No event has defined this set of nodes.
    #[error("the nodes of set {0} are unknown")]
    UnknownNodes(u32),
    /// The number of a new set of nodes is not the next one.
    #[error("expected the set of nodes {expected}, found {found}")]
    NodeSetOutOfOrder {
        /// The expected number.
        expected: u32,
        /// The number in the event.
        found: u32,
    },
    /// A list of nodes is invalid.
    #[error("{0}")]
    NodeList(#[from] NodeListError),
    /// A name of a node is invalid.
    #[error("{0}")]
    NodeName(#[from] IllegalName),
}
