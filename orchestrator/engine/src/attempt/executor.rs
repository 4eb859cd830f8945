//! The contract of executors, which carry out attempts: on this machine ([`LocalExecutor`](super::LocalExecutor)), or through an agent on another
//! machine.

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
    /// The attempt ended, and its directory has its final name.
    Ended(OutcomeFile),
    /// The user cut the attempt off; nothing of it is left.
    Interrupted,
    /// The attempt was lost together with its agent or nodes. Nothing of it is left, and it does not count.
    Lost {
        /// The reason.
        reason: String,
        /// Whether the attempt's job reached its time limit.
        time_limit: bool,
    },
    /// The attempt's agent or job ended in a way that counts as a failure of the run. The attempt has no directory yet.
    Failed {
        /// The kind of failure.
        cause: Cause,
        /// Details of the failure.
        detail: String,
    },
}

/// Carries out the attempts of one site, however its nodes are reached. `E` is the caller's type for the errors that make it stop.
#[async_trait]
pub trait Executor<E: Send + 'static>: Send + Sync {
    /// Carries out one attempt. Returns once the attempt's directory has its final name on this machine, or nothing of the attempt is left.
    ///
    /// # Errors
    /// The campaign cannot continue. A failed run is a result: [`AttemptResult::Ended`] or [`AttemptResult::Failed`].
    async fn attempt(
        &self,
        task: &Task,
        stop_signal: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, E>;

    /// Returns the number of cores of one node.
    fn cores(&self) -> u32;

    /// Returns the names of the nodes that answer, in the order in which mappings use them.
    fn nodes(&self) -> Vec<String>;

    /// Chooses `wanted` nodes for a run while other runs use the nodes in `used`; `None` if too few are free. A machine that starts all ranks itself
    /// acts as all nodes of a mapping.
    fn free_nodes(&self, wanted: usize, used: &BTreeSet<String>) -> Option<Vec<String>> {
        choose_free(self.nodes(), wanted, used)
    }

    /// Returns whether runs may execute concurrently on different nodes of the site.
    fn side_by_side(&self) -> bool;

    /// Returns why runs of a point cannot be carried out here, with hints; `None` if they can.
    fn obstacle(&self, planned: &PlannedPoint) -> Option<String>;

    /// Returns the context of the site's runs if their processes and files are on this machine, so that the caller can clean up after a killed run.
    /// `None` if an agent cleans up.
    fn local_context(&self) -> Option<&SiteContext>;

    /// Removes what is stored about an attempt whose end the caller has recorded.
    fn forget(&self, task: &Task);
}

/// Chooses the first `wanted` nodes that are not in use; `None` if there are too few.
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
