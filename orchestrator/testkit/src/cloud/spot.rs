//! Spot requests, made by launches with market options, and spot prices.

use super::{
    fault::ec2_error,
    query::{self, Parameters},
    resources::SpotRequest,
    server::HttpResponse,
    world::World,
    xml::{self, leaf},
};

pub(super) fn describe(world: &World, region: &str, parameters: &Parameters) -> HttpResponse {
    let state = world.lock();
    let (ids, filters) = (
        parameters.list("SpotInstanceRequestId"),
        parameters.filters(),
    );
    let here = || state.requests.iter().filter(|r| r.region == region);
    if let Some(unknown) = ids.iter().find(|id| !here().any(|r| r.id == **id)) {
        return not_found(unknown);
    }
    let is_meant = |r: &&SpotRequest| ids.is_empty() || ids.contains(&r.id);
    let found: Vec<_> = here()
        .filter(is_meant)
        .filter(|r| filters.iter().all(|(n, v)| r.passes(n, v)))
        .map(SpotRequest::element)
        .collect();
    match super::page::page(parameters, &found, |r| {
        r[0].get_text().map(|t| t.into_owned()).unwrap_or_default()
    }) {
        Ok((page, next)) => {
            let list = xml::list("spotInstanceRequestSet", page.iter().cloned());
            HttpResponse::xml(xml::response(
                "DescribeSpotInstanceRequests",
                [list]
                    .into_iter()
                    .chain(next.map(|n| leaf("nextToken", &n))),
            ))
        }
        Err(answer) => answer,
    }
}

pub(super) fn cancel(world: &World, region: &str, parameters: &Parameters) -> HttpResponse {
    let mut state = world.lock();
    let ids = parameters.list("SpotInstanceRequestId");
    if let Some(unknown) = ids.iter().find(|id| {
        !state
            .requests
            .iter()
            .any(|r| r.region == region && r.id == **id)
    }) {
        return not_found(unknown);
    }
    for request in state.requests.iter_mut().filter(|r| ids.contains(&r.id)) {
        if request.state == "active" {
            request.status = "request-canceled-and-instance-running";
        }
        if request.is_open() {
            request.state = "cancelled";
        }
    }
    let cancelled = ids.iter().map(|id| {
        let state = state
            .requests
            .iter()
            .find(|r| r.id == *id)
            .map_or("cancelled", |r| r.state);
        vec![leaf("spotInstanceRequestId", id), leaf("state", state)]
    });
    HttpResponse::xml(xml::response(
        "CancelSpotInstanceRequests",
        [xml::list("spotInstanceRequestSet", cancelled)],
    ))
}

fn not_found(id: &str) -> HttpResponse {
    ec2_error(
        "InvalidSpotInstanceRequestID.NotFound",
        400,
        &format!("The spot instance request ID '{id}' does not exist"),
    )
}

/// Answers DescribeSpotPriceHistory with the current price in every zone.
pub(super) fn history(world: &World, region: &str, parameters: &Parameters) -> HttpResponse {
    let filters = parameters.filters();
    let filter = |name: &str| {
        filters
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, values)| values.clone())
    };
    let mut kinds = parameters.list("InstanceType");
    kinds.extend(filter("instance-type").unwrap_or_default());
    let products: Vec<String> = parameters
        .list("ProductDescription")
        .into_iter()
        .chain(filter("product-description").unwrap_or_default())
        .collect();
    let zones = parameters
        .get("AvailabilityZone")
        .map(|z| vec![z.to_owned()])
        .or_else(|| filter("availability-zone"));
    let (now, rise) = {
        let state = world.lock();
        (
            state
                .clock
                .now()
                .strftime("%Y-%m-%dT%H:%M:%S.000Z")
                .to_string(),
            state.spot_rise,
        )
    };
    let all_zones = super::zones::list(world, region);
    let mut found = Vec::new();
    for (n, zone) in all_zones.iter().enumerate() {
        for (kind, price) in world.settings.prices.spot_in(n) {
            let price = price * (1.0 + rise);
            let is_meant = (kinds.is_empty() || query::is_any(&kinds, &kind))
                && zones.as_ref().is_none_or(|z| query::is_any(z, zone));
            for product in ["Linux/UNIX", "Windows"] {
                if is_meant && (products.is_empty() || query::is_any(&products, product)) {
                    let price = if product == "Windows" {
                        price * 1.8
                    } else {
                        price
                    };
                    found.push(vec![
                        leaf("instanceType", &kind),
                        leaf("productDescription", product),
                        leaf("spotPrice", &format!("{price:.6}")),
                        leaf("timestamp", &now),
                        leaf("availabilityZone", zone),
                    ]);
                }
            }
        }
    }
    HttpResponse::xml(xml::response(
        "DescribeSpotPriceHistory",
        [
            xml::list("spotPriceHistorySet", found),
            leaf("nextToken", ""),
        ],
    ))
}
