//! The estimates for a plan that `cvc plan` prints, as JSON.

use super::plan_view::View;
use crate::args::SortBy;
use cvc_cloud::cost::{Expected, SiteCost};
use cvc_core::plan::Plan;
use cvc_core::point::Repeat;
use cvc_journal::price::NodeRate;
use serde_json::{Value, json};

/// Returns an object with the minimum and the maximum; `null` if one of them is unknown.
fn range(low: Option<f64>, high: Option<f64>) -> Value {
    match (low, high) {
        (Some(low), Some(high)) => json!({ "low": low, "high": high }),
        _ => Value::Null,
    }
}

/// Returns the certain fraction of a node's price: parts that are upper bounds may turn out to be zero.
fn certain_part(rate: &NodeRate) -> f64 {
    let certain: f64 = rate
        .parts
        .iter()
        .filter(|part| !part.price.at_most)
        .map(|part| part.price.usd_per_hour)
        .sum();
    if rate.usd_per_hour > 0.0 {
        (certain / rate.usd_per_hour).clamp(0.0, 1.0)
    } else {
        1.0
    }
}

fn rate_of(site: &SiteCost) -> Option<&NodeRate> {
    site.rate.as_ref().ok().and_then(Option::as_ref)
}

/// Returns the plan with the minimum number of repeats, with which points may end early.
fn with_fewest(view: &View<'_>) -> Plan {
    let mut plan = view.plan.clone();
    if let Some(until) = &view.session.spec.run.until {
        plan.runs.retain(|run| match run.repeat {
            Repeat::Warmup(_) => true,
            Repeat::Measured(n) => n <= until.min,
        });
    }
    plan
}

/// Returns the minimum cost of a site, US dollars: parts of its price that are upper bounds count as zero.
fn least_usd(site: &SiteCost) -> Option<f64> {
    let transfer = site.transfer_usd.unwrap_or(0.0);
    let rate = rate_of(site)?;
    Some((site.usd? - transfer) * certain_part(rate) + transfer)
}

/// Returns all estimates as JSON.
pub fn of(view: &View<'_>, sort: Option<SortBy>) -> Value {
    let (spec, expected) = (&view.session.spec, &view.expected);
    let fewest = with_fewest(view);
    let least = view.expectations.cost(spec, &fewest, &view.obstacles);
    let runs = view.runs();
    let one = expected.of_point(view.plan);
    let points: Vec<Value> = view
        .points(sort)
        .into_iter()
        .map(|(planned, estimate)| {
            let (warmups, measured) = runs.get(&planned.id).copied().unwrap_or_default();
            let most = warmups + measured;
            let min = spec.run.until.as_ref().map_or(most, |until| {
                warmups + until.min.min(measured)
            });
            let seconds = estimate.known_cores.map(|_| estimate.seconds);
            let certain = expected
                .sites
                .iter()
                .find(|s| s.site == planned.point.site)
                .and_then(rate_of)
                .map(certain_part);
            let usd = one.get(&planned.id).copied();
            let low = usd.zip(certain).map(|(usd, part)| usd * part);
            let checkpoint = expected.of_checkpoint(&planned.point, estimate);
            json!({
                "point": planned.id,
                "site": planned.point.site,
                "runs": { "low": min, "high": most },
                "seconds_of_run": seconds,
                "workload_is_assumed": !estimate.known,
                "ends_at_limit": estimate.is_cut(),
                "seconds_of_checkpoint": seconds.and(estimate.checkpoint_s),
                "seconds_of_checkpoint_by_storage": estimate.storage_s,
                "seconds": range(seconds.map(|s| s * f64::from(min)), seconds.map(|s| s * f64::from(most))),
                "space_bytes": estimate.peak_bytes,
                "usd_of_run": range(low, usd),
                "usd_of_checkpoint": range(checkpoint.zip(certain).map(|(usd, part)| usd * part), checkpoint),
                "usd": range(low.map(|usd| usd * f64::from(min)), usd.map(|usd| usd * f64::from(most))),
            })
        })
        .collect();
    let usd_of = |expected: &Expected| {
        let priced = expected.sites.iter().filter(|s| s.has_price());
        priced.map(least_usd).sum::<Option<f64>>()
    };
    let is_timed = expected.sites.iter().all(|s| s.is_timed);
    let has_price = expected.has_price();
    json!({
        "points": points,
        "sites": sites(view, &least, sort),
        "seconds": range(is_timed.then_some(least.last_s), is_timed.then_some(expected.last_s)),
        "usd": if has_price { range(usd_of(&least), expected.usd) } else { Value::Null },
        "budget_usd": spec.budget.as_ref().map(|budget| budget.usd),
        "not_enough": view.not_enough(),
    })
}

fn sites(view: &View<'_>, least: &Expected, sort: Option<SortBy>) -> Vec<Value> {
    let (spec, expected) = (&view.session.spec, &view.expected);
    let mut sites: Vec<&SiteCost> = expected.sites.iter().collect();
    let end_of = |of: &Expected, site: &SiteCost| {
        of.ends_s.get(&site.site).copied().filter(|_| site.is_timed)
    };
    let key = |site: &SiteCost| match sort {
        Some(SortBy::Cost) => site.usd,
        Some(SortBy::Time) => end_of(expected, site),
        None => None,
    };
    sites.sort_by(|a, b| {
        key(a)
            .unwrap_or(f64::INFINITY)
            .total_cmp(&key(b).unwrap_or(f64::INFINITY))
    });
    sites
        .into_iter()
        .map(|site| {
            let low = least.sites.iter().find(|s| s.site == site.site);
            let instance_type = spec
                .sites
                .get(&site.site)
                .and_then(|s| s.ec2.as_ref()?.instances.instance_types.first());
            let facts = instance_type.and_then(|name| view.expectations.prices.facts(name));
            json!({
                "site": site.site,
                "instance_type": instance_type,
                "architecture": facts.map(|f| &f.architecture),
                "vcpus": facts.map(|f| f.vcpus),
                "cores": facts.map(|f| f.cores),
                "memory_mib": facts.map(|f| f.memory_mib),
                "usd_of_node_hour": rate_of(site).map(|rate| rate.usd_per_hour),
                "seconds": range(end_of(least, site), end_of(expected, site)),
                "usd": range(low.and_then(least_usd), site.usd),
            })
        })
        .collect()
}
