use super::*;
use crate::provider::{FleetRequest, Quote};
use camino::Utf8PathBuf;
use cvc_core::campaign::{
    Disk, Ec2Settings, Image, InstanceSpec, Market, OnInterruption, PriceSettings, Volume,
};
use cvc_journal::lease::{LaunchOrder, Tags};
use cvc_journal::price::{NodeRate, Price, PriceFrom, RatePart};
use cvc_journal::spending::{Spent, campaign_cost, total};
use cvc_journal::{Acquired, CampaignState, Entry, Event};
use jiff::Timestamp;

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn settings(types: &[&str]) -> FleetRequest {
    FleetRequest::of(&Ec2Settings {
        region: "us-east-1".into(),
        profile: None,
        endpoint: None,
        instances: InstanceSpec {
            instance_types: types.iter().map(|t| (*t).to_owned()).collect(),
            nodes: 4,
            zones: Vec::new(),
            subnet: None,
            image: Image::Known("debian-12".into()),
            market: Market::OnDemand,
            max_price_usd: None,
            placement_group: None,
            efa: false,
            root: Disk::default(),
            volumes: Vec::new(),
            lifetime_s: 14_400.0,
            ready_limit_s: 300.0,
            allow_from: None,
            encrypted: false,
            credits: None,
        },
        instance_store: None,
        nfs: None,
        keep_s: None,
        install: true,
        on_interruption: OnInterruption::default(),
    })
}

fn quote(usd: f64, when: &str, spot: Option<&str>) -> Quote {
    Quote {
        instance_type: "c5.xlarge".into(),
        region: "us-east-1".into(),
        zone: spot.map(str::to_owned),
        spot: spot.is_some(),
        usd_per_hour: usd,
        at: at(when),
        asked: None,
    }
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9, "{a} is not {b}");
}

/// Returns a file of quotes in a temporary directory.
fn cached(text: &str) -> (tempfile::TempDir, Utf8PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = Utf8PathBuf::from_path_buf(dir.path().join("prices.json")).expect("UTF-8");
    std::fs::write(&path, text).expect("written");
    (dir, path)
}

