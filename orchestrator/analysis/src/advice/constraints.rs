//! The constraints that the user sets.

use cvc_core::units::MIB;
use serde::Serialize;
use std::collections::BTreeMap;

/// Price of a node of a site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodePrice {
    /// US dollars per hour.
    pub usd_per_hour: f64,
    /// Source of the price, with a date if known.
    pub source: String,
}

impl NodePrice {
    /// Returns a price that the user has set.
    pub fn given(usd_per_hour: f64) -> Self {
        Self {
            usd_per_hour,
            source: "--price".to_owned(),
        }
    }
}

/// Price of storage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoragePrice {
    /// US dollars per GiB (2^30 bytes) and month of 730 hours.
    pub usd_per_gib_month: f64,
    /// Source of the price, with a date if known.
    pub source: String,
}

impl StoragePrice {
    /// Returns the cost of storage for a job of `job_s` seconds, US dollars. Until the end of the job, storage has two checkpoints of this size: the
    /// last complete checkpoint, and the checkpoint being written.
    pub fn usd(&self, checkpoint_bytes: f64, job_s: f64) -> f64 {
        let usd_per_byte_s = self.usd_per_gib_month / (1024.0 * MIB) / (730.0 * 3600.0);
        2.0 * checkpoint_bytes * usd_per_byte_s * job_s
    }
}

/// Constraints on candidates, and parameters of their time and cost. All refer to one job, in which the measured program computes `times` as long as
/// in a measured run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Constraints {
    /// Computing time of the job as a multiple of that of the measured runs.
    pub times: f64,
    /// Computing time of the job on the fastest candidate, seconds; replaces `times`.
    pub work_s: Option<f64>,
    /// Deadline of the job, seconds.
    pub deadline_s: Option<f64>,
    /// Maximum cost of the job, US dollars.
    pub budget_usd: Option<f64>,
    /// Maximum relative overhead of the job's checkpoints.
    pub overhead: Option<f64>,
    /// Mean time between failures of all nodes of the job together, seconds. If set, time and cost are expected values with failures.
    pub mtbf_s: Option<f64>,
    /// Time limit of one batch job, seconds. A longer job continues from its last checkpoint in another batch job.
    pub walltime_s: Option<f64>,
    /// Time between the notice that an instance will be reclaimed and the end of the instance, seconds. A checkpoint must be complete within this
    /// time.
    pub notice_s: Option<f64>,
    /// Computing time between two checkpoints, seconds. If `None`, the interval that minimises the expected time is used. Ignored for candidates
    /// without checkpoints.
    pub every_s: Option<f64>,
    /// Whether only candidates with checkpoints are listed.
    pub checkpointed: bool,
    /// Time from a failure until the program computes again, seconds. `None`: the time of a checkpoint, or zero without checkpoints.
    pub restart_s: Option<f64>,
    /// Price of a node by site, for sites whose runs have no recorded cost.
    pub prices: BTreeMap<String, NodePrice>,
    /// Price of the storage for two checkpoints during the job; `None`: storage costs are ignored.
    pub storage_price: Option<StoragePrice>,
}
