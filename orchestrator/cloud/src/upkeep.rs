//! Recurring work for instances during a session: extends their deadline, and queries their current price.

use super::Fleet;
use crate::cost;
use cvc_journal::price::NodeRate;
use cvc_journal::{Event, Lease};
use jiff::Timestamp;
use std::time::{Duration, Instant};

/// Delay before a failed extension of a deadline is tried again.
const EXTEND_AGAIN: Duration = Duration::from_secs(60);
/// Delay between two queries of prices. A spot price may be used for an hour, so one failed query does no harm.
const PRICES_AGAIN: Duration = Duration::from_secs(1800);
/// Relative change of a price up to which the price counts as unchanged: sums of fractions may differ in their last digits.
const NO_CHANGE: f64 = 1e-9;

/// Returns the delay between two queries of prices. Debug builds read `CVC_PRICES_AGAIN_S`, so that tests need not wait for half an hour.
fn prices_again() -> Duration {
    #[cfg(debug_assertions)]
    if let Some(seconds) = std::env::var("CVC_PRICES_AGAIN_S")
        .ok()
        .and_then(|s| s.parse().ok())
    {
        return Duration::from_secs(seconds);
    }
    PRICES_AGAIN
}

/// Times at which work for a fleet is due.
#[derive(Debug)]
pub struct Upkeep {
    extend_at: Instant,
    prices_at: Instant,
}

impl Upkeep {
    /// Returns the first times of work for a fleet whose deadlines and prices have just been set.
    pub fn begin(fleet: &Fleet) -> Self {
        let now = Instant::now();
        Self {
            extend_at: now + fleet.extend_after(),
            prices_at: now + prices_again(),
        }
    }

    /// Returns the time at which the next work is due.
    pub fn due(&self) -> Instant {
        self.extend_at.min(self.prices_at)
    }
}

impl Fleet {
    /// Queries the prices and extends the deadline, each if it is due.
    pub async fn keep_up(&self, upkeep: &mut Upkeep) {
        if Instant::now() >= upkeep.prices_at {
            upkeep.prices_at = Instant::now() + prices_again();
            if self.price_again().await {
                // the budget may now pay for less time than before, or for more
                upkeep.extend_at = Instant::now();
            }
        }
        if Instant::now() >= upkeep.extend_at {
            upkeep.extend_at = Instant::now() + self.extend_after();
            if let Err(error) = self.extend().await {
                self.reporter.note(format!(
                    "{}: a deadline could not be extended: {error}",
                    self.name
                ));
                upkeep.extend_at = Instant::now() + EXTEND_AGAIN;
            }
        }
    }

    /// Queries the current price of the instances, and journals changes. Returns whether any price has changed.
    async fn price_again(&self) -> bool {
        let of_clouds = self.open_leases().into_iter().filter_map(|l| l.order);
        let mut types: Vec<String> = of_clouds.map(|order| order.instance_type).collect();
        types.sort();
        types.dedup();
        if types.is_empty() {
            return false;
        }
        self.ask_prices(&types).await;
        let mut has_changed = false;
        // some leases may have ended in the meantime
        for lease in self.open_leases() {
            let Some((rate, since)) = self.new_rate(&lease) else {
                continue;
            };
            self.reporter.note(format!(
                "{}: {} now costs ${:.4} an hour ({})",
                self.name,
                rate.parts.first().map_or("an instance", |p| &p.what),
                rate.usd_per_hour,
                rate.source()
            ));
            self.write(Event::LeasePriced {
                lease: lease.name,
                rate: Box::new(rate),
                since,
            })
            .await;
            has_changed = true;
        }
        has_changed
    }

    /// Returns the new price of an instance of a lease, and the time since which it has had this price; `None` if the price is unchanged or unknown.
    fn new_rate(&self, lease: &Lease) -> Option<(NodeRate, Timestamp)> {
        let (rate, since) = cost::present_rate(
            &self.price_book(),
            lease.order.as_ref()?,
            &self.request.instances.zones,
        )?;
        let before = lease.usd_per_hour()?;
        ((rate.usd_per_hour - before).abs() > before * NO_CHANGE).then_some((rate, since))
    }
}
