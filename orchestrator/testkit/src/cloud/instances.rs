//! Actions that describe and terminate instances.

use std::{fs, sync::Arc};

use base64::prelude::{BASE64_STANDARD, Engine};
use xmltree::{Element, XMLNode};

use super::{
    boot,
    fault::ec2_error,
    machine::{EndReason, InstancePhase, Machine},
    page::page,
    query::{self, Parameters},
    server::{HttpRequest, HttpResponse},
    world::World,
    xml::{self, leaf},
};

/// Replaces parts of moto's description of instances by the cloud's own, in one reservation or several.
pub(super) fn override_description(world: &World, mut root: Element) -> Element {
    let state = world.lock();
    let over = |reservation: &mut Element| {
        for item in xml::items_mut(reservation, "instancesSet") {
            if let Some(machine) = xml::text(item, "instanceId").and_then(|id| state.machine(&id)) {
                machine.overlay(item);
            }
        }
    };
    xml::items_mut(&mut root, "reservationSet").for_each(over);
    over(&mut root);
    root
}

/// Returns whether an instance passes a filter on properties that moto lacks or gets wrong; `None` if moto must apply the filter.
fn passes(item: &Element, name: &str, values: &[String]) -> Option<bool> {
    let text = |path: &[&str]| xml::text_at(item, path).unwrap_or_default();
    let is = match name {
        "instance-state-name" => query::is_any(values, &text(&["instanceState", "name"])),
        "instance-state-code" => query::is_any(values, &text(&["instanceState", "code"])),
        "client-token" => query::is_any(values, &text(&["clientToken"])),
        "placement-group-name" => query::is_any(values, &text(&["placement", "groupName"])),
        "instance-lifecycle" => query::is_any(values, &text(&["instanceLifecycle"])),
        "spot-instance-request-id" => query::is_any(values, &text(&["spotInstanceRequestId"])),
        _ => return query::by_tags(&xml::tags_of(item), name, values),
    };
    Some(is)
}

/// Answers DescribeInstances, in pages of instances.
pub(super) fn describe(
    world: &World,
    request: &HttpRequest,
    parameters: &Parameters,
) -> HttpResponse {
    if !parameters.list("InstanceId").is_empty() && parameters.get("MaxResults").is_some() {
        let text = "The parameter instancesSet cannot be used with the parameter maxResults";
        return ec2_error("InvalidParameterCombination", 400, text);
    }
    let probe = Element::new("item");
    let (own, of_moto): (Vec<_>, Vec<_>) = parameters
        .filters()
        .into_iter()
        .partition(|(name, v)| passes(&probe, name, v).is_some());
    let mut rest = parameters.clone();
    rest.set_filters(&of_moto);
    let mut root = match world.moto.reservations(request, &rest) {
        Ok(root) => override_description(world, root),
        Err(answer) => return answer,
    };
    let name = |item: &Element| xml::text(item, "instanceId").unwrap_or_default();
    let mut wanted = Vec::new();
    for reservation in xml::items(&root, "reservationSet") {
        for item in xml::items(reservation, "instancesSet") {
            if own
                .iter()
                .all(|(filter, values)| passes(item, filter, values) != Some(false))
            {
                wanted.push(name(item));
            }
        }
    }
    let (shown, next) = match page(parameters, &wanted, Clone::clone) {
        Ok((shown, next)) => (shown.to_vec(), next),
        Err(answer) => return answer,
    };
    for reservation in xml::items_mut(&mut root, "reservationSet") {
        xml::retain(reservation, "instancesSet", |item| {
            shown.contains(&name(item))
        });
    }
    xml::retain(&mut root, "reservationSet", |reservation| {
        xml::items(reservation, "instancesSet").next().is_some()
    });
    root.children
        .retain(|c| c.as_element().is_none_or(|e| e.name != "nextToken"));
    if let Some(next) = next {
        root.children
            .push(XMLNode::Element(leaf("nextToken", &next)));
    }
    HttpResponse::xml(xml::bytes(&root))
}

/// Answers DescribeInstanceStatus.
pub(super) fn describe_status(
    world: &World,
    region: &str,
    parameters: &Parameters,
) -> HttpResponse {
    let state = world.lock();
    let (ids, filters) = (parameters.list("InstanceId"), parameters.filters());
    if let Some(unknown) = ids
        .iter()
        .find(|id| state.machine(id).is_none_or(|m| m.region != region))
    {
        return ec2_error(
            "InvalidInstanceID.NotFound",
            400,
            &format!("The instance ID '{unknown}' does not exist"),
        );
    }
    let all = parameters.is_true("IncludeAllInstances");
    let is_meant = |m: &&Machine| {
        m.region == region
            && (ids.is_empty() || ids.contains(&m.id))
            && (all || m.phase() == InstancePhase::Running)
    };
    let mut found = Vec::new();
    for machine in state.machines.iter().filter(is_meant) {
        let checks = match machine.phase() {
            InstancePhase::Running
                if machine.impaired
                    || machine
                        .node
                        .as_ref()
                        .is_some_and(|n| !n.is_up() && !machine.unreachable) =>
            {
                "impaired"
            }
            InstancePhase::Running if machine.since.elapsed() < world.settings.checks => {
                "initializing"
            }
            InstancePhase::Running => "ok",
            _ => "not-applicable",
        };
        let passes = |(name, values): &(String, Vec<String>)| match name.as_str() {
            "instance-state-name" => query::is_any(values, machine.phase().name()),
            "availability-zone" => query::is_any(values, &machine.zone),
            "instance-status.status" | "system-status.status" => query::is_any(values, checks),
            _ => true,
        };
        if filters.iter().all(passes) {
            found.push((machine.id.clone(), status_item(machine, checks)));
        }
    }
    match page(parameters, &found, |(id, _)| id.clone()) {
        Ok((shown, next)) => {
            let set = xml::list(
                "instanceStatusSet",
                shown.iter().map(|(_, item)| item.clone()),
            );
            let next = next.map(|n| leaf("nextToken", &n));
            HttpResponse::xml(xml::response(
                "DescribeInstanceStatus",
                [set].into_iter().chain(next),
            ))
        }
        Err(answer) => answer,
    }
}

