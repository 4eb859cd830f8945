//! The metadata service of an instance, at 169.254.169.254 on its own network: version 2, which requires a token.

use std::{
    net::TcpListener,
    sync::{Arc, Weak},
};

use hyper::Method;

use super::{
    query::identity,
    server::{self, HttpRequest, HttpResponse},
    world::World,
};
use crate::lab::Node;

/// Starts the service for a node that is up. It ends with the instance; after a restart of the node, [`super::boot::watch`] starts another.
pub(super) fn serve(world: &Arc<World>, id: &str, node: &Arc<Node>) {
    let Some(boot) = node.boot() else { return };
    let listener = node
        .on_network(|| TcpListener::bind("169.254.169.254:80"))
        .unwrap_or_else(|e| panic!("the metadata service: {e}"));
    let (weak, of, token): (Weak<World>, String, String) =
        (Arc::downgrade(world), id.to_owned(), identity("AQAAA"));
    let handler = move |request: HttpRequest| {
        weak.upgrade()
            .map(|world| answer(&world, &of, &token, &request))
    };
    let serving = server::serve(&world.runtime, listener, Arc::new(handler))
        .unwrap_or_else(|e| panic!("the metadata service: {e}"));
    if let Some(machine) = world.lock().machine_mut(id) {
        machine.metadata = Some((boot, serving));
    }
}

fn answer(world: &World, id: &str, token: &str, request: &HttpRequest) -> HttpResponse {
    let text = |status: u16, body: &str| HttpResponse::new(status, "text/plain", body);
    if request.path == "/latest/api/token" {
        let seconds = request
            .header("x-aws-ec2-metadata-token-ttl-seconds")
            .and_then(|s| s.parse::<u32>().ok());
        return match (&request.method, seconds) {
            (&Method::PUT, Some(1..=21600)) => text(200, token),
            (&Method::PUT, _) => text(400, "Bad Request"),
            _ => text(405, "Method Not Allowed"),
        };
    }
    if request.header("x-aws-ec2-metadata-token") != Some(token) {
        return text(401, "Unauthorized");
    }
    let state = world.lock();
    let Some(machine) = state.machine(id) else {
        return text(404, "Not Found");
    };
    if request.path == "/latest/user-data" {
        return machine.user_data.as_ref().map_or_else(
            || text(404, "Not Found"),
            |d| HttpResponse::new(200, "application/octet-stream", d.as_slice()),
        );
    }
    let Some(path) = request.path.strip_prefix("/latest/meta-data/") else {
        return text(404, "Not Found");
    };
    let address = machine.address.to_string();
    let notice = machine
        .notice
        .map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let action = notice
        .as_ref()
        .map(|at| format!("{{\"action\":\"terminate\",\"time\":\"{at}\"}}"));
    let value = match path.trim_end_matches('/') {
        "instance-id" => Some(machine.id.clone()),
        "instance-type" => Some(machine.kind.clone()),
        "ami-id" => Some(machine.image.clone()),
        "placement/availability-zone" => Some(machine.zone.clone()),
        "placement/region" => Some(machine.region.clone()),
        "local-ipv4" | "public-ipv4" => Some(address),
        "local-hostname" | "hostname" => {
            Some(format!("ip-{}.ec2.internal", address.replace('.', "-")))
        }
        "instance-life-cycle" => Some(
            if machine.spot.is_some() {
                "spot"
            } else {
                "on-demand"
            }
            .to_owned(),
        ),
        "spot/instance-action" => action,
        "spot/termination-time" => notice,
        _ => None,
    };
    value.map_or_else(|| text(404, "Not Found"), |value| text(200, &value))
}
