//! What can be written into a journal. The state of a campaign is a fold over these.

use crate::ids::RunId;
use crate::outcome::Outcome;
use serde::{Deserialize, Serialize};

/// One line of `journal.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Number of the line, from 1, without gaps.
    pub seq: u64,
    /// When it was written.
    pub at: jiff::Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// First line of every journal.
    Opened {
        /// Version of the journal's format.
        format: u32,
        /// Name of the campaign.
        campaign: String,
        /// Version of cvc.
        cvc: String,
    },
    /// A controller began or resumed work with this plan.
    Started {
        /// Digest of plan.json.
        plan: String,
        /// Runs in the plan.
        runs: u64,
        /// Process id of the controller.
        pid: u32,
    },
    /// About to put something on the machines of a site.
    SiteOpened {
        /// Which site.
        site: String,
    },
    /// Nothing of cvc's is left on the machines of a site.
    SiteClosed {
        /// Which site.
        site: String,
    },
    /// About to start a run; written and synced before anything is started.
    RunIntended {
        /// Which run.
        run: RunId,
        /// Attempt, from 1.
        attempt: u32,
        /// Nodes that it is given, in the order of the mapping; none on this machine.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        nodes: Vec<String>,
    },
    /// The shepherd of the run is alive.
    RunStarted {
        /// Which run.
        run: RunId,
        /// Attempt, from 1.
        attempt: u32,
        /// Process id of the shepherd.
        pid: u32,
        /// Start time of that process in kernel ticks, so that a reused pid is told apart.
        start_ticks: u64,
    },
    /// The run ended and its directory has its final name.
    RunFinished {
        /// Which run.
        run: RunId,
        /// Attempt, from 1.
        attempt: u32,
        /// How it ended.
        outcome: Outcome,
        /// BLAKE3 digest of the run's records.jsonl.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        records: Option<String>,
    },
    /// The run was cut off by the end of its controller (killed, power lost); found on resume. It does not count as an attempt.
    RunAbandoned {
        /// Which run.
        run: RunId,
        /// Attempt, from 1.
        attempt: u32,
        /// Processes that were still alive and were ended.
        ended: Vec<u32>,
    },
    /// A point failed too often; its remaining runs are not tried.
    PointQuarantined {
        /// Digest of the point.
        point: crate::ids::PointId,
        /// Runs of it that failed.
        failures: u32,
    },
    /// Points cannot run here, because something is not installed; asked anew by every controller.
    PointsSkipped {
        /// Digests of the points.
        points: Vec<crate::ids::PointId>,
        /// What is missing, and how to fix it.
        reason: String,
    },
    /// The user asked for failed runs to be tried again: a point that was set aside no longer is.
    PointReleased {
        /// Digest of the point.
        point: crate::ids::PointId,
    },
    /// About to ask a scheduler or a cloud for nodes; written and synced before it is asked.
    LeaseIntended {
        /// Its name: that of the job, or the client token.
        lease: String,
        /// For which site.
        site: String,
        /// Nodes.
        nodes: u32,
        /// What a cloud is asked for, word for word.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        order: Option<Box<crate::lease::LaunchOrder>>,
    },
    /// The scheduler has taken it, or the cloud has launched it.
    LeaseAcquired {
        /// Its name.
        lease: String,
        /// The scheduler's number of it; of a cloud's lease its instances, with commas.
        job: String,
    },
    /// The deadline at which a cloud's instances end by themselves was moved on.
    LeaseExtended {
        /// Its name.
        lease: String,
        /// Until when.
        until: jiff::Timestamp,
    },
    /// A cloud's lease goes on after the campaign: the next one with the same settings may take it over, until then.
    LeaseKept {
        /// Its name.
        lease: String,
        /// Until when.
        until: jiff::Timestamp,
    },
    /// Nodes of a lease are there no more, though nobody gave them back.
    LeaseLost {
        /// Its name.
        lease: String,
        /// Which instances.
        instances: Vec<String>,
        /// Why.
        why: String,
    },
    /// It is over, and nothing of it is left.
    LeaseReleased {
        /// Its name.
        lease: String,
        /// How it ended.
        how: String,
    },
    /// Ctrl-C or SIGTERM.
    Interrupted {
        /// Whether the run under way was cut off.
        now: bool,
    },
    /// All runs of the plan are finished, failed or quarantined.
    Completed {
        /// Runs that succeeded.
        succeeded: u64,
        /// Runs that failed.
        failed: u64,
    },
}
