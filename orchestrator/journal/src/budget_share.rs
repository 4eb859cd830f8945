//! Divides the rest of a budget among fleets: computes the time until which all fleets of a campaign can exist. If cvc dies, each fleet exists until
//! its own deadline, so money that one fleet needs until then is not available to another.

use jiff::{SignedDuration, Timestamp};

/// Time for giving instances back, seconds. They cost until the cloud has accepted the request.
pub const RELEASE_S: f64 = 60.0;

/// A resource that costs money while it exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Commitment {
    /// Cost per second, US dollars.
    pub usd_per_s: f64,
    /// Time until which the resource is already paid for, by a minimum charge.
    pub paid_until: Timestamp,
    /// Time until which the resource exists if its deadline is not moved. Its cost until then is certain, because cvc may die and not end it earlier.
    pub promised_until: Timestamp,
}

impl Commitment {
    /// Returns the cost from `from`, US dollars, until `until` or [`Self::promised_until`], whichever is later. Time that is already paid for costs
    /// nothing.
    fn usd(&self, from: Timestamp, until: Timestamp) -> f64 {
        let until = until.max(self.promised_until);
        until
            .duration_since(from.max(self.paid_until))
            .as_secs_f64()
            .max(0.0)
            * self.usd_per_s
    }
}

/// The rest of a budget at a moment, and the resources that must be paid for from it.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetShare {
    /// The moment.
    pub at: Timestamp,
    /// The rest of the budget at that moment, US dollars.
    pub left_usd: f64,
    /// The resources that the rest must pay for.
    pub commitments: Vec<Commitment>,
}

impl BudgetShare {
    /// Returns the rest of the budget at the time `until`, US dollars; negative if the budget is not enough. `more_usd_per_s` is the cost per second
    /// of resources that are to be added now.
    pub fn left_after(&self, until: Timestamp, more_usd_per_s: f64) -> f64 {
        let more = until.duration_since(self.at).as_secs_f64().max(0.0) * more_usd_per_s;
        self.left_usd
            - more
            - self
                .commitments
                .iter()
                .map(|c| c.usd(self.at, until))
                .sum::<f64>()
    }

    /// Returns the time until which the budget pays for all resources, including resources to be added now that cost `more_usd_per_s` dollars per
    /// second. Returns [`Self::at`] if the budget is not enough. The result changes only when a resource begins or ends or its deadline moves, not as
    /// time passes.
    pub fn until(&self, more_usd_per_s: f64) -> Timestamp {
        let mut corners: Vec<Timestamp> = self
            .commitments
            .iter()
            .flat_map(|c| [c.paid_until, c.promised_until])
            .collect();
        corners.retain(|t| *t > self.at);
        corners.sort();
        let mut from = self.at;
        for corner in corners {
            if self.left_after(corner, more_usd_per_s) < 0.0 {
                break;
            }
            from = corner;
        }
        let left = self.left_after(from, more_usd_per_s);
        if left <= 0.0 {
            return from;
        }
        // between `from` and the next corner, where the rest would be negative, the cost per second is constant
        let begun = self
            .commitments
            .iter()
            .filter(|c| c.paid_until.max(c.promised_until) <= from);
        let usd_per_s = more_usd_per_s + begun.map(|c| c.usd_per_s).sum::<f64>();
        if usd_per_s <= 0.0 {
            return Timestamp::MAX;
        }
        let lasts =
            SignedDuration::try_from_secs_f64(left / usd_per_s).unwrap_or(SignedDuration::MAX);
        from.saturating_add(lasts).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(s: i64) -> Timestamp {
        Timestamp::from_second(s).expect("a time")
    }

    fn commitment(usd_per_s: f64, paid_s: i64, promised_s: i64) -> Commitment {
        Commitment {
            usd_per_s,
            paid_until: at(paid_s),
            promised_until: at(promised_s),
        }
    }

    #[test]
    fn fleets_end_together_when_the_money_does() {
        let share = BudgetShare {
            at: at(1_000),
            left_usd: 300.0,
            commitments: vec![commitment(1.0, 0, 0), commitment(2.0, 0, 0)],
        };
        assert_eq!(share.until(0.0), at(1_100));
        // a further resource shortens the time of all
        assert_eq!(share.until(3.0), at(1_050));
        // the result is the same later, as long as nothing changes
        let later = BudgetShare {
            at: at(1_040),
            left_usd: 180.0,
            ..share
        };
        assert_eq!(later.until(0.0), at(1_100));
    }

    #[test]
    fn money_promised_to_one_fleet_is_not_available_for_another() {
        let share = |promised_s| BudgetShare {
            at: at(0),
            left_usd: 300.0,
            commitments: vec![commitment(1.0, 0, promised_s)],
        };
        assert_eq!(share(0).until(1.0), at(150));
        assert_eq!(share(150).until(1.0), at(150));
        // the other fleet was extended while it was alone
        assert_eq!(share(200).until(1.0), at(100));
        assert_eq!(share(300).until(1.0), at(0));
        assert_eq!(share(400).until(1.0), at(0));
    }

    #[test]
    fn paid_costs_are_not_counted_again_and_free_machines_have_no_end() {
        let share = BudgetShare {
            at: at(0),
            left_usd: 90.0,
            commitments: vec![commitment(1.0, 60, 0)],
        };
        assert_eq!(share.until(0.0), at(150));
        assert_eq!(
            BudgetShare {
                commitments: Vec::new(),
                ..share
            }
            .until(0.0),
            Timestamp::MAX
        );
    }

    proptest! {
        /// Several owners take turns extending their fleets; the sum of promises never exceeds the budget.
        #[test]
        fn the_sum_of_promises_is_within_the_budget(
            budget in 1.0..1_000.0f64,
            rates in proptest::collection::vec(0.01..5.0f64, 1..5),
            turns in proptest::collection::vec((0..5usize, 0..50i64, 1..400i64), 1..30),
        ) {
            let mut now = 0;
            let mut fleets: Vec<Option<Commitment>> = vec![None; rates.len()];
            let mut spent = 0.0;
            for (which, pause, lifetime) in turns {
                // time passes; fleets end at their deadlines
                for fleet in &mut fleets {
                    if let Some(of_it) = fleet {
                        let end = of_it.promised_until.min(at(now + pause));
                        spent += end.duration_since(at(now)).as_secs_f64().max(0.0) * of_it.usd_per_s;
                        if of_it.promised_until <= at(now + pause) {
                            *fleet = None;
                        }
                    }
                }
                now += pause;
                let which = which % rates.len();
                let own = fleets[which].take();
                let others: Vec<Commitment> = fleets.iter().flatten().cloned().collect();
                let share = BudgetShare { at: at(now), left_usd: budget - spent, commitments: others };
                let until = share.until(rates[which]).min(at(now + lifetime));
                let promised = own.map_or(until, |own| own.promised_until.max(until));
                fleets[which] = Some(commitment(rates[which], 0, 0)).map(|c| Commitment { promised_until: promised, ..c });
                let ahead: f64 = fleets.iter().flatten().map(|c| c.usd(at(now), at(now))).sum();
                prop_assert!(spent + ahead <= budget * 1.000_001 + 1e-6, "{spent} + {ahead} > {budget}");
            }
        }
    }
}
