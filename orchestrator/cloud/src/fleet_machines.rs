//! Implements `RemoteMachines`, a site's interface to its machines, by a fleet.

use super::{fleet::Fleet, loss::LossReason, upkeep::Upkeep};
use crate::cost::PriceBook;
use async_trait::async_trait;
use cvc_sites::error::CampaignError;
use cvc_sites::remote::{MachineLoss, RemoteMachines, TransferCost};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::Mutex;

/// The instances of a fleet while runs use them.
pub struct FleetMachines {
    fleet: Arc<Fleet>,
    upkeep: Mutex<Upkeep>,
}

impl FleetMachines {
    /// Returns the machines of a fleet whose deadlines and prices have just been set.
    pub fn begin(fleet: Arc<Fleet>) -> Self {
        Self {
            upkeep: Mutex::new(Upkeep::begin(&fleet)),
            fleet,
        }
    }
}

fn in_words(gone: BTreeMap<String, LossReason>) -> BTreeMap<String, MachineLoss> {
    let loss = |reason: LossReason| MachineLoss {
        why: reason.to_string(),
        is_reclaim: reason.is_reclaim(),
    };
    gone.into_iter()
        .map(|(node, reason)| (node, loss(reason)))
        .collect()
}

#[async_trait]
impl RemoteMachines for FleetMachines {
    fn are_temporary(&self) -> bool {
        true
    }

    fn gone(&self) -> BTreeMap<String, MachineLoss> {
        in_words(self.fleet.gone())
    }

    async fn look_for_gone(&self) -> Result<BTreeMap<String, MachineLoss>, CampaignError> {
        Ok(in_words(self.fleet.look_for_gone().await?))
    }

    async fn keep_up(&self) {
        self.fleet.keep_up(&mut *self.upkeep.lock().await).await;
    }

    fn transfer_cost(&self, bytes: u64) -> TransferCost {
        // the cloud also charges for failed transfers
        TransferCost::Charged(
            PriceBook::shipped()
                .transfer(self.fleet.region(), bytes)
                .ok(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::outcome::Cause;

    #[test]
    fn reclaimed_spot_instances_are_distinguished_from_others_that_ended() {
        let vanished = LossReason::Vanished {
            instance: "i-b".into(),
        };
        let gone = [
            ("a".to_owned(), LossReason::Reclaimed),
            ("b".to_owned(), vanished.clone()),
        ];
        let losses = in_words(gone.into());
        assert_eq!(losses["a"].cause(), Cause::Reclaimed);
        assert_eq!(losses["b"].cause(), Cause::NodeLost);
        assert_eq!(losses["b"].to_string(), vanished.to_string());
    }
}
