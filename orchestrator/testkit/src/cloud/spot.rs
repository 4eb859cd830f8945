//! Spot requests, as launches with market options make them, and the prices of the market.

use jiff::Timestamp;
use xmltree::Element;

use super::{
    fault::ec2_error,
    machine::Reason,
    query::{self, Parameters},
    server::Answer,
    world::{State, World},
    xml::{self, leaf},
};

/// The request behind a spot instance.
#[derive(Clone, Debug)]
pub(super) struct SpotRequest {
    pub(super) id: String,
    pub(super) region: String,
    pub(super) instance: String,
    pub(super) is_persistent: bool,
    pub(super) price: String,
    pub(super) kind: String,
    pub(super) zone: String,
    pub(super) state: &'static str,
    pub(super) status: &'static str,
    pub(super) created: Timestamp,
    pub(super) tags: Vec<(String, String)>,
}

impl SpotRequest {
    /// Whether it may still start something.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, "open" | "active")
    }

    fn element(&self) -> Vec<Element> {
        let created = self.created.strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string();
        let status = [leaf("code", self.status), leaf("updateTime", &created), leaf("message", self.status)];
        vec![
            leaf("spotInstanceRequestId", &self.id),
            leaf("spotPrice", &self.price),
            leaf("type", if self.is_persistent { "persistent" } else { "one-time" }),
            leaf("state", self.state),
            xml::node("status", status),
            leaf("instanceId", &self.instance),
            leaf("createTime", &created),
            leaf("productDescription", "Linux/UNIX"),
            leaf("launchedAvailabilityZone", &self.zone),
            xml::node("launchSpecification", [leaf("instanceType", &self.kind)]),
            leaf("instanceInterruptionBehavior", "terminate"),
            xml::tags(&self.tags),
        ]
    }

    fn passes(&self, name: &str, values: &[String]) -> bool {
        query::by_tags(&self.tags, name, values).unwrap_or_else(|| match name {
            "state" => query::is_any(values, self.state),
            "status-code" => query::is_any(values, self.status),
            "spot-instance-request-id" => query::is_any(values, &self.id),
            "instance-id" => query::is_any(values, &self.instance),
            _ => false,
        })
    }
}

/// What becomes of a request when its instance ends.
pub(super) fn ended(state: &mut State, request: &str, reason: Reason) {
    let Some(request) = state.requests.iter_mut().find(|r| r.id == request) else { return };
    request.status = match reason {
        Reason::User => "instance-terminated-by-user",
        Reason::Itself => "instance-terminated-by-user",
        Reason::Spot => "instance-terminated-no-capacity",
    };
    if request.is_open() {
        // a persistent request would start another instance: it has to be cancelled
        request.state = if request.is_persistent { "open" } else { "closed" };
    }
}

pub(super) fn describe(world: &World, region: &str, parameters: &Parameters) -> Answer {
    let state = world.lock();
    let (ids, filters) = (parameters.list("SpotInstanceRequestId"), parameters.filters());
    let here = || state.requests.iter().filter(|r| r.region == region);
    if let Some(unknown) = ids.iter().find(|id| !here().any(|r| r.id == **id)) {
        return not_found(unknown);
    }
    let is_meant = |r: &&SpotRequest| ids.is_empty() || ids.contains(&r.id);
    let found: Vec<_> = here().filter(is_meant).filter(|r| filters.iter().all(|(n, v)| r.passes(n, v))).map(SpotRequest::element).collect();
    match super::page::page(parameters, &found, |r| r[0].get_text().map(|t| t.into_owned()).unwrap_or_default()) {
        Ok((page, next)) => {
            let list = xml::list("spotInstanceRequestSet", page.iter().cloned());
            Answer::xml(xml::response("DescribeSpotInstanceRequests", [list].into_iter().chain(next.map(|n| leaf("nextToken", &n)))))
        }
        Err(answer) => answer,
    }
}

pub(super) fn cancel(world: &World, region: &str, parameters: &Parameters) -> Answer {
    let mut state = world.lock();
    let ids = parameters.list("SpotInstanceRequestId");
    if let Some(unknown) = ids.iter().find(|id| !state.requests.iter().any(|r| r.region == region && r.id == **id)) {
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
        let state = state.requests.iter().find(|r| r.id == *id).map_or("cancelled", |r| r.state);
        vec![leaf("spotInstanceRequestId", id), leaf("state", state)]
    });
    Answer::xml(xml::response("CancelSpotInstanceRequests", [xml::list("spotInstanceRequestSet", cancelled)]))
}

fn not_found(id: &str) -> Answer {
    ec2_error("InvalidSpotInstanceRequestID.NotFound", 400, &format!("The spot instance request ID '{id}' does not exist"))
}

/// DescribeSpotPriceHistory: the price of now, in every zone that has the type.
pub(super) fn history(world: &World, region: &str, parameters: &Parameters) -> Answer {
    let filters = parameters.filters();
    let filter = |name: &str| filters.iter().find(|(n, _)| n == name).map(|(_, values)| values.clone());
    let mut kinds = parameters.list("InstanceType");
    kinds.extend(filter("instance-type").unwrap_or_default());
    let products: Vec<String> =
        parameters.list("ProductDescription").into_iter().chain(filter("product-description").unwrap_or_default()).collect();
    let zones = parameters.get("AvailabilityZone").map(|z| vec![z.to_owned()]).or_else(|| filter("availability-zone"));
    let now = world.lock().clock.now().strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string();
    let all_zones = super::instances::zones(world, region);
    let mut found = Vec::new();
    for (n, zone) in all_zones.iter().enumerate() {
        for (kind, price) in world.settings.prices.spot_in(n) {
            let is_meant = (kinds.is_empty() || query::is_any(&kinds, &kind)) && zones.as_ref().is_none_or(|z| query::is_any(z, zone));
            for product in ["Linux/UNIX", "Windows"] {
                if is_meant && (products.is_empty() || query::is_any(&products, product)) {
                    let price = if product == "Windows" { price * 1.8 } else { price };
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
    Answer::xml(xml::response("DescribeSpotPriceHistory", [xml::list("spotPriceHistorySet", found), leaf("nextToken", "")]))
}
