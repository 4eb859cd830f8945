//! The entry point of the cloud: records every call, checks clock and credentials, applies faults, and dispatches by action.

use std::{sync::Arc, thread, time::SystemTime};

use super::{
    call::ApiCall,
    fault::{self, FaultKind, error},
    images, instances, launch, placement, prices,
    query::Parameters,
    server::{HttpRequest, HttpResponse},
    spot, tags,
    world::World,
    zones,
};

/// Answers a request; `None` closes the connection without an answer.
pub(super) fn answer(world: &Arc<World>, request: &HttpRequest) -> Option<HttpResponse> {
    let target = request
        .header("x-amz-target")
        .and_then(|t| t.split_once('.'))
        .map(|(service, action)| (service.to_owned(), action.to_owned()));
    let parameters = if target.is_none() {
        Parameters::read(&request.body)
    } else {
        Parameters::default()
    };
    let action = target
        .as_ref()
        .map(|(_, action)| action.clone())
        .or_else(|| parameters.get("Action").map(ToOwned::to_owned))
        .unwrap_or_default();
    let region = region_of(request).unwrap_or_else(|| world.settings.region.clone());
    // requests name zones in several ways, but faults are matched with one of them
    let mut seen = parameters.clone();
    if action == "RunInstances"
        && seen.get("Placement.AvailabilityZone").is_none()
        && let Some(zone) = match seen
            .get("SubnetId")
            .or(seen.get("NetworkInterface.1.SubnetId"))
        {
            Some(subnet) => zones::find_of_subnet(world, &region, subnet),
            None => zones::list(world, &region).into_iter().next(),
        }
    {
        seen.set("Placement.AvailabilityZone", zone);
    }
    let (refused, strikes) = {
        let mut state = world.lock();
        state.regions.insert(region.clone());
        state.calls.push(ApiCall::new(
            SystemTime::now(),
            &action,
            &region,
            target.is_some().then_some(request.body.as_slice()),
            &parameters,
        ));
        let refused = if state.expired {
            Some(error(
                request,
                "RequestExpired",
                400,
                "Request has expired.",
            ))
        } else {
            state.clock.refuses(request)
        };
        let strikes = if refused.is_none() {
            fault::take_faults(&mut state.faults, &action, &seen)
        } else {
            Vec::new()
        };
        (refused, strikes)
    };
    let mut is_lost = false;
    let mut answer = refused;
    for strike in strikes {
        match strike {
            FaultKind::Delay(by) => thread::sleep(by),
            FaultKind::Error {
                code,
                http,
                message,
            } => answer = Some(error(request, &code, http, &message)),
            FaultKind::LostRequest => return None,
            FaultKind::LostAnswer => is_lost = true,
        }
    }
    let mut answer = match (answer, &target) {
        (Some(refusal), _) => refusal,
        (None, Some((service, action))) => answer_others(world, request, service, action, &region),
        (None, None) => answer_ec2(world, request, &action, &region, &parameters),
    };
    if is_lost {
        return None;
    }
    let date = world.lock().clock.date();
    answer.headers.push(("Date".into(), date));
    Some(answer)
}

/// Returns the region for which a request is signed.
fn region_of(request: &HttpRequest) -> Option<String> {
    let (_, scope) = request.header("authorization")?.split_once("Credential=")?;
    scope
        .split([',', ' '])
        .next()?
        .split('/')
        .nth(2)
        .map(ToOwned::to_owned)
}

/// Answers services that name their action in a header.
fn answer_others(
    world: &World,
    request: &HttpRequest,
    service: &str,
    action: &str,
    region: &str,
) -> HttpResponse {
    match (service, action) {
        ("AWSPriceListService", "GetProducts") => prices::list_products(world, request),
        ("ServiceQuotasV20190624", "GetServiceQuota" | "ListServiceQuotas") => {
            prices::list_quotas(world, request, action, region)
        }
        ("AmazonSSM", "GetParameter") => {
            let asked: serde_json::Value =
                serde_json::from_slice(&request.body).unwrap_or_default();
            let name = asked["Name"].as_str().unwrap_or_default();
            match images::find_parameter(name) {
                Some(value) => prices::json_answer(&serde_json::json!({ "Parameter": {
                    "Name": name, "Type": "String", "Value": value, "Version": 1, "DataType": "aws:ec2:image",
                    "ARN": format!("arn:aws:ssm:{region}::parameter{name}"),
                } })),
                None => world.moto.forward(request, &request.body),
            }
        }
        _ => world.moto.forward(request, &request.body),
    }
}

fn answer_ec2(
    world: &Arc<World>,
    request: &HttpRequest,
    action: &str,
    region: &str,
    parameters: &Parameters,
) -> HttpResponse {
    let is_own = matches!(
        action,
        "CreatePlacementGroup"
            | "DeletePlacementGroup"
            | "CancelSpotInstanceRequests"
            | "DescribePlacementGroups"
            | "DescribeSpotInstanceRequests"
    );
    if is_own && parameters.is_true("DryRun") {
        return error(
            request,
            "DryRunOperation",
            412,
            "Request would have succeeded, but DryRun flag is set.",
        );
    }
    match action {
        "RunInstances" => launch::run(world, request, region, parameters),
        "DescribeInstances" => instances::describe(world, request, parameters),
        "DescribeInstanceStatus" => instances::describe_status(world, region, parameters),
        "TerminateInstances" => instances::terminate(world, request, parameters),
        "GetConsoleOutput" => instances::show_console(world, region, parameters),
        "DeleteSecurityGroup" => instances::delete_group(world, request, region, parameters),
        "DescribeAvailabilityZones" | "DescribeInstanceTypeOfferings" => {
            zones::describe(world, request, region)
        }
        "CreatePlacementGroup" => placement::create(world, region, parameters),
        "DeletePlacementGroup" => placement::delete(world, region, parameters),
        "DescribePlacementGroups" => placement::describe(world, region, parameters),
        "DescribeSpotInstanceRequests" => spot::describe(world, region, parameters),
        "CancelSpotInstanceRequests" => spot::cancel(world, region, parameters),
        "DescribeSpotPriceHistory" => spot::history(world, region, parameters),
        "CreateTags" | "DeleteTags" => tags::change(world, request, action, parameters),
        "DescribeTags" => tags::describe(world, request, region, parameters),
        "StopInstances"
        | "StartInstances"
        | "RebootInstances"
        | "RequestSpotInstances"
        | "RequestSpotFleet"
        | "CreateFleet" => error(
            request,
            "UnsupportedOperation",
            400,
            "not supported by the test kit's cloud",
        ),
        _ => world.moto.forward(request, &request.body),
    }
}
