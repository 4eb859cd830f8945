//! The expected costs of a plan, for `cvc plan`.

use super::plan_view::View;
use crate::{
    args::SortBy,
    display::{Varying, duration},
    output::note,
};
use camino::Utf8Path;
use cvc_cloud::cost::{self, Expected, MachineFacts, PriceBook, SETUP_S, SiteCost, machines};
use cvc_cloud::provider::FleetRequest;
use cvc_core::campaign::{Credits, Market, Spec};
use cvc_core::ids::PointId;
use cvc_core::units::{MIB, dollars};
use cvc_journal::price::NodeRate;
use cvc_show::{Blocks, Table};
use std::collections::HashMap;

fn or_unknown(value: Option<f64>, at_most: bool) -> String {
    match value {
        Some(value) if at_most => format!("≤{}", dollars(value)),
        Some(value) => dollars(value),
        None => "unknown".to_owned(),
    }
}

/// Returns the cost of a point's runs as the cell of its row.
pub fn of_point(
    expected: &Expected,
    one: &HashMap<&PointId, f64>,
    point: &PointId,
    site: &str,
    runs: u32,
) -> String {
    match expected.sites.iter().find(|s| s.site == site) {
        Some(site) if site.has_price() => {
            let at_most = site
                .rate
                .as_ref()
                .is_ok_and(|r| r.as_ref().is_some_and(NodeRate::is_at_most));
            or_unknown(one.get(point).map(|usd| usd * f64::from(runs)), at_most)
        }
        Some(_) | None => "-".to_owned(),
    }
}

/// Prints the part of the plan about money. `is_cut`: some runs are expected to exceed the time limit, which ends them early.
pub fn show(out: &mut Blocks, view: &View<'_>, is_cut: bool) {
    let (spec, expected) = (&view.session.spec, &view.expected);
    let book = &view.expectations.prices;
    let priced: Vec<&SiteCost> = expected.sites.iter().filter(|s| s.has_price()).collect();
    let mut rows = Table::plain([
        "site",
        "node",
        "node-hour",
        "nodes",
        "there",
        "used by runs",
        "total",
    ]);
    for site in &priced {
        let node = site.rate.as_ref().ok().and_then(Option::as_ref);
        let at_most = node.is_some_and(NodeRate::is_at_most);
        let ec2 = spec.sites.get(&site.site).and_then(|s| s.ec2.as_ref());
        let what = node.and_then(|r| r.parts.first()).map(|p| p.what.clone());
        rows.row([
            site.site.clone(),
            what.or_else(|| ec2?.instances.instance_types.first().cloned())
                .unwrap_or_else(|| "node".into()),
            or_unknown(node.map(|r| r.usd_per_hour), at_most),
            if ec2.is_some() {
                site.instances.to_string()
            } else {
                "-".into()
            },
            if site.is_timed {
                duration(site.there_s)
            } else {
                "unknown".into()
            },
            or_unknown(site.runs_usd, at_most),
            or_unknown(site.usd, at_most),
        ]);
    }
    out.heading("cost");
    out.table(rows);
    total(out, spec, expected, &priced, is_cut);

    out.heading("breakdown:");
    for site in &priced {
        match &site.rate {
            Ok(Some(rate)) => {
                let parts: Vec<String> = rate
                    .parts
                    .iter()
                    .map(|p| {
                        format!(
                            "{} {}",
                            p.what,
                            or_unknown(Some(p.price.usd_per_hour), p.price.at_most)
                        )
                    })
                    .collect();
                let parts = format!(
                    "{}: {} an hour ({})",
                    site.site,
                    parts.join(", "),
                    rate.sources().join("; ")
                );
                out.item(1, parts);
                bound(out, spec, site, rate);
            }
            Ok(None) => {}
            Err(unknown) => out.item(1, format!("{}: {unknown}; {}", site.site, unknown.hint())),
        }
        others(out, spec, site, book);
        credits(out, spec, site);
    }
    if priced.iter().any(|s| s.instances > 0) {
        assumptions(out, expected, &priced);
    }
    for note in book.notes() {
        out.item(1, note);
    }
}

