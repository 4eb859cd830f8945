//! Availability zones and their subnets.

use xmltree::Element;

use super::{
    server::{HttpRequest, HttpResponse},
    world::World,
    xml,
};

/// Lists the subnets of a region: identifier, zone, whether it is the zone's default.
fn subnets(world: &World, region: &str) -> Vec<(String, String, bool)> {
    let answer = world.moto.ask(region, "DescribeSubnets", &[]).unwrap_or_else(|_| Element::new("none"));
    let all = xml::items(&answer, "subnetSet")
        .filter_map(|s| Some((xml::text(s, "subnetId")?, xml::text(s, "availabilityZone")?, xml::text(s, "defaultForAz")? == "true")));
    all.collect()
}

/// Lists the zones of a region in which instances can be launched.
pub(super) fn zones(world: &World, region: &str) -> Vec<String> {
    let mut zones: Vec<String> = subnets(world, region).into_iter().map(|(_, zone, _)| zone).collect();
    zones.sort();
    zones.dedup();
    zones
}

/// Finds the zone of a subnet.
pub(super) fn zone_of(world: &World, region: &str, subnet: &str) -> Option<String> {
    subnets(world, region).into_iter().find(|(id, ..)| id == subnet).map(|(_, zone, _)| zone)
}

/// Finds the default subnet of a zone.
pub(super) fn default_subnet(world: &World, region: &str, zone: &str) -> Option<String> {
    subnets(world, region).into_iter().find(|(_, z, is_default)| z == zone && *is_default).map(|(id, ..)| id)
}

/// DescribeAvailabilityZones and DescribeInstanceTypeOfferings, without zones in which nothing can be launched.
pub(super) fn zones_with_subnets(world: &World, request: &HttpRequest, region: &str) -> HttpResponse {
    let answer = world.moto.forward(request, &request.body);
    let (200, Ok(mut root)) = (answer.status, Element::parse(answer.body.as_slice())) else { return answer };
    let zones = zones(world, region);
    let is_zone = |name: &str| name.len() > region.len() && name.starts_with(region);
    let has_subnet = |item: &Element| {
        let name = xml::text(item, "zoneName").or_else(|| xml::text(item, "location")).unwrap_or_default();
        !is_zone(&name) || zones.contains(&name)
    };
    for list in ["availabilityZoneInfo", "instanceTypeOfferingSet"] {
        xml::retain(&mut root, list, has_subnet);
    }
    HttpResponse::xml(xml::bytes(&root))
}
