//! What the user asks for.

use std::collections::BTreeMap;

/// What candidates must keep, and what their time and cost are made of. All of it is of one job: the program as it was measured, `times` times
/// as long.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// The job computes so many times as long as the measured runs; 1 if it is one of them.
    pub times: f64,
    /// Seconds in which the job must end.
    pub deadline_s: Option<f64>,
    /// US dollars that the job may cost.
    pub budget_usd: Option<f64>,
    /// Largest share by which checkpoints may lengthen the job.
    pub overhead: Option<f64>,
    /// Mean time between failures of the job's nodes together, seconds: time and cost are those that are expected with failures.
    pub mtbf_s: Option<f64>,
    /// Longest time that one batch job may run, seconds: a longer one goes on from its checkpoint.
    pub walltime_s: Option<f64>,
    /// Seconds between the notice that an instance is taken back and its end: a checkpoint must fit in.
    pub notice_s: Option<f64>,
    /// US dollars of a node for an hour, by site, where no run has a cost.
    pub prices: BTreeMap<String, f64>,
}
