//! Switches the nodes of instances on and off, and sets them up as images do at their first start.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Stdio,
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use jiff::Timestamp;

use super::{
    disks, images,
    machine::{EndReason, InstancePhase, Machine},
    metadata,
    moto::find,
    world::World,
};
use crate::lab::{GuestPool, Node};

/// Path of user data on a node.
const SCRIPT: &str = "/var/lib/cloud/instance/scripts/part-001";

/// Boots new instances.
pub(super) fn launch(world: &Arc<World>, mut machines: Vec<Machine>) {
    let mut nodes = Vec::new();
    for machine in &mut machines {
        let is_of_lab = machine.region == world.settings.region;
        let Some(guest_pool) = world.guest_pool.as_ref().filter(|_| is_of_lab) else {
            machine.enter(InstancePhase::Pending, Some(world.settings.boot));
            continue;
        };
        let node = guest_pool.add(
            machine.address,
            images::find_user_and_root(&machine.image).0,
            &public_key(world, machine),
        );
        machine.node = Some(Arc::clone(&node));
        if machine.unreachable {
            // EC2 reports an instance as running even if its image does not start
            machine.enter(InstancePhase::Pending, Some(world.settings.boot));
        } else {
            nodes.push((
                machine.id.clone(),
                node,
                machine.user_data.clone(),
                machine.wanted_disks.clone(),
            ));
        }
    }
    world.lock().machines.extend(machines);
    for (id, node, user_data, wanted_disks) in nodes {
        let world = Arc::clone(world);
        thread::spawn(move || {
            let started = catch_unwind(AssertUnwindSafe(|| {
                node.start();
                let devices = disks::attach(&node, &wanted_disks);
                disks::plug(&node, &devices);
                if let Some(machine) = world.lock().machine_mut(&id) {
                    machine.disks = devices;
                }
                metadata::serve(&world, &id, &node);
                run_user_data(&node, user_data.as_deref());
            }));
            let mut state = world.lock();
            match (started, state.machine_mut(&id)) {
                (Ok(()), Some(machine)) if machine.phase() == InstancePhase::Pending => {
                    machine.enter(InstancePhase::Running, None)
                }
                (Ok(()), _) => {}
                (Err(panic), machine) => {
                    let was_wanted = machine.is_some_and(|m| m.phase() == InstancePhase::Pending);
                    drop(state);
                    if was_wanted {
                        world.record_error(format!(
                            "the node of {id} did not start: {}",
                            panic_text(&*panic)
                        ));
                    }
                }
            }
        });
    }
}

/// Returns the message of a panic.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "for no known reason".into())
}

/// Returns the public key of the instance's key pair.
fn public_key(world: &World, machine: &Machine) -> String {
    let asked = [
        ("KeyName.1", machine.key.as_str()),
        ("IncludePublicKey", "true"),
    ];
    let key = world
        .moto
        .ask(&machine.region, "DescribeKeyPairs", &asked)
        .ok()
        .and_then(|answer| find(&answer, "publicKey"));
    key.map(|k| format!("{}\n", k.trim())).unwrap_or_default()
}

/// Runs user data once if they are a script, as cloud-init does: as root, after sshd has started, with the output in a file.
fn run_user_data(node: &Node, user_data: Option<&[u8]>) {
    let Some(script) = user_data.filter(|d| d.starts_with(b"#!")) else {
        return;
    };
    let path = node.path(SCRIPT);
    let written = fs::create_dir_all(path.parent().expect("a directory"))
        .and_then(|()| fs::write(&path, script))
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o700)));
    written.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut command = node.command("setsid");
    command.args([
        "sh",
        "-c",
        &format!("exec {SCRIPT} >>/var/log/cloud-init-output.log 2>&1"),
    ]);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.unwrap_or_else(|e| panic!("user data on {}: {e}", node.name()));
    thread::spawn(move || child.wait());
}

