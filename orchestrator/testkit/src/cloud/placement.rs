//! Placement groups, which moto lacks.

use super::{
    fault::ec2_error,
    query::{self, Parameters},
    resources::PlacementGroup,
    server::HttpResponse,
    world::World,
    xml::{self, leaf},
};

pub(super) fn create(world: &World, region: &str, parameters: &Parameters) -> HttpResponse {
    let mut state = world.lock();
    let name = parameters.get("GroupName").unwrap_or_default().to_owned();
    if state
        .groups
        .iter()
        .any(|g| g.name == name && g.region == region)
    {
        return ec2_error(
            "InvalidPlacementGroup.Duplicate",
            400,
            &format!("The Placement Group '{name}' already exists."),
        );
    }
    let strategy = parameters.get("Strategy").unwrap_or("cluster").to_owned();
    if !["cluster", "spread", "partition"].contains(&strategy.as_str()) {
        return ec2_error(
            "InvalidParameterValue",
            400,
            &format!("Value ({strategy}) for parameter strategy is invalid."),
        );
    }
    let tags = parameters.tags_for("placement-group");
    let group = PlacementGroup {
        id: query::identity("pg-"),
        name,
        region: region.to_owned(),
        strategy,
        tags,
    };
    let answer = xml::response(
        "CreatePlacementGroup",
        [
            leaf("return", "true"),
            xml::node("placementGroup", group.element()),
        ],
    );
    state.groups.push(group);
    HttpResponse::xml(answer)
}

pub(super) fn delete(world: &World, region: &str, parameters: &Parameters) -> HttpResponse {
    let mut state = world.lock();
    let name = parameters.get("GroupName").unwrap_or_default();
    let Some(place) = state
        .groups
        .iter()
        .position(|g| g.name == name && g.region == region)
    else {
        return ec2_error(
            "InvalidPlacementGroup.Unknown",
            400,
            &format!("The Placement Group '{name}' is unknown."),
        );
    };
    let is_used = |m: &super::machine::Machine| {
        m.is_alive() && m.region == region && m.placement.as_deref() == Some(name)
    };
    if state.machines.iter().any(is_used) {
        return ec2_error(
            "InvalidPlacementGroup.InUse",
            400,
            &format!("The placement group '{name}' is in use and may not be deleted."),
        );
    }
    state.groups.remove(place);
    HttpResponse::xml(xml::response(
        "DeletePlacementGroup",
        [leaf("return", "true")],
    ))
}

pub(super) fn describe(world: &World, region: &str, parameters: &Parameters) -> HttpResponse {
    let state = world.lock();
    let (names, ids, filters) = (
        parameters.list("GroupName"),
        parameters.list("GroupId"),
        parameters.filters(),
    );
    let here = || state.groups.iter().filter(|g| g.region == region);
    if let Some(unknown) = names.iter().find(|n| !here().any(|g| g.name == **n)) {
        return ec2_error(
            "InvalidPlacementGroup.Unknown",
            400,
            &format!("The Placement Group '{unknown}' is unknown."),
        );
    }
    let is_meant = |g: &&PlacementGroup| {
        (names.is_empty() || names.contains(&g.name)) && (ids.is_empty() || ids.contains(&g.id))
    };
    let found = here()
        .filter(is_meant)
        .filter(|g| filters.iter().all(|(name, values)| g.passes(name, values)));
    HttpResponse::xml(xml::response(
        "DescribePlacementGroups",
        [xml::list(
            "placementGroupSet",
            found.map(PlacementGroup::element),
        )],
    ))
}

/// Checks that a placement group accepts instances of a type.
pub(super) fn check_type(
    world: &World,
    region: &str,
    name: &str,
    kind: &str,
) -> Result<(), HttpResponse> {
    let strategy = world
        .lock()
        .groups
        .iter()
        .find(|g| g.name == name && g.region == region)
        .map(|g| g.strategy.clone())
        .unwrap_or_default();
    let Ok(answer) = world
        .moto
        .ask(region, "DescribeInstanceTypes", &[("InstanceType.1", kind)])
    else {
        return Ok(());
    };
    let of_type = xml::items(&answer, "instanceTypeSet").next();
    let strategies = of_type.and_then(|t| t.get_child("placementGroupInfo"));
    let known: Vec<String> = strategies
        .into_iter()
        .flat_map(|s| xml::items(s, "supportedStrategies"))
        .filter_map(|i| i.get_text().map(|t| t.into_owned()))
        .collect();
    if known.is_empty() || known.contains(&strategy) {
        return Ok(());
    }
    let text = format!(
        "The instance type '{kind}' is not supported by placement groups with strategy '{strategy}'."
    );
    Err(ec2_error("InvalidParameterCombination", 400, &text))
}
