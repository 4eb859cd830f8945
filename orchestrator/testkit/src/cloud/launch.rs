//! RunInstances, with checks that moto lacks.

use std::{sync::Arc, time::Instant};

use base64::prelude::{BASE64_STANDARD, Engine};
use jiff::Timestamp;
use xmltree::Element;

use super::{
    boot, disks,
    fault::ec2_error,
    images, instances,
    machine::Machine,
    placement,
    prices::QUOTAS,
    query::{self, Parameters},
    resources::SpotRequest,
    server::{HttpRequest, HttpResponse},
    world::{KnownLaunch, World},
    xml, zones,
};

/// Launches instances, or repeats the answer to an earlier request with the same client token.
pub(super) fn run(
    world: &Arc<World>,
    request: &HttpRequest,
    region: &str,
    parameters: &Parameters,
) -> HttpResponse {
    let _turn = world.launching.lock();
    let token = parameters
        .get("ClientToken")
        .map(|t| (region.to_owned(), t.to_owned()));
    let asked = parameters.write();
    if let Some(known) = token
        .as_ref()
        .and_then(|t| world.lock().tokens.get(t).cloned())
    {
        return repeat_answer(world, &known, &asked);
    }
    let wanted = match CheckedLaunch::of(world, region, parameters) {
        Ok(wanted) => wanted,
        Err(refusal) => return refusal,
    };
    // a dry run ends here, with the error code that means success
    let answer = world
        .moto
        .forward(request, wanted.parameters.write().as_bytes());
    let (200, Ok(root)) = (answer.status, Element::parse(answer.body.as_slice())) else {
        return answer;
    };
    let mut machines: Vec<Machine> = xml::items(&root, "instancesSet")
        .filter_map(|item| Machine::read(item, region))
        .collect();
    let ids: Vec<String> = machines.iter().map(|m| m.id.clone()).collect();
    wanted.shape(world, region, parameters, &mut machines);
    for (machine, item) in machines
        .iter_mut()
        .zip(xml::items(&root, "instancesSet"))
        .filter(|_| world.guest_pool.is_some())
    {
        machine.wanted_disks = disks::plan(world, machine, parameters, item);
    }
    boot::launch(world, machines);
    if let Some(token) = token {
        world.lock().tokens.insert(
            token,
            KnownLaunch {
                asked,
                instances: ids,
                answer: answer.body,
            },
        );
    }
    HttpResponse::xml(xml::bytes(&instances::override_description(world, root)))
}

/// Answers a request with a known client token.
fn repeat_answer(world: &World, known: &KnownLaunch, asked: &str) -> HttpResponse {
    if known.asked != asked {
        let text = "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).";
        return ec2_error("IdempotentParameterMismatch", 400, text);
    }
    let has_ended = |id: &String| world.lock().machine(id).is_none_or(|m| !m.is_alive());
    if known.instances.iter().all(has_ended) {
        let text = "The client token that you have provided is associated with a resource that is already deleted.";
        return ec2_error("IdempotentInstanceTerminated", 400, text);
    }
    match Element::parse(known.answer.as_slice()) {
        Ok(root) => HttpResponse::xml(xml::bytes(&instances::override_description(world, root))),
        Err(e) => ec2_error("InternalError", 500, &e.to_string()),
    }
}

/// A launch that EC2 would permit.
struct CheckedLaunch {
    /// Parameters in the form that moto supports.
    parameters: Parameters,
    vcpus: u32,
    placement: Option<String>,
    is_spot: bool,
    spot_price: String,
}

