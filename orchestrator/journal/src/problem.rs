//! Why an event may not follow those before it.

use cvc_core::ids::{IllegalName, LeaseId, PointId, RunId};

use cvc_core::nodelist::NodeListError;

/// Why an event may not follow those before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventProblem {
    /// Only the first event opens a journal.
    #[error("the journal is opened a second time")]
    OpenedTwice,
    /// A campaign has one lineage.
    #[error("the campaign is given a second lineage")]
    SecondLineage,
    /// One attempt at a run at a time.
    #[error("attempt {attempt} at run {run} is {what} while attempt {open} is under way")]
    OtherUnderWay {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// What the event says of it.
        what: &'static str,
        /// The attempt that is under way.
        open: u32,
    },
    /// Nothing to do any more.
    #[error("attempt {attempt} at run {run} is intended although the run has succeeded")]
    HasSucceeded {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
    },
    /// The attempt has its end.
    #[error("attempt {attempt} at run {run} is {what} after the run has ended")]
    HasEnded {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// What the event says of it.
        what: &'static str,
    },
    /// The attempt has no beginning.
    #[error("attempt {attempt} at run {run} is {what} but was never intended")]
    NeverIntended {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
        /// What the event says of it.
        what: &'static str,
    },
    /// Only what has finished can be discarded.
    #[error("attempt {attempt} at run {run} is discarded but was not the one that finished")]
    NotFinished {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
    },
    /// A point is in that state already.
    #[error("point {point} is {what} a second time")]
    PointTwice {
        /// The point.
        point: PointId,
        /// What the event says of it.
        what: &'static str,
    },
    /// A point is not in quarantine.
    #[error("point {0} is released but was not quarantined")]
    NotQuarantined(PointId),
    /// The lease has no beginning.
    #[error("lease {lease} is {what} but was never intended")]
    NoLease {
        /// The lease.
        lease: LeaseId,
        /// What the event says of it.
        what: &'static str,
    },
    /// A set of nodes that no event has defined.
    #[error("the nodes of set {0} are not known")]
    UnknownNodes(u32),
    /// Sets are numbered in order.
    #[error("expected the set of nodes {expected}, found {found}")]
    NodeSetOutOfOrder {
        /// The next number.
        expected: u32,
        /// The number of the event.
        found: u32,
    },
    /// A list of nodes that cannot be read.
    #[error("{0}")]
    NodeList(#[from] NodeListError),
    /// A name that no node can have.
    #[error("{0}")]
    NodeName(#[from] IllegalName),
}
