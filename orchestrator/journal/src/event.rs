//! Events of a journal; the state of a campaign is folded from them.

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
    /// Time at which the line was written.
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
        /// Identity of the campaign; absent in formats 1 and 2.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        lineage: Option<Lineage>,
    },
    /// A journal of an earlier format is continued. From now on the campaign is identified by this lineage.
    LineageGiven {
        /// The identity of the campaign.
        lineage: Lineage,
    },
    /// A controller began or resumed work with this plan.
    Started {
        /// Digest of plan.json.
        plan: String,
        /// Number of runs in the plan.
        runs: u64,
        /// Process id of the controller.
        pid: u32,
        /// Version of cvc; empty in formats 1 and 2.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        cvc: String,
    },
    /// cvc is about to use the machines of a site.
    SiteOpened {
        /// The site.
        site: SiteName,
        /// Place of the site; absent in journals of version 0.1.0.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        place: Option<Box<SitePlace>>,
    },
    /// Nothing of cvc is left on the machines of a site.
    SiteClosed {
        /// The site.
        site: SiteName,
        /// Whether the user declared that nothing is left, without a query: `cvc down --forget`.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        forgotten: bool,
    },
    /// A run is about to be started. Written and synced before anything is started.
    RunIntended {
        /// The run.
        run: RunId,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Nodes of the attempt, in the order of the mapping; none on this machine.
        #[serde(skip_serializing_if = "WrittenNodes::is_none", default)]
        nodes: WrittenNodes,
    },
    /// The shepherd of the run, the process that supervises it, was started.
    RunStarted {
        /// The run.
        run: RunId,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Process id of the shepherd.
        pid: u32,
        /// Start time of the shepherd in kernel ticks, by which a reused pid is detected.
        start_ticks: u64,
    },
    /// The run ended and its directory has its final name.
    RunFinished {
        /// The run.
        run: RunId,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// The outcome.
        outcome: Outcome,
        /// BLAKE3 digest of the run's records.jsonl.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        records: Option<String>,
        /// BLAKE3 digest of the manifest of the run's directory; absent in formats 1 and 2.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        manifest: Option<String>,
        /// Why no further attempt follows, although the campaign allows one: every further attempt would fail in the same way. `None` in journals of
        /// earlier versions, which always tried again.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        not_again: Option<String>,
    },
    /// An attempt has left a checkpoint from which the next attempt can continue. The event precedes the one that records the attempt as failed. The
    /// failed attempt does not count.
    CheckpointKept {
        /// The run.
        run: RunId,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Size of the checkpoint, bytes.
        bytes: u64,
    },
    /// The run was interrupted, and the attempt does not count. It was interrupted by the user, by the end of its controller (which was killed or
    /// lost power; found when the campaign is resumed), or by the loss of its agent or nodes.
    RunAbandoned {
        /// The run.
        run: RunId,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Processes that were still alive and were ended.
        ended: Vec<u32>,
        /// Whether the attempt was lost with its agent or nodes; the number of such losses of a run is limited.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        lost: bool,
        /// Whether the attempt was interrupted because its controller ended without a request to stop. The run may have caused that, so the number of
        /// attempts at a run with such an end is limited. Earlier versions did not record this.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        with_controller: bool,
    },
    /// A run that had succeeded is to be repeated, because its directory is missing or no longer matches its manifest.
    RunDiscarded {
        /// The run.
        run: RunId,
        /// The attempt that had succeeded.
        attempt: u32,
        /// The problem with the directory.
        reason: String,
    },
    /// The journal was damaged, and was rewritten from its intact lines.
    Repaired {
        /// Number of entries that are lost.
        lost: u64,
        /// Number of intact entries that were omitted, because they did not follow from the other entries.
        left_out: u64,
        /// File name of the damaged journal, in the same directory.
        copy: String,
    },
    /// A point failed too often. Its remaining runs are not tried.
    PointQuarantined {
        /// Identifier of the point.
        point: PointId,
        /// Number of the point's runs that failed.
        failures: u32,
    },
    /// Points cannot run, because something is not installed. Every controller checks this again.
    PointsSkipped {
        /// Identifiers of the points.
        points: Vec<PointId>,
        /// What is missing, and how to fix it.
        reason: String,
    },
    /// A point needs no further run: its confidence interval is narrow enough, or it has all the runs that it may have.
    PointDecided {
        /// Identifier of the point.
        point: PointId,
        /// Number of its counted runs that succeeded.
        repeats: u32,
        /// Whether the confidence interval is narrow enough.
        is_narrow: bool,
        /// Width of the interval, and its quantity, as text.
        reason: String,
    },
    /// The user requested that failed runs be retried: the point is no longer quarantined.
    PointReleased {
        /// Identifier of the point.
        point: PointId,
    },
    /// Nodes are about to be requested from a scheduler or a cloud. Written and synced before the request.
    LeaseIntended {
        /// Name of the lease: the name of the Slurm job, or the client token of the launch.
        lease: LeaseId,
        /// The site.
        site: SiteName,
        /// Number of nodes.
        nodes: u32,
        /// The exact order, for a cloud.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        order: Option<Box<LaunchOrder>>,
    },
    /// The scheduler has accepted the job, or the cloud has launched the instances.
    LeaseAcquired {
        /// Name of the lease.
        lease: LeaseId,
        /// The job or the instances. Version 0.1.0 called this `job`.
        #[serde(alias = "job")]
        by: Acquired,
    },
    /// The deadline at which a cloud's instances terminate themselves has moved.
    LeaseExtended {
        /// Name of the lease.
        lease: LeaseId,
        /// The new deadline.
        until: jiff::Timestamp,
    },
    /// The price of a cloud's instances has changed since they were ordered, or is no longer certain.
    LeasePriced {
        /// Name of the lease.
        lease: LeaseId,
        /// Price of one instance.
        rate: Box<NodeRate>,
        /// Time since which the price holds; the market may have changed some time before the query.
        since: jiff::Timestamp,
    },
    /// A cloud's lease is kept after the campaign, for the next campaign with the same settings.
    LeaseKept {
        /// Name of the lease.
        lease: LeaseId,
        /// The new deadline of the instances.
        until: jiff::Timestamp,
    },
    /// Instances of a lease are lost although the lease was not released.
    LeaseLost {
        /// Name of the lease.
        lease: LeaseId,
        /// The lost instances.
        instances: Vec<InstanceId>,
        /// The reason.
        why: String,
    },
    /// The lease has ended, and nothing of it is left.
    LeaseReleased {
        /// Name of the lease.
        lease: LeaseId,
        /// How the lease ended, as text.
        how: String,
    },
    /// Results of a run, or a part of them, were fetched from a cloud. Failed transfers count, too, because the cloud charges for them.
    ResultsFetched {
        /// The site.
        site: SiteName,
        /// The run.
        run: RunId,
        /// Bytes transferred out of the cloud.
        bytes: u64,
        /// Price of the transfer, US dollars, if known.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        usd: Option<f64>,
    },
    /// cvc received Ctrl-C or SIGTERM. Written when that happens while runs are active, and again if the active runs are then interrupted.
    Interrupted {
        /// Whether the active run was interrupted.
        now: bool,
    },
    /// All runs of the plan have succeeded, failed or been quarantined.
    Completed {
        /// Number of runs that succeeded.
        succeeded: u64,
        /// Number of runs that failed.
        failed: u64,
    },
}

impl Event {
    /// Returns the event for the end of a run, as recorded in the run's directory.
    pub fn finished(run: RunId, file: OutcomeFile) -> Self {
        let OutcomeFile {
            attempt,
            outcome,
            records,
            wall_s: _,
            manifest,
            kept: _,
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

/// What the request of a lease has brought: a job, or instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", from = "WrittenAcquired")]
pub enum Acquired {
    /// A job of a scheduler.
    Job(JobId),
    /// Instances of a cloud.
    Instances(Vec<InstanceId>),
}

impl Acquired {
    /// Reads the text that version 0.1.0 wrote: the identifier of a job, or the identifiers of instances (which begin with `i-`), separated by
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

    /// Returns instances with these identifiers.
    pub fn instances<I: Into<InstanceId>>(ids: impl IntoIterator<Item = I>) -> Self {
        Self::Instances(ids.into_iter().map(Into::into).collect())
    }
}

/// The two forms in which [`Acquired`] occurs in journals.
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
