//! Costs of a campaign: instances, transfers, runs.

use crate::made::{Made, Value};
use cvc_core::record::Unit::Usd;
use cvc_journal::lease::{LaunchOrder, Tags};
use cvc_journal::price::{NodeRate, Price, PriceFrom, RatePart};
use cvc_journal::{Acquired, Event};

/// Returns an order of two instances.
pub(crate) fn order(usd_per_hour: Option<f64>) -> LaunchOrder {
    let rate = |usd: f64| {
        let price = Price::new(usd, PriceFrom::Campaign);
        NodeRate::new(
            vec![RatePart {
                what: "node".into(),
                price,
            }],
            0.0,
        )
    };
    LaunchOrder {
        tags: Tags {
            site: "cloud".into(),
            fleet: "f".into(),
            ..Tags::default()
        },
        region: "us-east-1".into(),
        instance_type: "c5.large".into(),
        count: 2,
        spot: true,
        usd_per_hour,
        rate: usd_per_hour.map(rate),
        lifetime_s: 100_000,
        ..LaunchOrder::default()
    }
}

fn intend(made: &mut Made, lease: &str, order: Option<LaunchOrder>) {
    made.push(Event::LeaseIntended {
        lease: lease.into(),
        site: "cloud".into(),
        nodes: 2,
        order: order.map(Box::new),
    });
}

fn acquire(made: &mut Made, lease: &str) {
    made.push(Event::LeaseAcquired {
        lease: lease.into(),
        by: Acquired::instances(["i-1", "i-2"]),
    });
}

#[test]
fn instances_cost_until_their_end_or_the_last_entry() {
    let mut made = Made::new(1, 1);
    intend(&mut made, "over", Some(order(Some(36.0))));
    acquire(&mut made, "over");
    for _ in 0..6 {
        made.push(Event::Interrupted { now: false });
    }
    made.push(Event::LeaseReleased {
        lease: "over".into(),
        how: "terminated".into(),
    });
    // a job of a scheduler is not a lease
    intend(&mut made, "job", None);
    intend(&mut made, "open", Some(order(None)));
    acquire(&mut made, "open");
    made.push(Event::Interrupted { now: false });
    let leases = made.index().leases().expect("leases");
    assert_eq!(leases.len(), 2);
    let over = &leases[0];
    assert_eq!(
        (
            over.site.as_str(),
            over.instance_type.as_str(),
            over.spot,
            over.instances
        ),
        ("cloud", "c5.large", true, 2)
    );
    // two instances for 80 seconds, at a cent per second
    assert_eq!((over.instance_s, over.usd), (160.0, Some(1.6)));
    assert_eq!(over.rate.as_deref(), Some("36.0"));
    assert!(
        over.price
            .as_deref()
            .is_some_and(|p| p.contains("campaign file"))
    );
    assert_eq!(over.intended, "2030-01-01T00:00:30Z");
    assert_eq!(over.ended.as_deref(), Some("2030-01-01T00:01:50Z"));
    let open = &leases[1];
    assert_eq!(
        (open.instance_s, open.usd),
        (40.0, None),
        "its price is unknown"
    );
    assert_eq!((open.rate.as_deref(), open.ended.as_deref()), (None, None));
}

#[test]
fn transfers_are_added_up_by_site_and_unknown_prices_stay_unknown() {
    let mut made = Made::new(1, 2);
    for (site, run, bytes, usd) in [
        ("b", "p0-1", 100, Some(0.25)),
        ("b", "p0-2", 20, Some(0.5)),
        ("a", "p0-1", 3, None),
        ("a", "p0-2", 4, Some(1.0)),
    ] {
        made.push(Event::ResultsFetched {
            site: site.into(),
            run: cvc_core::ids::RunId::from_written(run),
            bytes,
            usd,
        });
    }
    let transfers = made.index().transfers().expect("transfers");
    let of: Vec<(&str, i64, Option<f64>)> = transfers
        .iter()
        .map(|t| (t.site.as_str(), t.bytes, t.usd))
        .collect();
    assert_eq!(of, [("a", 7, None), ("b", 120, Some(0.75))]);
}

#[test]
fn runs_cost_with_their_rates_also_warm_ups() {
    let mut made = Made::new(1, 1);
    let labels = [("usd_per_node_hour", "1.50"), ("price", "campaign file")];
    let cost: [Value<'_>; 1] = [("cost_usd", 0.25, Usd, &labels)];
    made.succeed("p0-w1", &cost);
    made.succeed("p0-1", &[("cost_usd", 0.5, Usd, &[])]);
    let costs = made.index().run_costs().expect("costs");
    assert_eq!(costs.len(), 2);
    let (first, second) = (&costs[0], &costs[1]);
    assert_eq!((first.site.as_str(), first.point.as_str()), ("here", "p0"));
    assert_eq!(
        (first.usd, first.rate.as_deref()),
        (Some(0.25), Some("1.50"))
    );
    assert_eq!(first.price.as_deref(), Some("campaign file"));
    assert_eq!((second.usd, second.rate.as_deref()), (Some(0.5), None));
}
