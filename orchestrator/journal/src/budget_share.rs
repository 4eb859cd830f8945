//! What is left of a budget for instances: the time until which all fleets of a campaign can exist together. Without cvc each fleet exists
//! until its own deadline, so what was promised to one is not there for another.

use jiff::{SignedDuration, Timestamp};

/// Time to give instances back, seconds: they cost until the cloud has accepted it.
pub const RELEASE_S: f64 = 60.0;

/// Something that costs while it exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Commitment {
    /// US dollars for a second.
    pub usd_per_s: f64,
    /// Until when it is paid already: a minimum charge.
    pub paid_until: Timestamp,
    /// Until when it exists even if nobody extends its deadline; cvc cannot rely on being there to end it earlier.
    pub promised_until: Timestamp,
}

impl Commitment {
    /// The cost until a time, or until what was promised, if that is later.
    fn usd(&self, from: Timestamp, until: Timestamp) -> f64 {
        let until = until.max(self.promised_until);
        until
            .duration_since(from.max(self.paid_until))
            .as_secs_f64()
            .max(0.0)
            * self.usd_per_s
    }
}

/// What is left of a budget at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetShare {
    /// The moment.
    pub at: Timestamp,
    /// What is left, US dollars.
    pub left_usd: f64,
    /// What will go on to cost.
    pub commitments: Vec<Commitment>,
}

impl BudgetShare {
    /// What is left after a time, US dollars; negative if it does not suffice. `more_usd_per_s` is the cost of what is to be added now.
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

    /// The time until which everything can exist together with what is to be added now, which costs `more_usd_per_s`; [`Self::at`] if it
    /// cannot. It does not change as time goes by, but when something begins, ends, or is promised.
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
        // from here the cost of each second is the same until the next corner, at which it is too much
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
        // a further one shortens the time of all
        assert_eq!(share.until(3.0), at(1_050));
        // and so later, as long as nothing changes
        let later = BudgetShare {
            at: at(1_040),
            left_usd: 180.0,
            ..share
        };
        assert_eq!(later.until(0.0), at(1_100));
    }

    #[test]
    fn what_was_promised_to_one_fleet_is_not_there_for_another() {
        let share = |promised_s| BudgetShare {
            at: at(0),
            left_usd: 300.0,
            commitments: vec![commitment(1.0, 0, promised_s)],
        };
        assert_eq!(share(0).until(1.0), at(150));
        assert_eq!(share(150).until(1.0), at(150));
        // it was extended when it was alone
        assert_eq!(share(200).until(1.0), at(100));
        assert_eq!(share(300).until(1.0), at(0));
        assert_eq!(share(400).until(1.0), at(0));
    }

    #[test]
    fn what_is_paid_already_is_not_counted_again_and_what_is_free_has_no_end() {
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
        /// Two owners take turns to extend to what they are told, and whatever happens then, the sum of what was promised is never above
        /// what was there.
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
                // time passes; those whose deadline has passed are gone
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
