//! The events of a journal. The state of a campaign is a fold over these.

use super::{lineage::Lineage, node_set::WrittenNodes, place::SitePlace};
use crate::lease::LaunchOrder;
use crate::price::NodeRate;
use cvc_core::ids::{InstanceId, JobId, LeaseId, PointId, RunId, SiteName};
use cvc_core::outcome::Outcome;
use cvc_core::store::OutcomeFile;
use serde::{Deserialize, Serialize};

/// One line of `journal.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Number of the line, from 1, without gaps.
    pub seq: u64,
    /// When it was written.
    pub at: jiff::Timestamp,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// The event.
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
        /// The identity of the campaign; not in formats 1 and 2.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        lineage: Option<Lineage>,
    },
    /// A journal of an earlier format is continued: from now on the campaign is called this.
    LineageGiven {
        /// The identity of the campaign.
        lineage: Lineage,
    },
    /// A controller began or resumed work with this plan.
    Started {
        /// Digest of plan.json.
        plan: String,
        /// Runs in the plan.
        runs: u64,
        /// Process id of the controller.
        pid: u32,
        /// Version of cvc; empty in formats 1 and 2.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        cvc: String,
    },
    /// About to put something on the machines of a site.
    SiteOpened {
        /// Which site.
        site: SiteName,
        /// Where it is; not in journals of version 0.1.0.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        place: Option<Box<SitePlace>>,
    },
    /// cvc has left nothing on the machines of a site.
    SiteClosed {
        /// Which site.
        site: SiteName,
        /// Whether nobody could look, and the user said so: `cvc down --forget`.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        forgotten: bool,
    },
    /// About to start a run; written and synced before anything is started.
    RunIntended {
        /// Which run.
        run: RunId,
        /// Attempt, from 1.
        attempt: u32,
        /// Nodes that it is given, in the order of the mapping; none on this machine.
        #[serde(skip_serializing_if = "WrittenNodes::is_none", default)]
        nodes: WrittenNodes,
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
        /// BLAKE3 digest of the manifest of the run's directory; not in formats 1 and 2.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        manifest: Option<String>,
        /// Why no further attempt follows, although the campaign allows one: none would end otherwise. Earlier versions tried again.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        not_again: Option<String>,
    },
    /// The run was cut off: by the user, by the end of its controller (killed, power lost; found on resume), or with its agent or nodes. It
    /// does not count as an attempt.
    RunAbandoned {
        /// Which run.
        run: RunId,
        /// Attempt, from 1.
        attempt: u32,
        /// Processes that were still alive and were ended.
        ended: Vec<u32>,
        /// Whether it was lost with its agent or nodes, which happens to a run only so often.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        lost: bool,
        /// Whether its controller ended with it, although nobody had asked for a stop: the run may be why, so that this happens to a run only so
        /// often as well. Earlier versions did not say so.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        with_controller: bool,
    },
    /// A run that had succeeded is to be repeated: its directory is gone, or is not what was sealed.
    RunDiscarded {
        /// Which run.
        run: RunId,
        /// The attempt that had succeeded.
        attempt: u32,
        /// What is wrong with its directory.
        reason: String,
    },
    /// The journal was damaged, and was written anew from what was whole.
    Repaired {
        /// Entries that are lost.
        lost: u64,
        /// Entries that did not follow from those that are left.
        left_out: u64,
        /// Name of the damaged journal, beside this one.
        copy: String,
    },
    /// A point failed too often; its remaining runs are not tried.
    PointQuarantined {
        /// Digest of the point.
        point: PointId,
        /// Runs of it that failed.
        failures: u32,
    },
    /// Points cannot run here, because something is not installed; every controller checks again.
    PointsSkipped {
        /// Digests of the points.
        points: Vec<PointId>,
        /// What is missing, and how to fix it.
        reason: String,
    },
    /// A point needs no further run: its interval is narrow enough, or it has all the runs that it may have.
    PointDecided {
        /// Digest of the point.
        point: PointId,
        /// Its counted runs that succeeded.
        repeats: u32,
        /// Whether the interval is narrow enough.
        is_narrow: bool,
        /// How wide it is, and of what.
        reason: String,
    },
    /// The user asked to retry failed runs: the point is no longer quarantined.
    PointReleased {
        /// Digest of the point.
        point: PointId,
    },
    /// About to ask a scheduler or a cloud for nodes; written and synced before it is asked.
    LeaseIntended {
        /// Its name: that of the job, or the client token.
        lease: LeaseId,
        /// For which site.
        site: SiteName,
        /// Nodes.
        nodes: u32,
        /// The exact order to a cloud.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        order: Option<Box<LaunchOrder>>,
    },
    /// The scheduler has taken it, or the cloud has launched it.
    LeaseAcquired {
        /// Its name.
        lease: LeaseId,
        /// What it consists of. Version 0.1.0 called this `job`.
        #[serde(alias = "job")]
        by: Acquired,
    },
    /// The deadline at which a cloud's instances terminate themselves was extended.
    LeaseExtended {
        /// Its name.
        lease: LeaseId,
        /// The new deadline.
        until: jiff::Timestamp,
    },
    /// The price of a cloud's instances has changed since they were ordered, or nobody can say any more that it has not.
    LeasePriced {
        /// Its name.
        lease: LeaseId,
        /// The price of one of them.
        rate: Box<NodeRate>,
        /// Since when it holds: the market may have changed some time before it was asked.
        since: jiff::Timestamp,
    },
    /// A cloud's lease is kept after the campaign, for the next campaign with the same settings.
    LeaseKept {
        /// Its name.
        lease: LeaseId,
        /// The new deadline.
        until: jiff::Timestamp,
    },
    /// Instances of a lease are gone, although the lease was not released.
    LeaseLost {
        /// Its name.
        lease: LeaseId,
        /// Which instances.
        instances: Vec<InstanceId>,
        /// Why.
        why: String,
    },
    /// The lease is over, and nothing of it is left.
    LeaseReleased {
        /// Its name.
        lease: LeaseId,
        /// How it ended.
        how: String,
    },
    /// The results of a run, or a part of them, were fetched from a cloud. Also what was fetched in vain counts: the cloud charges it.
    ResultsFetched {
        /// From which site.
        site: SiteName,
        /// Of which run.
        run: RunId,
        /// Bytes that left the cloud.
        bytes: u64,
        /// Their price, US dollars, if it is known.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        usd: Option<f64>,
    },
    /// Ctrl-C or SIGTERM: written when it comes while runs are under way, and when they are cut off.
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