fn status_item(machine: &Machine, checks: &str) -> Vec<Element> {
    let detail = match checks {
        "ok" => Some("passed"),
        "impaired" => Some("failed"),
        "initializing" => Some("initializing"),
        _ => None,
    };
    let status = |name: &str| {
        let details = detail.map(|d| {
            xml::list(
                "details",
                [vec![leaf("name", "reachability"), leaf("status", d)]],
            )
        });
        xml::node(name, [leaf("status", checks)].into_iter().chain(details))
    };
    vec![
        leaf("instanceId", &machine.id),
        leaf("availabilityZone", &machine.zone),
        machine.phase().element("instanceState"),
        status("systemStatus"),
        status("instanceStatus"),
    ]
}

/// Answers TerminateInstances.
pub(super) fn terminate(
    world: &Arc<World>,
    request: &HttpRequest,
    parameters: &Parameters,
) -> HttpResponse {
    let before: Vec<(String, InstancePhase)> = {
        let state = world.lock();
        parameters
            .list("InstanceId")
            .into_iter()
            .filter_map(|id| state.machine(&id).map(|m| (id, m.phase())))
            .collect()
    };
    let answer = world.moto.forward(request, &request.body);
    let (200, Ok(mut root)) = (answer.status, Element::parse(answer.body.as_slice())) else {
        return answer;
    };
    let ids: Vec<String> = before.iter().map(|(id, _)| id.clone()).collect();
    boot::terminate(world, &ids, EndReason::User);
    for item in xml::items_mut(&mut root, "instancesSet") {
        let was = xml::text(item, "instanceId")
            .and_then(|id| before.iter().find(|(b, _)| *b == id))
            .map(|(_, phase)| *phase);
        if let Some(was) = was {
            let is = if was == InstancePhase::Terminated {
                InstancePhase::Terminated
            } else {
                InstancePhase::ShuttingDown
            };
            xml::put(item, was.element("previousState"));
            xml::put(item, is.element("currentState"));
        }
    }
    HttpResponse::xml(xml::bytes(&root))
}

/// Answers GetConsoleOutput with the host keys, as cloud-init shows them, and the output of user data.
pub(super) fn show_console(world: &World, region: &str, parameters: &Parameters) -> HttpResponse {
    let id = parameters.get("InstanceId").unwrap_or_default();
    let state = world.lock();
    let Some(machine) = state.machine(id).filter(|m| m.region == region) else {
        return ec2_error(
            "InvalidInstanceID.NotFound",
            400,
            &format!("The instance ID '{id}' does not exist"),
        );
    };
    let node = machine
        .node
        .clone()
        .filter(|_| machine.phase() == InstancePhase::Running && !machine.unreachable);
    drop(state);
    let text = node.map(|node| {
        let log =
            if node.is_up() { fs::read_to_string(node.path("/var/log/cloud-init-output.log")).unwrap_or_default() } else { String::new() };
        let key = node.known();
        let key = key.split_once(' ').map_or("", |(_, key)| key);
        format!("-----BEGIN SSH HOST KEY KEYS-----\n{key} root@{}\n-----END SSH HOST KEY KEYS-----\n{log}", node.name())
    });
    let now = world
        .lock()
        .clock
        .now()
        .strftime("%Y-%m-%dT%H:%M:%S.000Z")
        .to_string();
    let output = leaf("output", &BASE64_STANDARD.encode(text.unwrap_or_default()));
    HttpResponse::xml(xml::response(
        "GetConsoleOutput",
        [leaf("instanceId", id), leaf("timestamp", &now), output],
    ))
}

/// Answers DeleteSecurityGroup.
pub(super) fn delete_group(
    world: &World,
    request: &HttpRequest,
    region: &str,
    parameters: &Parameters,
) -> HttpResponse {
    let wanted = parameters
        .get("GroupId")
        .or(parameters.get("GroupName"))
        .unwrap_or_default();
    let is_used = {
        let mut state = world.lock();
        let is_held = state.held_groups > 0;
        state.held_groups = state.held_groups.saturating_sub(1);
        let uses = |m: &Machine| {
            m.region == region
                && m.is_alive()
                && m.groups
                    .iter()
                    .any(|(id, name)| id == wanted || name == wanted)
        };
        is_held || state.machines.iter().any(uses)
    };
    if is_used {
        return ec2_error(
            "DependencyViolation",
            400,
            &format!("resource {wanted} has a dependent object"),
        );
    }
    world.moto.forward(request, &request.body)
}
