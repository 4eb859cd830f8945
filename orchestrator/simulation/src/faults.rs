//! What goes wrong, and when: all of it follows from the seed, and all of it is over in the end.

use crate::world::{Line, World};
use cvc_core::stop::StopRequest;
use cvc_engine::agent::LostNodes;
use fastrand::Rng;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Faults come within this time from the beginning, seconds.
const WITHIN_S: u64 = 300;
/// Most of what is away comes back within this time, seconds.
const AWAY_S: u64 = 120;
/// The rest within this one: longer than anything is waited for.
const LONG_AWAY_S: u64 = 2_000;

/// A fault.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// All connections to a site break.
    Break(String),
    /// Nothing arrives over them any more.
    Silence(String),
    /// The head node cannot be reached.
    Unreachable(String, Duration),
    /// The next lines from there are damaged, or lost.
    Damage(String, u32),
    /// The agent is killed.
    KillAgent(String),
    /// The agent is asked to end.
    TerminateAgent(String),
    /// Agents do not start.
    BadStarts(String, u32),
    /// The agent is killed, and the head node's disk is full when the next ones end what it left.
    KillAgentOnFullDisk(String, u32),
    /// The head node loses power.
    Reboot(String, Duration),
    /// A node is silent.
    NodeDown(String, String, Duration),
    /// The controller is killed, and started again after a while.
    KillController(Duration),
    /// The user asks to stop, and goes on after a while.
    Stop(StopRequest, Duration),
}

/// What happens to a controller from outside.
#[derive(Clone, Debug)]
pub(crate) enum ToController {
    Kill(Duration),
    Stop(StopRequest, Duration),
}

/// Draws the faults of a schedule.
pub(crate) fn draw(rng: &mut Rng, sites: &[(String, Vec<String>)]) -> Vec<(Duration, Fault)> {
    // none, a few, or so many that they meet
    let count = match rng.u32(0..10) {
        0 => 0,
        1..7 => rng.usize(1..6),
        _ => rng.usize(6..20),
    };
    let mut faults: Vec<(Duration, Fault)> = (0..count)
        .map(|_| {
            // many at the beginning, when much happens at once
            let within_s = if rng.bool() { WITHIN_S } else { 60 };
            let at = Duration::from_millis(rng.u64(0..within_s * 1000));
            (at, one(rng, sites))
        })
        .collect();
    faults.sort_by_key(|(at, _)| *at);
    faults
}

fn one(rng: &mut Rng, sites: &[(String, Vec<String>)]) -> Fault {
    let (site, nodes) = &sites[rng.usize(0..sites.len())];
    let site = site.clone();
    let away_s = if rng.u32(0..8) == 0 { LONG_AWAY_S } else { AWAY_S };
    let away = Duration::from_millis(rng.u64(100..away_s * 1000));
    match rng.u32(0..15) {
        0 | 1 => Fault::Break(site),
        2 => Fault::Silence(site),
        3 => Fault::Unreachable(site, away),
        4 => Fault::Damage(site, rng.u32(1..6)),
        5 | 6 => Fault::KillAgent(site),
        7 => Fault::TerminateAgent(site),
        8 => Fault::BadStarts(site, rng.u32(1..4)),
        9 => Fault::Reboot(site, away),
        10 => Fault::NodeDown(site, nodes[rng.usize(0..nodes.len())].clone(), away),
        11 | 12 => Fault::KillController(away),
        13 => Fault::KillAgentOnFullDisk(site, rng.u32(1..3)),
        _ => Fault::Stop(if rng.bool() { StopRequest::Finish } else { StopRequest::StopNow }, away),
    }
}

/// Lets faults happen at their times, and heals what they broke.
pub(crate) async fn happen(
    world: World,
    faults: Vec<(Duration, Fault)>,
    controller: mpsc::UnboundedSender<ToController>,
    over: watch::Sender<bool>,
) {
    let mut healing = tokio::task::JoinSet::new();
    for (at, fault) in faults {
        tokio::time::sleep(at.saturating_sub(world.now())).await;
        world.tell(format!("fault: {fault:?}"));
        match fault {
            Fault::Break(site) => world.machine(&site, |machine| machine.set_lines(Line::Closed)),
            Fault::Silence(site) => world.machine(&site, |machine| machine.set_lines(Line::Silent)),
            Fault::Unreachable(site, away) => {
                let at_once = world.happens(0.5);
                world.machine(&site, |machine| {
                    machine.set_lines(if at_once { Line::Closed } else { Line::Silent });
                    machine.reachable.set(false);
                });
                let world = world.clone();
                healing.spawn(async move {
                    tokio::time::sleep(away).await;
                    world.machine(&site, |machine| machine.reachable.set(true));
                });
            }
            Fault::Damage(site, lines) => world.machine(&site, |machine| machine.damage += lines),
            Fault::KillAgent(site) => {
                world.kill_agent(&site);
            }
            Fault::TerminateAgent(site) => {
                if let Some(terminated) = world.machine(&site, |machine| machine.agent.as_ref().map(|agent| agent.terminated.clone())) {
                    terminated.notify_one();
                }
            }
            Fault::BadStarts(site, starts) => world.machine(&site, |machine| machine.bad_starts += starts),
            Fault::KillAgentOnFullDisk(site, recoveries) => {
                world.kill_agent(&site);
                world.machine(&site, |machine| machine.bad_recoveries += recoveries);
            }
            Fault::Reboot(site, away) => {
                world.kill_agent(&site);
                world.machine(&site, |machine| {
                    machine.live.clear();
                    machine.relays.drain(..).for_each(|relay| relay.abort());
                    machine.set_lines(Line::Silent);
                    machine.reachable.set(false);
                });
                let world = world.clone();
                healing.spawn(async move {
                    tokio::time::sleep(away).await;
                    world.machine(&site, |machine| machine.reachable.set(true));
                });
            }
            Fault::NodeDown(site, node, away) => {
                world.machine(&site, |machine| {
                    machine.set_down(&node, true);
                    let lose = |lost: &mut LostNodes| drop(lost.insert(node.clone(), "nothing was heard of it".to_owned()));
                    machine.lost.send_modify(lose);
                });
                let world = world.clone();
                healing.spawn(async move {
                    tokio::time::sleep(away).await;
                    world.machine(&site, |machine| machine.set_down(&node, false));
                });
            }
            // nobody listens if it has ended meanwhile
            Fault::KillController(away) => drop(controller.send(ToController::Kill(away))),
            Fault::Stop(request, away) => drop(controller.send(ToController::Stop(request, away))),
        }
    }
    while healing.join_next().await.is_some() {}
    for machine in world.lock().machines.values_mut() {
        machine.bad_starts = 0;
        machine.bad_recoveries = 0;
    }
    world.tell("faults are over");
    over.send_replace(true);
}
