//! A fleet as the machines of a site.

use super::{fleet::Fleet, loss::LossReason, upkeep::Upkeep};
use crate::cost::PriceBook;
use async_trait::async_trait;
use cvc_sites::error::CampaignError;
use cvc_sites::remote::{MachineLoss, Machines, TransferCost};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::Mutex;

/// The instances of a fleet, while runs use them.
pub struct FleetMachines {
    fleet: Arc<Fleet>,
    upkeep: Mutex<Upkeep>,
}

impl FleetMachines {
    /// Those of a fleet whose deadlines and prices are new.
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
impl Machines for FleetMachines {
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
        // the cloud charges also what came in vain
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
    fn what_the_spot_market_took_back_is_told_from_what_ended_otherwise() {
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