/// Terminates instances. moto removes their volumes at once; an instance is shutting down until its node has ended.
pub(super) fn terminate(world: &Arc<World>, ids: &[String], reason: EndReason) {
    for id in ids {
        let mut state = world.lock();
        let Some(machine) = state.machine_mut(id) else {
            continue;
        };
        if matches!(
            machine.phase(),
            InstancePhase::ShuttingDown | InstancePhase::Terminated
        ) {
            continue;
        }
        machine.enter(InstancePhase::ShuttingDown, None);
        machine.reason = Some((reason, Timestamp::now()));
        machine.metadata = None;
        let (node, interfaces, region) = (
            machine.node.clone(),
            machine.interfaces.clone(),
            machine.region.clone(),
        );
        if let Some(spot) = machine.spot.clone()
            && let Some(request) = state.requests.iter_mut().find(|r| r.id == spot)
        {
            request.settle(reason);
        }
        drop(state);
        let (world, id) = (Arc::clone(world), id.clone());
        world.clone().spawn_on_network(move || {
            // EC2 deletes these interfaces, moto does not
            for interface in &interfaces {
                let _ = world.moto.ask(
                    &region,
                    "DeleteNetworkInterface",
                    &[("NetworkInterfaceId", interface)],
                );
            }
            end_node(&world, node, reason);
            if let Some(machine) = world.lock().machine_mut(&id) {
                machine.disks.clear();
            }
            world.sleep(world.settings.stopping);
            if let Some(machine) = world.lock().machine_mut(&id) {
                machine.enter(InstancePhase::Terminated, None);
            }
        });
    }
}

/// Ends a node permanently.
fn end_node(world: &World, node: Option<Arc<Node>>, reason: EndReason) {
    let (Some(node), Some(guest_pool)) = (node, world.guest_pool.as_ref()) else {
        return;
    };
    if reason == EndReason::Spot && node.is_up() {
        // cut the power, so that peers do not notice the end
        let _ = catch_unwind(AssertUnwindSafe(|| node.poweroff()));
    }
    if catch_unwind(AssertUnwindSafe(|| GuestPool::remove(guest_pool, &node))).is_err()
        && !world.has_ended()
    {
        world.record_error(format!("{} cannot be removed", node.name()));
    }
}

/// Monitors nodes until the cloud ends. If a node switches itself off, its instance is terminated or stopped. If a test switches a node off, its
/// instance stays, like a broken machine.
pub(super) fn watch(world: &Arc<World>) {
    let weak: Weak<World> = Arc::downgrade(world);
    world.spawn_on_network(move || {
        while let Some(world) = weak.upgrade().filter(|w| !w.has_ended()) {
            let nodes: Vec<(String, Arc<Node>)> = {
                let state = world.lock();
                let running = state
                    .machines
                    .iter()
                    .filter(|m| m.phase() == InstancePhase::Running);
                running
                    .filter_map(|m| Some((m.id.clone(), m.node.clone()?)))
                    .collect()
            };
            for (id, node) in nodes {
                if node.has_ended() {
                    handle_shutdown(&world, &id, &node);
                } else {
                    restore_services(&world, &id, &node);
                }
            }
            drop(world);
            thread::sleep(Duration::from_millis(50));
        }
    });
}

/// Handles an instance that switched itself off.
fn handle_shutdown(world: &Arc<World>, id: &str, node: &Node) {
    node.end();
    let (region, ends_for_good) = {
        let state = world.lock();
        let Some(machine) = state.machine(id) else {
            return;
        };
        (machine.region.clone(), machine.ends_for_good)
    };
    let action = if ends_for_good {
        "TerminateInstances"
    } else {
        "StopInstances"
    };
    if let Err(e) = world.moto.ask(&region, action, &[("InstanceId.1", id)]) {
        world.record_error(e);
    }
    if ends_for_good {
        terminate(world, &[id.to_owned()], EndReason::Itself);
    } else if let Some(machine) = world.lock().machine_mut(id) {
        machine.enter(InstancePhase::Stopped, None);
        machine.metadata = None;
        machine.reason = Some((EndReason::Itself, Timestamp::now()));
    }
}

/// Provides disks and the metadata service again after a node has restarted.
fn restore_services(world: &Arc<World>, id: &str, node: &Arc<Node>) {
    let now = node.boot();
    let is_up_to_date = world
        .lock()
        .machine(id)
        .is_none_or(|m| m.metadata.as_ref().map(|(boot, _)| *boot) == now);
    if is_up_to_date || (now.is_none() && node.is_up()) {
        return;
    }
    if let Some(machine) = world.lock().machine_mut(id) {
        machine.metadata = None;
        if now.is_some() {
            // ignore panics: a test may switch the node off at any time
            let _ = catch_unwind(AssertUnwindSafe(|| disks::plug(node, &machine.disks)));
        }
    }
    if now.is_some() {
        let _ = catch_unwind(AssertUnwindSafe(|| metadata::serve(world, id, node)));
    }
}
