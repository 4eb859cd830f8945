//! The provider of a site's machines, with the operations that a site with an agent needs.

use crate::error::CampaignError;
use async_trait::async_trait;
use cvc_core::outcome::Cause;
use std::{collections::BTreeMap, fmt};

/// Why a machine is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineLoss {
    /// Description of the reason.
    pub why: String,
    /// Whether the provider reclaimed the machine.
    pub is_reclaim: bool,
}

impl MachineLoss {
    /// Returns the cause of failure for a run on this machine.
    pub fn cause(&self) -> Cause {
        if self.is_reclaim {
            Cause::Reclaimed
        } else {
            Cause::NodeLost
        }
    }
}

impl fmt::Display for MachineLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// Cost of fetching results from a site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransferCost {
    /// No cost.
    Free,
    /// Cost in US dollars; `None` if the price is unknown.
    Charged(Option<f64>),
}

/// The machines of a site.
#[async_trait]
pub trait RemoteMachines: Send + Sync {
    /// Returns whether the machines exist for this campaign only. Such machines are monitored while the campaign runs, and their files are deleted
    /// with the machines.
    fn are_temporary(&self) -> bool;

    /// Returns the machines that the last check found lost, by node name.
    fn gone(&self) -> BTreeMap<String, MachineLoss>;

    /// Checks for lost machines.
    ///
    /// # Errors
    /// The provider does not answer.
    async fn look_for_gone(&self) -> Result<BTreeMap<String, MachineLoss>, CampaignError>;

    /// Does maintenance of the machines that is due, such as updating prices and extending deadlines.
    async fn keep_up(&self);

    /// Returns the cost of fetching this number of bytes from the machines.
    fn transfer_cost(&self, bytes: u64) -> TransferCost;
}

/// Machines that exist independently of the campaign: hosts reached by ssh, and nodes that Slurm allocates.
pub struct StandingMachines;

#[async_trait]
impl RemoteMachines for StandingMachines {
    fn are_temporary(&self) -> bool {
        false
    }

    /// Returns no lost machines: sentinels detect the machines that do not answer, and such machines may answer again later.
    fn gone(&self) -> BTreeMap<String, MachineLoss> {
        BTreeMap::new()
    }

    async fn look_for_gone(&self) -> Result<BTreeMap<String, MachineLoss>, CampaignError> {
        Ok(BTreeMap::new())
    }

    async fn keep_up(&self) {}

    fn transfer_cost(&self, _bytes: u64) -> TransferCost {
        TransferCost::Free
    }
}
