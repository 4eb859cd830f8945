//! Computes from the journal, without side effects, when each fleet has to end: the time until which the rest of the budget pays for all instances
//! together, even if cvc dies now and ends none of them earlier.

use cvc_journal::budget_share::{BudgetShare, Commitment};

use cvc_journal::{Event, Lease};

use cvc_journal::price::MIN_S;

use cvc_journal::spending;
use jiff::{SignedDuration, Timestamp};

/// Returns whether an event changes the future cost of instances.
pub(super) fn changes_means(event: &Event) -> bool {
    matches!(
        event,
        Event::LeaseIntended { .. }
            | Event::LeaseAcquired { .. }
            | Event::LeaseExtended { .. }
            | Event::LeasePriced { .. }
            | Event::LeaseKept { .. }
            | Event::LeaseLost { .. }
            | Event::LeaseReleased { .. }
    )
}

/// Returns the cost of each further second of a cloud lease, US dollars. `None` if the lease has ended, belongs to a scheduler, or has an unknown
/// price.
pub(super) fn lease_usd_per_s(lease: &Lease) -> Option<f64> {
    let order = lease.order.as_ref().filter(|_| !lease.released)?;
    // a journal may name a lost instance that is part of no lease
    let alive = if lease.is_acquired() {
        lease.instances().len().saturating_sub(lease.lost.len())
    } else {
        order.count as usize
    };
    Some(lease.usd_per_hour()? / 3600.0 * alive as f64)
}

/// Returns the future cost of a lease; `None` if the lease costs nothing more, or if its price is unknown.
fn of_lease(lease: &Lease) -> Option<Commitment> {
    let minimum = SignedDuration::try_from_secs_f64(MIN_S).unwrap_or_default();
    Some(Commitment {
        usd_per_s: lease_usd_per_s(lease)?,
        paid_until: lease
            .intended
            .checked_add(minimum)
            .unwrap_or(lease.intended),
        promised_until: spending::promised_until(lease)?,
    })
}

/// Returns the share of the rest of the budget, at the time `at`, for the fleet of a site. The present deadline of this fleet is ignored, because a
/// new deadline is about to replace it.
pub(super) fn share_of(
    site: &str,
    at: Timestamp,
    left_usd: f64,
    leases: &[Lease],
    pending: &[(String, f64)],
    by_use_per_s: f64,
) -> BudgetShare {
    let mut share = BudgetShare {
        at,
        left_usd,
        commitments: Vec::new(),
    };
    for lease in leases {
        let Some(mut commitment) = of_lease(lease) else {
            continue;
        };
        if let Some(kept_until) = lease.kept_until.filter(|_| lease.site != site) {
            // a kept lease ends at its own time, and is not extended
            let ahead_s = kept_until
                .duration_since(at.max(commitment.paid_until))
                .as_secs_f64()
                .max(0.0);
            share.left_usd -= ahead_s * commitment.usd_per_s;
            continue;
        }
        if lease.site == site {
            commitment.promised_until = at;
        }
        share.commitments.push(commitment);
    }
    // instances that are not launched yet, and nodes that are billed by use
    let others = pending
        .iter()
        .filter(|(of, _)| of != site)
        .map(|(_, usd_per_s)| *usd_per_s);
    share
        .commitments
        .extend(others.chain([by_use_per_s]).map(|usd_per_s| Commitment {
            usd_per_s,
            paid_until: at,
            promised_until: at,
        }));
    share
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_journal::lease::{LaunchOrder, Tags};
    use cvc_journal::{Acquired, CampaignState, Entry};

    fn at(s: i64) -> Timestamp {
        Timestamp::from_second(s).expect("a time")
    }

    fn order(site: &str, usd_per_hour: f64, intended_s: i64, lifetime_s: u64) -> LaunchOrder {
        let tags = Tags {
            site: site.into(),
            lease: Some(site.into()),
            expires: Some(at(intended_s + lifetime_s as i64)),
            ..Tags::default()
        };
        LaunchOrder {
            tags,
            count: 1,
            usd_per_hour: Some(usd_per_hour),
            lifetime_s,
            ..LaunchOrder::default()
        }
    }

    /// Returns the leases of a journal; each event has its time, seconds.
    fn leases(events: Vec<(i64, Event)>) -> Vec<Lease> {
        let entries: Vec<Entry> = (1..)
            .zip(events)
            .map(|(seq, (s, event))| Entry {
                seq,
                at: at(s),
                event,
            })
            .collect();
        CampaignState::of(&entries).expect("a legal journal").leases
    }

    fn launched(
        site: &str,
        usd_per_hour: f64,
        intended_s: i64,
        lifetime_s: u64,
    ) -> Vec<(i64, Event)> {
        let order = Some(Box::new(order(site, usd_per_hour, intended_s, lifetime_s)));
        let intended = Event::LeaseIntended {
            lease: site.into(),
            site: site.into(),
            nodes: 1,
            order,
        };
        let by = Acquired::instances([format!("i-{site}")]);
        vec![
            (intended_s, intended),
            (
                intended_s + 5,
                Event::LeaseAcquired {
                    lease: site.into(),
                    by,
                },
            ),
        ]
    }

    #[test]
    fn two_fleets_share_the_budget_although_only_one_is_there() {
        // the rest is 5 dollars; each instance costs 1 dollar an hour, and the second one is still to be launched
        let hour = 3600.0;
        let first = leases(launched("a", 1.0, 0, 100));
        let pending = [("b".to_owned(), 1.0 / hour)];
        let of_a = share_of("a", at(0), 5.0, &first, &pending, 0.0);
        assert_eq!(
            of_a.until(0.0).as_second(),
            (2.5 * hour) as i64 + 30,
            "the first minute is counted in what was spent"
        );
        // after the first fleet is extended, the second gets the rest; without cvc neither exceeds its share
        let extended = Event::LeaseExtended {
            lease: "a".into(),
            until: at(9_000),
        };
        let mut events = launched("a", 1.0, 0, 100);
        events.push((10, extended));
        let of_b = share_of("b", at(600), 5.0 - 600.0 / hour, &leases(events), &[], 0.0);
        assert_eq!(of_b.until(1.0 / hour).as_second(), 9_300);
    }

    #[test]
    fn kept_machines_cost_until_then_and_no_longer() {
        let mut events = launched("a", 3.6, 0, 100);
        events.push((
            100,
            Event::LeaseKept {
                lease: "a".into(),
                until: at(1_100),
            },
        ));
        // one of the two dollars is reserved for the kept lease
        let of_b = share_of("b", at(100), 2.0, &leases(events), &[], 0.0);
        assert_eq!(of_b.until(0.001), at(1_100));
    }

    #[test]
    fn an_instance_that_was_lost_twice_costs_nothing_instead_of_everything() {
        let mut events = launched("a", 3.6, 0, 100);
        let lost = |id: &str| Event::LeaseLost {
            lease: "a".into(),
            instances: vec![id.into()],
            why: "gone".into(),
        };
        events.extend([(50, lost("i-a")), (60, lost("i-of-another-journal"))]);
        assert_eq!(leases(events).first().and_then(lease_usd_per_s), Some(0.0));
    }
}
