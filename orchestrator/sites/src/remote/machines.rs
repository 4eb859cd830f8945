//! Who provides the machines of a site, as far as a site that is reached through an agent needs to know.

use crate::error::CampaignError;
use async_trait::async_trait;
use cvc_core::outcome::Cause;
use std::{collections::BTreeMap, fmt};

/// Why a machine is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineLoss {
    /// In words.
    pub why: String,
    /// Whether whoever provided it took it back.
    pub is_reclaim: bool,
}

impl MachineLoss {
    /// What it means for a run on that machine.
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

/// What it costs to fetch results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransferCost {
    /// Nothing.
    Free,
    /// US dollars; `None` if the price is unknown.
    Charged(Option<f64>),
}

/// The machines of a site.
#[async_trait]
pub trait Machines: Send + Sync {
    /// Whether they are there for the campaign alone: they are watched and kept up while it runs, and what is left on them ends with them.
    fn are_temporary(&self) -> bool;

    /// Those that were gone at the last look, by the names of their nodes.
    fn gone(&self) -> BTreeMap<String, MachineLoss>;

    /// Looks which are gone.
    ///
    /// # Errors
    /// When whoever provides them does not answer.
    async fn look_for_gone(&self) -> Result<BTreeMap<String, MachineLoss>, CampaignError>;

    /// Does what keeps them there, as far as it is due.
    async fn keep_up(&self);

    /// What it costs to fetch so many bytes from them.
    fn transfer_cost(&self, bytes: u64) -> TransferCost;
}

/// Machines that are there with or without the campaign: hosts that are reached by ssh, and nodes that Slurm allocates.
pub struct StandingMachines;

#[async_trait]
impl Machines for StandingMachines {
    fn are_temporary(&self) -> bool {
        false
    }

    /// Sentinels tell which do not answer; they come back.
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