/// Prints the cost of one run and of one checkpoint of each point, to compare instance types.
pub fn show_each(out: &mut Blocks, view: &View<'_>, sort: Option<SortBy>, varying: &Varying) {
    let expected = &view.expected;
    let one = expected.of_point(view.plan);
    let points = view.points(sort);
    let takes_checkpoints = points.iter().any(|(_, e)| e.checkpoint_s.is_some());
    let mut rows = Table::plain(
        ["point"]
            .into_iter()
            .chain(varying.names().iter().map(String::as_str))
            .chain(["a run"])
            .chain(
                takes_checkpoints
                    .then_some(["a checkpoint", "takes"])
                    .into_iter()
                    .flatten(),
            ),
    );
    let mut bound_by_storage = 0;
    for (planned, estimate) in points {
        let Some(site) = expected
            .sites
            .iter()
            .find(|s| s.site == planned.point.site && s.has_price())
        else {
            continue;
        };
        let at_most = site
            .rate
            .as_ref()
            .is_ok_and(|r| r.as_ref().is_some_and(NodeRate::is_at_most));
        let mut row = vec![planned.id.as_str()[..8].to_owned()];
        row.extend(
            varying
                .names()
                .iter()
                .map(|n| planned.point.factor(n).unwrap_or_else(|| "-".into())),
        );
        row.push(or_unknown(one.get(&planned.id).copied(), at_most));
        let is_bound = estimate.storage_s.is_some() && estimate.storage_s == estimate.checkpoint_s;
        bound_by_storage += usize::from(is_bound);
        let of_checkpoint = match (estimate.checkpoint_s, estimate.known_cores) {
            (None, _) => ["-".to_owned(), "-".to_owned()],
            (Some(_), None) => ["unknown".to_owned(), "unknown".to_owned()],
            (Some(seconds), Some(_)) => [
                or_unknown(expected.of_checkpoint(&planned.point, estimate), at_most),
                format!("{}{}", if is_bound { "~" } else { "" }, duration(seconds)),
            ],
        };
        if takes_checkpoints {
            row.extend(of_checkpoint);
        }
        rows.row(row);
    }
    if rows.rows.is_empty() {
        return;
    }
    out.heading(match takes_checkpoints {
        true => "cost of one run and one checkpoint",
        false => "cost of one run",
    });
    out.table(rows);
    if bound_by_storage > 0 {
        let text = format!(
            "~: time for the disks of the fullest node to write an image of the maximum size, at the maximum rate of their volumes and instance (as published on {})",
            machines::shipped().date
        );
        out.say(text);
    }
}

/// Prints the instances of each site, and the assumptions about their speed.
pub fn show_machines(out: &mut Blocks, view: &View<'_>) {
    let spec = &view.session.spec;
    let sites: Vec<_> = view
        .expected
        .sites
        .iter()
        .filter_map(|s| {
            let ec2 = spec.sites.get(&s.site)?.ec2.as_ref()?;
            Some((&s.site, ec2, ec2.instances.instance_types.first()?))
        })
        .collect();
    if sites.is_empty() {
        return;
    }
    let prices = &view.expectations.prices;
    out.heading(format!(
        "machines (as published on {}):",
        machines::shipped().date
    ));
    for (site, ec2, name) in &sites {
        let what = prices
            .facts(name)
            .map_or_else(|| "unknown type".to_owned(), MachineFacts::describe);
        out.item(1, format!("{site}: {name}: {what}"));
        let elsewhere = prices.regions_with(name);
        if prices.on_demand(&ec2.region, name).is_err() && !elsewhere.is_empty() {
            let text = format!(
                "no known price of {name} in {}; it may not be available there; it is in {}",
                ec2.region,
                elsewhere.join(", ")
            );
            out.item(2, text);
        }
    }
    if sites
        .iter()
        .any(|(_, _, name)| prices.facts(name).is_some_and(MachineFacts::is_arm))
    {
        let text = "arm64: build your own programs for it; cvc builds its kernels and what `cvc install` installs";
        out.item(1, text);
    }
}

/// Prints the assumption behind the order of the table, if the plan uses instance types.
pub fn tell_assumption(out: &mut Blocks, view: &View<'_>) {
    let spec = &view.session.spec;
    let types = view.expected.sites.iter().filter_map(|site| {
        let ec2 = spec.sites.get(&site.site)?.ec2.as_ref()?;
        ec2.instances.instance_types.first()
    });
    if types.count() == 0 {
        return;
    }
    let text = "speed: every vCPU is assumed equally fast, since relative speeds of these types are unknown: until you have measured, the order by cost reflects prices and numbers of vCPUs";
    out.say(text);
}

/// Warns if the prices that come with cvc are old.
pub fn tell_outdated(expected: &Expected, book: &PriceBook, file: &Utf8Path) {
    let rates = expected
        .sites
        .iter()
        .filter_map(|s| s.rate.as_ref().ok()?.as_ref());
    if let Some(date) = book.outdated(rates) {
        note(format_args!(
            "cvc's shipped prices are of {date}, more than a year old; with credentials, `cvc prices {file}` fetches current ones"
        ));
    }
}

