//! The faults of a schedule and their times, all derived from the seed. All faults are repaired before the schedule ends.

use crate::{
    power,
    world::{Line, World},
};
use camino::Utf8PathBuf;
use cvc_core::clock;
use cvc_core::stop::StopRequest;
use fastrand::Rng;
use jiff::SignedDuration;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Faults occur within this time from the beginning, seconds.
const WITHIN_S: u64 = 300;
/// Time within which most absent machines return, seconds.
const AWAY_S: u64 = 120;
/// Time within which all other absent machines return, seconds: longer than cvc waits for anything.
const LONG_AWAY_S: u64 = 2_000;

/// A fault.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// All connections to a site are interrupted.
    Break(String),
    /// The connections to a site transfer no data, and stay open.
    Silence(String),
    /// The head node cannot be reached.
    Unreachable(String, Duration),
    /// The next lines from the site are damaged or lost.
    Damage(String, u32),
    /// The agent is killed.
    KillAgent(String),
    /// The agent receives SIGTERM.
    TerminateAgent(String),
    /// The next starts of an agent fail.
    BadStarts(String, u32),
    /// The agent is killed, and the head node's disk is full when later agents try to end the killed agent's attempts.
    KillAgentOnFullDisk(String, u32),
    /// The head node loses power.
    Reboot(String, Duration),
    /// A node does not answer.
    NodeDown(String, Duration),
    /// The controller is killed, and started again later.
    KillController(Duration),
    /// The user stops, and continues later.
    Stop(StopRequest, Duration),
    /// Another controller starts while others run, on a machine for which the lock has no effect.
    SecondController,
    /// The user edits the campaign file, ends the controllers, and continues later.
    Edit(Ending, Duration),
    /// The machine of the controllers loses power.
    PowerLoss(Duration),
    /// The clock of the controllers' machine is changed by this number of seconds.
    ControllerClock(i64),
    /// The clock of a head node is changed by this number of seconds.
    HeadClock(String, i64),
}

/// How the user ends the controllers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    Kill,
    Stop(StopRequest),
}

/// Events that the user or a fault sends to the controllers.
#[derive(Clone, Debug)]
pub(crate) enum ToController {
    /// One controller is killed.
    Kill(Duration),
    Stop(StopRequest, Duration),
    Second,
    Edit(Ending, Duration),
    PowerLoss(Duration),
}

/// Draws the faults of a schedule.
pub(crate) fn draw(rng: &mut Rng, sites: &[(String, Vec<String>)]) -> Vec<(Duration, Fault)> {
    // none, a few, or enough to overlap in time
    let count = match rng.u32(0..10) {
        0 => 0,
        1..7 => rng.usize(1..6),
        _ => rng.usize(6..20),
    };
    let mut faults: Vec<(Duration, Fault)> = (0..count)
        .map(|_| {
            // in half of the schedules faults are dense, because much happens at the beginning
            let within_s = if rng.bool() { WITHIN_S } else { 60 };
            let at = Duration::from_millis(rng.u64(0..within_s * 1000));
            (at, one(rng, sites))
        })
        .collect();
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// Draws the kinds of faults that were added later, from a separate generator. `machines` are the head nodes before and after each edit of the
/// campaign file.
pub(crate) fn draw_more(
    chance: &mut Rng,
    machines: &[String],
    mut edits: usize,
) -> Vec<(Duration, Fault)> {
    let count = match chance.u32(0..10) {
        0..4 => 0,
        4..8 => chance.usize(1..4),
        _ => chance.usize(4..10),
    };
    let mut faults = Vec::new();
    for _ in 0..count {
        let within_s = if chance.bool() { WITHIN_S } else { 60 };
        let at = Duration::from_millis(chance.u64(0..within_s * 1000));
        let away_s = if chance.u32(0..8) == 0 {
            LONG_AWAY_S
        } else {
            AWAY_S
        };
        let away = Duration::from_millis(chance.u64(100..away_s * 1000));
        let machine = machines[chance.usize(0..machines.len())].clone();
        let off_s = [-400 * 86_400, -3 * 3600, -90, 90, 3 * 3600, 400 * 86_400][chance.usize(0..6)];
        let fault = match chance.u32(0..14) {
            0..4 => Fault::SecondController,
            4..7 if edits > 0 => {
                edits -= 1;
                let ending = match chance.u32(0..4) {
                    0 => Ending::Stop(StopRequest::Finish),
                    1 => Ending::Stop(StopRequest::StopNow),
                    _ => Ending::Kill,
                };
                Fault::Edit(ending, away)
            }
            4..8 => Fault::PowerLoss(away),
            8..10 => Fault::Reboot(machine, away),
            10 => Fault::ControllerClock(off_s),
            11 => Fault::HeadClock(machine, off_s),
            12 => Fault::KillAgent(machine),
            _ => Fault::Unreachable(machine, away),
        };
        faults.push((at, fault));
    }
    faults
}

fn one(rng: &mut Rng, sites: &[(String, Vec<String>)]) -> Fault {
    let (_, nodes) = &sites[rng.usize(0..sites.len())];
    // the first node is the site's head node
    let site = nodes[0].clone();
    let away_s = if rng.u32(0..8) == 0 {
        LONG_AWAY_S
    } else {
        AWAY_S
    };
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
        10 => Fault::NodeDown(nodes[rng.usize(0..nodes.len())].clone(), away),
        11 | 12 => Fault::KillController(away),
        13 => Fault::KillAgentOnFullDisk(site, rng.u32(1..3)),
        _ => Fault::Stop(
            if rng.bool() {
                StopRequest::Finish
            } else {
                StopRequest::StopNow
            },
            away,
        ),
    }
}

/// Carries out faults at their times, and repairs their damage.
pub(crate) async fn happen(
    world: World,
    dir: Utf8PathBuf,
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
                world.kill_agents(&site);
            }
            Fault::TerminateAgent(site) => {
                world.machine(&site, |machine| {
                    machine
                        .agents
                        .values()
                        .for_each(|agent| agent.terminated.notify_one())
                });
            }
            Fault::BadStarts(site, starts) => {
                world.machine(&site, |machine| machine.bad_starts += starts)
            }
            Fault::KillAgentOnFullDisk(site, recoveries) => {
                world.kill_agents(&site);
                world.machine(&site, |machine| machine.bad_recoveries += recoveries);
            }
            Fault::Reboot(site, away) => {
                world.reboot(&site);
                power::lose_events(&world, &dir.join(&site));
                let world = world.clone();
                healing.spawn(async move {
                    tokio::time::sleep(away).await;
                    world.machine(&site, |machine| machine.reachable.set(true));
                });
            }
            Fault::NodeDown(node, away) => {
                world.set_down(&node, true);
                let world = world.clone();
                healing.spawn(async move {
                    tokio::time::sleep(away).await;
                    world.set_down(&node, false);
                });
            }
            // ignore errors: the controller may have ended meanwhile
            Fault::KillController(away) => drop(controller.send(ToController::Kill(away))),
            Fault::Stop(request, away) => drop(controller.send(ToController::Stop(request, away))),
            Fault::SecondController => drop(controller.send(ToController::Second)),
            Fault::Edit(ending, away) => drop(controller.send(ToController::Edit(ending, away))),
            Fault::PowerLoss(away) => drop(controller.send(ToController::PowerLoss(away))),
            Fault::ControllerClock(off_s) => drop(clock::set_off(SignedDuration::from_secs(off_s))),
            Fault::HeadClock(name, off_s) => world.machine(&name, |machine| {
                machine.clock_off = SignedDuration::from_secs(off_s)
            }),
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
