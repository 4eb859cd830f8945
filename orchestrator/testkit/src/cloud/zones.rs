//! Availability zones and their subnets.

use xmltree::Element;

use super::{
    server::{HttpRequest, HttpResponse},
    world::World,
    xml,
};

/// Lists the subnets of a region: identifier, zone, and whether it is the zone's default.
fn list_subnets(world: &World, region: &str) -> Vec<(String, String, bool)> {
    let answer = world
        .moto
        .ask(region, "DescribeSubnets", &[])
        .unwrap_or_else(|_| Element::new("none"));
    let all = xml::items(&answer, "subnetSet").filter_map(|s| {
        Some((
            xml::text(s, "subnetId")?,
            xml::text(s, "availabilityZone")?,
            xml::text(s, "defaultForAz")? == "true",
        ))
    });
    all.collect()
}

/// Lists the zones of a region in which instances can be launched.
pub(super) fn list(world: &World, region: &str) -> Vec<String> {
    let mut zones: Vec<String> = list_subnets(world, region)
        .into_iter()
        .map(|(_, zone, _)| zone)
        .collect();
    zones.sort();
    zones.dedup();
    zones
}

/// Finds the zone of a subnet.
pub(super) fn find_of_subnet(world: &World, region: &str, subnet: &str) -> Option<String> {
    list_subnets(world, region)
        .into_iter()
        .find(|(id, ..)| id == subnet)
        .map(|(_, zone, _)| zone)
}

/// Finds the default subnet of a zone.
pub(super) fn find_default_subnet(world: &World, region: &str, zone: &str) -> Option<String> {
    list_subnets(world, region)
        .into_iter()
        .find(|(_, z, is_default)| z == zone && *is_default)
        .map(|(id, ..)| id)
}

/// Answers DescribeAvailabilityZones and DescribeInstanceTypeOfferings, without zones in which nothing can be launched.
pub(super) fn describe(world: &World, request: &HttpRequest, region: &str) -> HttpResponse {
    let answer = world.moto.forward(request, &request.body);
    let (200, Ok(mut root)) = (answer.status, Element::parse(answer.body.as_slice())) else {
        return answer;
    };
    let zones = list(world, region);
    let is_zone = |name: &str| name.len() > region.len() && name.starts_with(region);
    let has_subnet = |item: &Element| {
        let name = xml::text(item, "zoneName")
            .or_else(|| xml::text(item, "location"))
            .unwrap_or_default();
        !is_zone(&name) || zones.contains(&name)
    };
    for list in ["availabilityZoneInfo", "instanceTypeOfferingSet"] {
        xml::retain(&mut root, list, has_subnet);
    }
    HttpResponse::xml(xml::bytes(&root))
}