/// Prints the sum over all sites and compares it with the budget.
fn total(out: &mut Blocks, spec: &Spec, expected: &Expected, priced: &[&SiteCost], is_cut: bool) {
    let at_most = priced.iter().any(|s| {
        s.rate
            .as_ref()
            .is_ok_and(|r| r.as_ref().is_some_and(NodeRate::is_at_most))
    });
    let known = expected.known_usd();
    let all = match expected.usd {
        Some(usd) => or_unknown(Some(usd), at_most),
        None => format!(
            "unknown; the known part is {}",
            or_unknown(Some(known), at_most)
        ),
    };
    let free: Vec<&str> = expected
        .sites
        .iter()
        .filter(|s| !s.has_price())
        .map(|s| s.site.as_str())
        .collect();
    let without = if free.is_empty() {
        String::new()
    } else {
        format!("; without a price: {}", free.join(", "))
    };
    let budget = match &spec.budget {
        Some(budget) if known > budget.usd => {
            format!("; the budget of {} is NOT ENOUGH", dollars(budget.usd))
        }
        Some(budget) if expected.usd.is_some() && is_cut => format!(
            "; the budget of {} pays for runs that do not finish, see above",
            dollars(budget.usd)
        ),
        Some(budget) if expected.usd.is_some() => {
            format!("; the budget of {} is enough", dollars(budget.usd))
        }
        Some(budget) => format!("; budget {}", dollars(budget.usd)),
        None => String::new(),
    };
    out.say(format!("total {all}{budget}{without}"));
}

/// Prints why a machine's price is an upper bound.
fn bound(out: &mut Blocks, spec: &Spec, site: &SiteCost, rate: &NodeRate) {
    let market = spec
        .sites
        .get(&site.site)
        .and_then(|s| s.ec2.as_ref())
        .map(|e| e.instances.market);
    if !rate.parts.first().is_some_and(|p| p.price.at_most) {
        return;
    }
    let text = match market {
        Some(Market::Spot) => {
            "the spot price is unknown: this is its maximum; with credentials, `cvc prices` fetches it"
        }
        Some(Market::SpotThenOnDemand) => {
            "the on-demand price, which applies where no spot instances are available"
        }
        Some(Market::OnDemand) | None => return,
    };
    out.item(2, text);
}

/// Prints the further instance types of a site, each used if the previous one is not available, with their prices.
fn others(out: &mut Blocks, spec: &Spec, site: &SiteCost, book: &PriceBook) {
    let Some(ec2) = spec.sites.get(&site.site).and_then(|s| s.ec2.as_ref()) else {
        return;
    };
    for name in ec2.instances.instance_types.iter().skip(1) {
        let what = match cost::instance_rate(
            book,
            &FleetRequest::of(ec2),
            name,
            ec2.instances.market == Market::Spot,
            None,
        ) {
            Ok(rate) => format!(
                "{} an hour",
                or_unknown(Some(rate.usd_per_hour), rate.is_at_most())
            ),
            Err(unknown) => format!("{unknown}; {}", unknown.hint()),
        };
        out.item(
            2,
            format!("or {name}, if the previous one is not available: {what}"),
        );
    }
}

/// Prints the effect of burstable instance types on measurements.
fn credits(out: &mut Blocks, spec: &Spec, site: &SiteCost) {
    let Some(ec2) = spec.sites.get(&site.site).and_then(|s| s.ec2.as_ref()) else {
        return;
    };
    let burstable = ec2
        .instances
        .instance_types
        .iter()
        .filter_map(|name| Some((name, Credits::of(name, ec2.instances.credits)?)));
    for (name, credits) in burstable {
        out.item(2, format!("warning: {name}: {}", credits.remark()));
    }
}

fn assumptions(out: &mut Blocks, expected: &Expected, priced: &[&SiteCost]) {
    let turns = if expected.in_turn && expected.sites.len() > 1 {
        ", also while another site runs"
    } else {
        ""
    };
    let text = format!(
        "instances are billed by the second, for at least a minute, from their start to the last run of their site{turns}; this includes {} for each site to boot and set up, but no repeats of failed runs",
        duration(SETUP_S)
    );
    out.item(1, text);
    let bytes: u64 = priced.iter().map(|s| s.transfer_bytes).sum();
    if bytes > 0 {
        let dollars = priced
            .iter()
            .filter(|s| s.instances > 0)
            .map(|s| s.transfer_usd)
            .sum::<Option<f64>>();
        let text = format!(
            "transfer out of the cloud, if all kept files are fetched ({:.0} MiB): {}; the cloud's monthly free allowance is ignored",
            bytes as f64 / MIB,
            or_unknown(dollars, false)
        );
        out.item(1, text);
    }
}