#[test]
fn an_instance_is_its_machine_its_disks_and_its_address() {
    let mut wanted = settings(&["c3.xlarge"]);
    wanted.instances.root.size_gib = Some(20);
    wanted.instances.volumes.push(Volume {
        mount: "/scratch".into(),
        kind: "gp3".into(),
        size_gib: 100,
        iops: Some(5000),
        throughput_mib_s: Some(225),
    });
    let rate =
        instance_rate(&PriceBook::shipped(), &wanted, "c3.xlarge", false, None).expect("a price");
    let volume = (100.0 * 0.08 + 2000.0 * 0.005 + 100.0 * 0.04) / 730.0;
    near(
        rate.usd_per_hour,
        0.21 + 20.0 * 0.08 / 730.0 + volume + 0.005,
    );
    let parts: Vec<String> = rate
        .parts
        .iter()
        .map(|p| {
            format!(
                "{}: {:.6}, {}",
                p.what,
                p.price.usd_per_hour,
                p.price.source()
            )
        })
        .collect();
    insta::assert_snapshot!(parts.join("\n"), @r"
    c3.xlarge: 0.210000, shipped table of 2026-07-20
    root volume, gp3 of 20 GiB: 0.002192, shipped table of 2025-11-03
    /scratch, gp3 of 100 GiB: 0.030137, shipped table of 2025-11-03
    public IPv4 address: 0.005000, shipped table of 2025-11-03
    ");
    near(rate.cost_of(1800.0, 4), rate.usd_per_hour * 2.0);
    near(rate.billed(10.0, 1), rate.usd_per_hour / 60.0);
}

#[test]
fn what_a_burstable_type_computes_above_its_baseline_is_counted() {
    let rate = |name: &str| {
        instance_rate(
            &PriceBook::shipped(),
            &settings(&[name]),
            name,
            false,
            Some(8),
        )
        .expect("a price")
    };
    let rest = 8.0 * 0.08 / 730.0 + 0.005;
    near(
        rate("t3.micro").usd_per_hour,
        0.0104 + 2.0 * 0.9 * 0.05 + rest,
    );
    assert!(rate("t3.micro").is_at_most());
    near(rate("t2.micro").usd_per_hour, 0.0116 + rest);
    assert!(!rate("t2.micro").is_at_most());
}

#[test]
fn an_unknown_price_is_reported_and_is_not_zero() {
    let book = PriceBook::shipped();
    let unknown = instance_rate(&book, &settings(&["c9.large"]), "c9.large", false, None)
        .expect_err("no price");
    assert_eq!(
        unknown.to_string(),
        "unknown price of c9.large in us-east-1"
    );
    let mut wanted = settings(&["c5.xlarge"]);
    wanted.instances.root = Disk {
        kind: "io2".into(),
        size_gib: Some(100),
        iops: Some(40_000),
        throughput_mib_s: None,
    };
    let unknown = instance_rate(&book, &wanted, "c5.xlarge", false, None).expect_err("no price");
    assert_eq!(
        unknown.to_string(),
        "unknown price of 40000 I/O operations per second of io2 volumes in us-east-1"
    );
    assert!(book.transfer("mars-north-1", 1).is_err());
    assert_eq!(
        NodeRate::of_settings(&PriceSettings::default(), Some(4)),
        None
    );
    let by_core = PriceSettings {
        per_core_hour_usd: Some(0.01),
        per_node_hour_usd: None,
    };
    assert_eq!(NodeRate::of_settings(&by_core, None), None);
    near(
        NodeRate::of_settings(&by_core, Some(64))
            .expect("a price")
            .cost_of(3600.0, 2),
        1.28,
    );
}

#[test]
fn of_two_prices_the_newer_one_holds() {
    let mut book = PriceBook::shipped();
    book.add([
        quote(0.16, "2026-09-01T00:00:00Z", None),
        quote(0.15, "2026-08-01T00:00:00Z", None),
    ]);
    let price = book.on_demand("us-east-1", "c5.xlarge").expect("a price");
    assert_eq!(
        (price.usd_per_hour, price.from.to_string().as_str()),
        (0.16, "price list of 2026-09-01")
    );
    let mut older = PriceBook::shipped();
    older.add([quote(0.99, "2020-01-01T00:00:00Z", None)]);
    assert_eq!(
        older
            .on_demand("us-east-1", "c5.xlarge")
            .expect("a price")
            .usd_per_hour,
        0.17
    );
}

#[test]
fn a_shipped_price_is_outdated_after_a_year_by_the_clock() {
    let at = |now: &str, region: &str| {
        let book = PriceBook::at(
            camino::Utf8Path::new("/nonexistent"),
            now.parse().expect("a time"),
        );
        let price = book.on_demand(region, "c7i.xlarge").expect("a price");
        let rate = NodeRate::new(
            vec![RatePart {
                what: "c7i.xlarge".into(),
                price,
            }],
            60.0,
        );
        book.outdated([rate].iter()).map(|date| date.to_string())
    };
    assert_eq!(at("2026-11-25T00:00:00Z", "us-east-1"), None);
    assert_eq!(at("2026-11-03T12:00:00Z", "eu-west-1"), None);
    assert_eq!(
        at("2026-11-25T00:00:00Z", "eu-west-1").as_deref(),
        Some("2025-11-03")
    );
    assert_eq!(
        at("2027-07-21T00:00:00Z", "us-east-1").as_deref(),
        Some("2026-07-20")
    );
}

#[test]
fn without_a_quote_the_spot_market_is_bounded_and_not_guessed() {
    let mut book = PriceBook::shipped();
    let spot = |book: &PriceBook, zones: &[&str], limit| {
        let zones: Vec<String> = zones.iter().map(|z| (*z).to_owned()).collect();
        let price = book
            .spot("us-east-1", "c5.xlarge", &zones, limit)
            .expect("a price");
        (price.usd_per_hour, price.source())
    };
    assert_eq!(
        spot(&book, &[], None),
        (0.17, "shipped table of 2026-07-20, an upper bound".into())
    );
    assert_eq!(
        spot(&book, &[], Some(0.1)),
        (0.1, "campaign file, an upper bound".into())
    );
    let now = Timestamp::now().to_string();
    book.add([
        quote(0.06, &now, Some("us-east-1a")),
        quote(0.08, &now, Some("us-east-1b")),
    ]);
    assert_eq!(
        (
            spot(&book, &[], None).0,
            spot(&book, &["us-east-1a"], None).0
        ),
        (0.08, 0.06)
    );
    assert_eq!(spot(&book, &["us-east-1c"], None).0, 0.17);
    assert_eq!(spot(&book, &[], Some(0.07)).0, 0.07);
}

#[test]
fn a_burstable_type_that_is_throttled_costs_no_credits() {
    let rate = |credits| {
        let mut settings = settings(&["t3.micro"]);
        settings.instances.credits = credits;
        instance_rate(&PriceBook::shipped(), &settings, "t3.micro", false, None)
            .expect("a price")
            .usd_per_hour
    };
    assert!(rate(None) > rate(Some(cvc_core::campaign::Credits::Standard)));
    assert_eq!(
        rate(None),
        rate(Some(cvc_core::campaign::Credits::Unlimited))
    );
}

#[test]
fn a_budget_does_not_rely_on_an_old_spot_price() {
    let mut book = PriceBook::shipped();
    let ago = |minutes: i64| Timestamp::now() - jiff::SignedDuration::from_mins(minutes);
    let asked = |usd: f64, minutes: i64| Quote {
        asked: Some(ago(minutes)),
        ..quote(usd, "2026-03-01T00:00:00Z", Some("us-east-1a"))
    };
    let spot = |book: &PriceBook, limit| {
        book.clone()
            .for_budget()
            .spot("us-east-1", "c5.xlarge", &[], limit)
            .expect("a price")
            .usd_per_hour
    };
    book.add([asked(0.03, 90)]);
    assert_eq!(
        book.spot("us-east-1", "c5.xlarge", &[], None)
            .expect("a price")
            .usd_per_hour,
        0.03,
        "a plan may"
    );
    assert_eq!((spot(&book, None), spot(&book, Some(0.1))), (0.17, 0.1));
    // the price has held for a long time, but was queried a moment ago
    book.add([asked(0.04, 1)]);
    assert_eq!((spot(&book, None), spot(&book, Some(0.1))), (0.04, 0.04));
}

#[test]
fn a_type_of_unknown_price_may_be_the_dearest() {
    let text = |types: &str| {
        format!(
            "schema = 1\nname = \"t\"\n[sites.cloud]\nkind = \"ec2\"\n[sites.cloud.ec2]\nregion = \"us-east-1\"\n\
             instance_types = [{types}]\nnodes = 2\nimage = \"debian-12\"\n\
             [matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 2\nmpi = \"openmpi\"\n"
        )
    };
    let dearest = |types: &str| {
        let apps = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/apps");
        let spec =
            cvc_core::campaign::load_text(std::path::Path::new("t.toml"), &text(types), &[apps])
                .unwrap_or_else(|e| panic!("{e}"));
        super::dearest_rate(&PriceBook::shipped(), &spec.sites["cloud"], None)
    };
    assert!(
        dearest("\"c5.xlarge\", \"c5.2xlarge\"")
            .expect("known")
            .usd_per_hour
            > 0.34
    );
    let unknown = dearest("\"c5.xlarge\", \"zz9.metal\"").expect_err("unknown");
    assert!(unknown.to_string().contains("zz9.metal"), "{unknown}");
}

#[test]
fn costs_do_not_fall_with_the_clock() {
    let acquired = Event::LeaseAcquired {
        lease: "l".into(),
        by: Acquired::instances(["i-1"]),
    };
    let events = || vec![(0, intended("l", 1, Some(3.6))), (500, acquired.clone())];
    near(spent(events(), 1000).usd, 1.0);
    near(spent(events(), 100).usd, 0.5);
}

#[test]
fn failed_transfers_are_charged_too() {
    let fetched = |bytes, usd| Event::ResultsFetched {
        site: "cloud".into(),
        run: cvc_core::ids::RunId::from_written("a"),
        bytes,
        usd,
    };
    let all = spent(
        vec![
            (0, intended("l", 1, Some(3.6))),
            (1, fetched(5, Some(0.25))),
            (2, fetched(7, Some(0.5))),
        ],
        1000,
    );
    near(all.usd, 1.75);
    assert_eq!(all.fetched_bytes, 12);
    // the volume's size is known even if its price is not
    let all = spent(
        vec![(0, fetched(5, Some(0.25))), (1, fetched(7, None))],
        1000,
    );
    assert_eq!((all.fetched_bytes, all.usd), (12, 0.0));
}

#[test]
fn quotes_are_kept_and_grow_old_and_a_broken_file_is_left_out() {
    let (_dir, path) = cached("");
    super::cache::write(&path, &[quote(0.16, "2026-09-01T00:00:00Z", None)]).expect("written");
    let price = |now: &str| {
        PriceBook::at(&path, at(now))
            .on_demand("us-east-1", "c5.xlarge")
            .expect("a price")
            .source()
    };
    assert_eq!(price("2026-09-20T00:00:00Z"), "price list of 2026-09-01");
    assert_eq!(
        price("2026-11-20T00:00:00Z"),
        "price list of 2026-09-01, old"
    );
    for broken in ["", "{", "[]", r#"{"schema": 99, "quotes": []}"#] {
        let (_dir, path) = cached(broken);
        let book = PriceBook::open(&path);
        assert_eq!(
            (
                book.notes().len(),
                book.on_demand("us-east-1", "c5.xlarge")
                    .expect("a price")
                    .usd_per_hour
            ),
            (1, 0.17),
            "{broken}"
        );
    }
    let nothing = PriceBook::open(&path.with_file_name("none.json"));
    assert!(nothing.notes().is_empty());
}

fn order(count: u32, usd: Option<f64>) -> Box<LaunchOrder> {
    Box::new(LaunchOrder {
        tags: Tags::default(),
        region: "us-east-1".into(),
        profile: None,
        endpoint: None,
        zone: None,
        instance_type: "c5.xlarge".into(),
        vcpus: 4,
        count,
        spot: false,
        max_price_usd: None,
        usd_per_hour: usd,
        rate: None,
        image: "ami-1".into(),
        root_device: "/dev/xvda".into(),
        key_name: "k".into(),
        group_id: "sg-1".into(),
        subnet: None,
        placement_group: None,
        efa: false,
        root: Disk::default(),
        volumes: Vec::new(),
        encrypted: false,
        credits: None,
        config_digest: None,
        lifetime_s: 14_400,
    })
}

fn intended(name: &str, count: u32, usd: Option<f64>) -> Event {
    Event::LeaseIntended {
        lease: name.into(),
        site: "cloud".into(),
        nodes: count,
        order: Some(order(count, usd)),
    }
}

fn folded(events: Vec<(i64, Event)>) -> CampaignState {
    let entries: Vec<Entry> = (1..)
        .zip(events)
        .map(|(seq, (s, event))| Entry {
            seq,
            at: Timestamp::from_second(s).expect("a time"),
            event,
        })
        .collect();
    CampaignState::of(&entries).expect("a legal journal")
}

fn spent(events: Vec<(i64, Event)>, now: i64) -> Spent {
    total(
        campaign_cost(
            &folded(events),
            Timestamp::from_second(now).expect("a time"),
        )
        .values(),
    )
}

#[test]
fn a_lease_costs_from_its_order_to_the_end_of_each_instance() {
    let acquired = || Event::LeaseAcquired {
        lease: "l".into(),
        by: Acquired::instances(["i-1", "i-2"]),
    };
    let lost = || Event::LeaseLost {
        lease: "l".into(),
        instances: vec!["i-2".into()],
        why: "taken back".into(),
    };
    let released = || Event::LeaseReleased {
        lease: "l".into(),
        how: "done".into(),
    };
    let usd = Some(3.6);
    near(
        spent(vec![(0, intended("l", 2, usd)), (5, acquired())], 1000).usd,
        2.0,
    );
    near(
        spent(
            vec![(0, intended("l", 2, usd)), (5, acquired()), (500, lost())],
            1000,
        )
        .usd,
        1.5,
    );
    let whole = vec![
        (0, intended("l", 2, usd)),
        (5, acquired()),
        (500, lost()),
        (800, released()),
    ];
    near(spent(whole.clone(), 100_000).usd, 1.3);
    // each instance is billed for at least a minute
    near(
        spent(
            vec![
                (0, intended("l", 2, usd)),
                (5, acquired()),
                (20, released()),
            ],
            1000,
        )
        .usd,
        0.12,
    );
    // first it is unknown whether the order was carried out; then it is known that it was not
    near(spent(vec![(0, intended("l", 2, usd))], 1000).usd, 2.0);
    near(
        spent(vec![(0, intended("l", 2, usd)), (9, released())], 1000).usd,
        0.0,
    );
    // kept for the next campaign
    let until = Timestamp::from_second(600).expect("a time");
    let kept = Event::LeaseKept {
        lease: "l".into(),
        until,
    };
    near(
        spent(
            vec![(0, intended("l", 2, usd)), (5, acquired()), (300, kept)],
            1000,
        )
        .usd,
        1.2,
    );
    assert_eq!(spent(whole, 100_000).instances, 2);
}

#[test]
fn each_hour_of_an_instance_costs_what_the_market_asked_then() {
    let second = |s| Timestamp::from_second(s).expect("a time");
    let priced = |usd: f64, since| {
        let part = RatePart {
            what: "c5.xlarge (spot)".into(),
            price: Price::new(usd, PriceFrom::Campaign),
        };
        Event::LeasePriced {
            lease: "l".into(),
            rate: Box::new(NodeRate::new(vec![part], 60.0)),
            since: second(since),
        }
    };
    let begun = || {
        let acquired = Event::LeaseAcquired {
            lease: "l".into(),
            by: Acquired::instances(["i-1", "i-2"]),
        };
        vec![(0, intended("l", 2, Some(3.6))), (5, acquired)]
    };
    let after = |events: &[(i64, Event)], now| spent([begun(), events.to_vec()].concat(), now).usd;
    // two instances: $0.002 per second, and $0.01 from second 400 on, as queried in second 500
    let dearer = [(500, priced(18.0, 400))];
    near(after(&dearer, 1000), 0.8 + 6.0);
    // instances that ended before the change are not affected
    let lost = (
        300,
        Event::LeaseLost {
            lease: "l".into(),
            instances: vec!["i-2".into()],
            why: "taken back".into(),
        },
    );
    near(after(&[lost, dearer[0].clone()], 1000), 0.4 + 0.3 + 3.0);
    // the actual price replaces a price that was assumed while no query was possible
    near(
        after(&[(500, priced(36.0, 500)), (700, priced(18.0, 400))], 1000),
        0.8 + 6.0,
    );
    near(
        after(&[(500, priced(18.0, 400)), (700, priced(1.8, 600))], 1000),
        0.8 + 2.0 + 0.4,
    );
    // the new price already held before the order, or changed within the minimum of one minute
    near(after(&[(500, priced(18.0, -400))], 1000), 10.0);
    near(
        after(
            &[
                (30, priced(7.2, 30)),
                (
                    40,
                    Event::LeaseReleased {
                        lease: "l".into(),
                        how: "done".into(),
                    },
                ),
            ],
            1000,
        ),
        0.06 + 0.12,
    );
    assert_eq!(
        folded([begun(), dearer.to_vec()].concat()).leases[0].usd_per_hour(),
        Some(18.0)
    );
}

#[test]
fn a_launched_instance_has_the_price_of_today_and_without_one_an_upper_bound() {
    let part = |what: &str, usd| RatePart {
        what: what.into(),
        price: Price::new(usd, PriceFrom::Campaign),
    };
    let rate = NodeRate::new(
        vec![part("c5.xlarge (spot)", 0.03), part("root volume", 0.01)],
        60.0,
    );
    let spot = LaunchOrder {
        spot: true,
        zone: Some("us-east-1a".into()),
        rate: Some(rate.clone()),
        ..*order(1, Some(0.04))
    };
    let ago = |minutes: i64| Timestamp::now() - jiff::SignedDuration::from_mins(minutes);
    let asked = |usd, zone, at, minutes| Quote {
        at,
        asked: Some(ago(minutes)),
        ..quote(usd, "2026-03-01T00:00:00Z", Some(zone))
    };
    let mut book = PriceBook::shipped();
    let present = |book: &PriceBook, order: &LaunchOrder| {
        let (rate, since) = present_rate(&book.clone().for_budget(), order, &[]).expect("a price");
        ((rate.usd_per_hour * 1e6).round() / 1e6, since)
    };
    let changed = ago(20);
    book.add([
        asked(0.05, "us-east-1a", changed, 1),
        asked(0.09, "us-east-1b", ago(10), 1),
    ]);
    assert_eq!(present(&book, &spot), (0.06, changed));
    // if the zone is unknown, the most expensive zone has been so since the last change in any zone
    let anywhere = LaunchOrder {
        zone: None,
        ..spot.clone()
    };
    let mut zones = PriceBook::shipped();
    zones.add([
        asked(0.09, "us-east-1a", changed, 1),
        asked(0.05, "us-east-1b", ago(10), 1),
    ]);
    let (usd, since) = present(&zones, &anywhere);
    assert!(
        usd == 0.1 && since > ago(11) && since < ago(9),
        "{usd} since {since}"
    );
    // the market has not been queried for an hour
    let mut old = PriceBook::shipped();
    old.add([asked(0.05, "us-east-1a", changed, 61)]);
    let (usd, since) = present(&old, &spot);
    assert!(usd == 0.18 && since > ago(1), "{usd} since {since}");
    assert_eq!(
        present(
            &old,
            &LaunchOrder {
                max_price_usd: Some(0.1),
                ..spot.clone()
            }
        )
        .0,
        0.11
    );
    // the on-demand price comes from the price list
    book.add([Quote {
        usd_per_hour: 0.2,
        spot: false,
        ..quote(0.2, "2027-01-01T00:00:00Z", None)
    }]);
    assert_eq!(
        present(
            &book,
            &LaunchOrder {
                spot: false,
                ..spot.clone()
            }
        )
        .0,
        0.21
    );
    assert!(present_rate(&book, &LaunchOrder { rate: None, ..spot }, &[]).is_none());
}

#[test]
fn an_unknown_price_is_counted_as_unknown() {
    let acquired = Event::LeaseAcquired {
        lease: "l".into(),
        by: Acquired::instances(["i-1", "i-2"]),
    };
    let all = spent(vec![(0, intended("l", 2, None)), (5, acquired)], 1000);
    assert_eq!(
        (all.usd, all.unknown, all.is_known(), all.instance_s),
        (0.0, 2, false, 2000.0)
    );
}

#[test]
fn bytes_that_leave_are_paid_by_the_gigabyte() {
    near(
        PriceBook::shipped()
            .transfer("sa-east-1", 3 << 30)
            .expect("a price"),
        0.45,
    );
    near(transfer_cost(1 << 29, 0.09), 0.045);
}
