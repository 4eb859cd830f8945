//! What instances need again and again while cvc is there: a later deadline, and a look at what they cost by now.

use super::Fleet;
use crate::cost;
use cvc_journal::price::NodeRate;
use cvc_journal::{Event, Lease};
use jiff::Timestamp;
use std::time::{Duration, Instant};

/// Delay before the next try to extend a deadline.
const EXTEND_AGAIN: Duration = Duration::from_secs(60);
/// Delay between two looks at prices. A quote of the spot market counts for an hour, so that one look may fail.
const PRICES_AGAIN: Duration = Duration::from_secs(1800);
/// Part of a price below which a change is none: sums of fractions differ in their last digits.
const NO_CHANGE: f64 = 1e-9;

/// Delay between two looks at prices. Debug builds read `CVC_PRICES_AGAIN_S`, so that tests need not wait for half an hour.
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

/// When something is due for a fleet.
#[derive(Debug)]
pub struct Upkeep {
    extend_at: Instant,
    prices_at: Instant,
}

impl Upkeep {
    /// The plan for a fleet whose deadlines and prices are new.
    pub fn begin(fleet: &Fleet) -> Self {
        let now = Instant::now();
        Self {
            extend_at: now + fleet.extend_after(),
            prices_at: now + prices_again(),
        }
    }

    /// When the next thing is due.
    pub fn due(&self) -> Instant {
        self.extend_at.min(self.prices_at)
    }
}

impl Fleet {
    /// Does what is due.
    pub async fn keep_up(&self, upkeep: &mut Upkeep) {
        if Instant::now() >= upkeep.prices_at {
            upkeep.prices_at = Instant::now() + prices_again();
            if self.price_again().await {
                // the budget may pay for less time than was promised, or for more
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

    /// Asks what the instances cost by now, and writes down what has changed. Returns whether something has.
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
        // some may have ended meanwhile
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

    /// The price of an instance of a lease, and since when it holds; `None` if it is as before, or if that is not known.
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
