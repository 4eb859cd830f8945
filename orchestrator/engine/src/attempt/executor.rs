//! The contract of executors: this machine ([`LocalExecutor`](super::LocalExecutor)), or an agent on another.

use crate::run::{AttemptReporter, SiteContext, Task};
use async_trait::async_trait;
use cvc_core::outcome::Cause;
use cvc_core::point::PlannedPoint;
use cvc_core::stop::StopSignal;
use cvc_core::store::OutcomeFile;
use std::collections::BTreeSet;

/// The result of an attempt.
#[derive(Debug)]
pub enum AttemptResult {
    /// It ended, and its directory has its final name.
    Ended(OutcomeFile),
    /// The user cut it off; nothing of it is left.
    Interrupted,
    /// It was lost with its agent or nodes; nothing of it is left, and it does not count.
    Lost {
        /// Why.
        reason: String,
        /// The job that it was in reached its time limit.
        time_limit: bool,
    },
    /// Its agent or job ended in a way that is the run's failure; it has no directory yet.
    Failed {
        /// What kind of failure it is.
        cause: Cause,
        /// What happened.
        detail: String,
    },
}

/// Carries out the attempts of one site, whatever it takes to reach its nodes. `E` is the error that stops the caller: a walk through a plan adds its own causes to those of an
/// attempt.
#[async_trait]
pub trait Executor<E: Send + 'static>: Send + Sync {
    /// Carries out one attempt and returns once its directory has its final name on this machine, or nothing is left of it.
    ///
    /// # Errors
    /// When the campaign cannot go on. A failed run is a result: [`AttemptResult::Ended`] or [`AttemptResult::Failed`].
    async fn attempt(
        &self,
        task: &Task,
        stop_signal: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, E>;

    /// Returns the cores of one node.
    fn cores(&self) -> u32;

    /// Returns the names of the nodes that answer, in the order of mappings.
    fn nodes(&self) -> Vec<String>;

    /// Chooses nodes for a run that needs `wanted` of them, beside runs that hold `used`; `None` if too few are free. A machine that starts
    /// all ranks itself counts as all the nodes that a mapping may want.
    fn free_nodes(&self, wanted: usize, used: &BTreeSet<String>) -> Option<Vec<String>> {
        choose_free(self.nodes(), wanted, used)
    }

    /// Returns whether runs may share the site on different nodes.
    fn side_by_side(&self) -> bool;

    /// Returns why runs of a point cannot be carried out here, with hints; `None` if they can.
    fn obstacle(&self, planned: &PlannedPoint) -> Option<String>;

    /// Returns what the site's runs depend on if they leave their processes and files on this machine, so that a caller can clean up after
    /// one that was killed; `None` where an agent does so.
    fn local_context(&self) -> Option<&SiteContext>;

    /// Forgets an attempt whose end the caller has recorded.
    fn forget(&self, task: &Task);
}

/// Chooses the first `wanted` of these nodes that are not in use; `None` if there are fewer.
pub(super) fn choose_free(
    nodes: Vec<String>,
    wanted: usize,
    used: &BTreeSet<String>,
) -> Option<Vec<String>> {
    let free: Vec<String> = nodes
        .into_iter()
        .filter(|n| !used.contains(n))
        .take(wanted)
        .collect();
    (free.len() == wanted).then_some(free)
}