impl CheckedLaunch {
    fn of(world: &World, region: &str, asked: &Parameters) -> Result<Self, HttpResponse> {
        let mut parameters = asked.clone();
        let kind = asked.get("InstanceType").unwrap_or("m1.small");
        let count: u32 = asked
            .get("MaxCount")
            .and_then(|n| n.parse().ok())
            .unwrap_or(1);
        // moto launches the minimum number, EC2 the maximum
        parameters.set("MinCount", count.to_string());
        let zone = choose_subnet(world, region, &mut parameters)?;
        complete_volumes(&mut parameters);
        let placement = asked
            .get("Placement.GroupName")
            .filter(|g| !g.is_empty())
            .map(ToOwned::to_owned);
        if let Some(group) = &placement
            && !world
                .lock()
                .groups
                .iter()
                .any(|g| g.name == *group && g.region == region)
        {
            return Err(ec2_error(
                "InvalidPlacementGroup.Unknown",
                400,
                &format!("The Placement Group '{group}' is unknown."),
            ));
        }
        if let Some(group) = &placement {
            placement::check_type(world, region, group, kind)?;
        }
        let is_spot = asked.get("InstanceMarketOptions.MarketType") == Some("spot");
        let offered = asked
            .get("InstanceMarketOptions.SpotOptions.MaxPrice")
            .and_then(|p| p.parse::<f64>().ok());
        let on_demand = world.settings.prices.0.get(kind).copied();
        if is_spot && let Some(price) = world.settings.prices.spot(kind, zone) {
            let offered = offered.or(on_demand).unwrap_or(price);
            if offered < price {
                let text = format!(
                    "Your Spot request price of {offered} is lower than the minimum required Spot request fulfillment price of {price:.4}."
                );
                return Err(ec2_error("SpotMaxPriceTooLow", 400, &text));
            }
        }
        let vcpus = world.vcpus(region, kind).unwrap_or(0);
        let used: u32 = {
            let state = world.lock();
            let same = state.machines.iter().filter(|m| {
                m.region == region
                    && m.is_alive()
                    && m.spot.is_some() == is_spot
                    && is_standard(&m.kind)
            });
            same.map(|m| m.vcpus).sum()
        };
        let limit = world.settings.quotas[usize::from(is_spot)];
        if is_standard(kind) && f64::from(used + vcpus * count) > limit {
            let text = format!(
                "You have requested more vCPU capacity than your current vCPU limit of {limit} allows for the instance bucket ({}).",
                QUOTAS[usize::from(is_spot)].1
            );
            return Err(ec2_error(
                if is_spot {
                    "MaxSpotInstanceCountExceeded"
                } else {
                    "VcpuLimitExceeded"
                },
                400,
                &text,
            ));
        }
        let spot_price = offered
            .or(on_demand)
            .map_or_else(String::new, |p| format!("{p:.6}"));
        Ok(Self {
            parameters,
            vcpus,
            placement,
            is_spot,
            spot_price,
        })
    }

    /// Sets the requested properties of the new instances, and creates the spot requests of spot instances.
    fn shape(&self, world: &World, region: &str, asked: &Parameters, machines: &mut [Machine]) {
        let user_data = asked
            .get("UserData")
            .and_then(|d| BASE64_STANDARD.decode(d).ok());
        let mut state = world.lock();
        let state = &mut *state;
        for machine in machines {
            machine.vcpus = self.vcpus;
            machine.placement.clone_from(&self.placement);
            machine.user_data.clone_from(&user_data);
            machine.ends_for_good =
                asked.get("InstanceInitiatedShutdownBehavior") == Some("terminate");
            machine.since = Instant::now();
            machine.token = asked.get("ClientToken").map(ToOwned::to_owned);
            for (count, flag) in [
                (&mut state.never_reachable, &mut machine.unreachable),
                (&mut state.impaired, &mut machine.impaired),
            ] {
                if *count > 0 {
                    *count -= 1;
                    *flag = true;
                }
            }
            if self.is_spot {
                let id = query::identity("sir-");
                machine.spot = Some(id.clone());
                state.requests.push(SpotRequest {
                    id,
                    region: region.to_owned(),
                    instance: machine.id.clone(),
                    is_persistent: asked.get("InstanceMarketOptions.SpotOptions.SpotInstanceType")
                        == Some("persistent"),
                    price: self.spot_price.clone(),
                    kind: machine.kind.clone(),
                    zone: machine.zone.clone(),
                    state: "active",
                    status: "fulfilled",
                    created: Timestamp::now(),
                    tags: asked.tags_for("spot-instances-request"),
                });
            }
        }
    }
}