impl Event {
    /// The end of a run, as it is recorded in its directory.
    pub fn finished(run: RunId, file: OutcomeFile) -> Self {
        let OutcomeFile {
            attempt,
            outcome,
            records,
            wall_s: _,
            manifest,
        } = file;
        Self::RunFinished {
            run,
            attempt,
            outcome,
            records,
            manifest,
            not_again: None,
        }
    }
}

/// What a lease consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", from = "WrittenAcquired")]
pub enum Acquired {
    /// A job of a scheduler.
    Job(JobId),
    /// Instances of a cloud.
    Instances(Vec<InstanceId>),
}

impl Acquired {
    /// Reads the text that version 0.1.0 wrote: the identifier of a job, or those of instances (which begin with `i-`), separated by
    /// commas.
    pub fn from_text(text: &str) -> Self {
        if text.starts_with("i-") {
            Self::Instances(
                text.split(',')
                    .filter(|id| !id.is_empty())
                    .map(InstanceId::from)
                    .collect(),
            )
        } else {
            Self::Job(text.into())
        }
    }

    /// Instances with these identifiers.
    pub fn instances<I: Into<InstanceId>>(ids: impl IntoIterator<Item = I>) -> Self {
        Self::Instances(ids.into_iter().map(Into::into).collect())
    }
}

/// Both forms of [`Acquired`] in journals.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenAcquired {
    Text(String),
    Typed(TypedAcquired),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TypedAcquired {
    Job(JobId),
    Instances(Vec<InstanceId>),
}

impl From<WrittenAcquired> for Acquired {
    fn from(written: WrittenAcquired) -> Self {
        match written {
            WrittenAcquired::Text(text) => Self::from_text(&text),
            WrittenAcquired::Typed(TypedAcquired::Job(job)) => Self::Job(job),
            WrittenAcquired::Typed(TypedAcquired::Instances(ids)) => Self::Instances(ids),
        }
    }
}