/// Returns whether a type counts towards the quotas of standard instances.
fn is_standard(kind: &str) -> bool {
    let family: String = kind.chars().take_while(char::is_ascii_alphabetic).collect();
    !["dl", "hpc", "inf", "mac", "trn"].contains(&family.as_str())
        && family.starts_with(['a', 'c', 'd', 'h', 'i', 'm', 'r', 't', 'z'])
}

/// Sets the subnet of a launch, because moto assigns arbitrary addresses to launches without a subnet. Returns the index of the subnet's zone.
fn choose_subnet(
    world: &World,
    region: &str,
    parameters: &mut Parameters,
) -> Result<usize, HttpResponse> {
    let zones = zones::list(world, region);
    let given = parameters
        .get("SubnetId")
        .or(parameters.get("NetworkInterface.1.SubnetId"))
        .map(ToOwned::to_owned);
    let zone = match &given {
        Some(subnet) => match zones::find_of_subnet(world, region, subnet) {
            Some(zone) => zone,
            None => {
                return Err(ec2_error(
                    "InvalidSubnetID.NotFound",
                    400,
                    &format!("The subnet ID '{subnet}' does not exist"),
                ));
            }
        },
        None => match parameters
            .get("Placement.AvailabilityZone")
            .or(zones.first().map(String::as_str))
        {
            Some(zone) => zone.to_owned(),
            None => {
                return Err(ec2_error(
                    "MissingInput",
                    400,
                    "No subnets found for the default VPC. Please specify a subnet.",
                ));
            }
        },
    };
    if given.is_none() {
        let Some(subnet) = zones::find_default_subnet(world, region, &zone) else {
            let text = format!("No default subnet for availability zone: '{zone}'.");
            return Err(ec2_error("MissingInput", 400, &text));
        };
        let has_interfaces = !parameters.members("NetworkInterface").is_empty();
        parameters.set(
            if has_interfaces {
                "NetworkInterface.1.SubnetId"
            } else {
                "SubnetId"
            },
            subnet,
        );
    }
    Ok(zones.iter().position(|z| *z == zone).unwrap_or(0))
}

/// Adds the volumes that EC2 creates. The root always has a volume, which by default is deleted with its instance; instance stores have none.
fn complete_volumes(parameters: &mut Parameters) {
    let root = images::find_user_and_root(parameters.get("ImageId").unwrap_or_default()).1;
    let members = parameters.members("BlockDeviceMapping").into_values();
    let is_volume = |mapping: &Parameters| {
        !mapping
            .get("VirtualName")
            .is_some_and(|name| name.starts_with("ephemeral"))
    };
    let mut mappings: Vec<Parameters> = members.filter(is_volume).collect();
    if !mappings.iter().any(|m| m.get("DeviceName") == Some(root)) {
        mappings.insert(0, Parameters::default());
        mappings[0].set("DeviceName", root);
    }
    for mapping in mappings
        .iter_mut()
        .filter(|m| m.get("DeviceName") == Some(root))
    {
        for (name, value) in [("Ebs.VolumeSize", "8"), ("Ebs.DeleteOnTermination", "true")] {
            if mapping.get(name).is_none() {
                mapping.set(name, value);
            }
        }
    }
    // number the entries again, because moto stops at a gap
    parameters.remove("BlockDeviceMapping");
    for (n, mapping) in mappings.iter().enumerate() {
        for (name, value) in &mapping.0 {
            parameters.set(
                &format!("BlockDeviceMapping.{}.{name}", n + 1),
                value.as_str(),
            );
        }
    }
}
