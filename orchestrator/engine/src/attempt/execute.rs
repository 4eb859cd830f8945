//! One run from its start to its outcome.

use super::{
    collect,
    dmtcp::{self, Driven},
    error::RunError,
    evidence,
    executed::{Executed, interrupted},
    judge::Evidence,
    outputs, placement,
    prepare::Prepared,
    restart::{self, Restarted},
    shepherd::Shepherd,
};
use crate::attempt::{
    context::SiteContext,
    reporter::{AttemptEvent, AttemptReporter},
};
use crate::transport::Transport;
use cvc_core::stop::{StopSignal, stop_now};
use cvc_core::{outcome::Cause, point::CheckpointerKind};

/// Starts the run, takes its checkpoints, waits for its end, gathers the evidence. The shepherd's process is told as soon as it is known.
pub(super) async fn execute(
    context: &SiteContext,
    prepared: &Prepared,
    shepherd_program: &[String],
    stop_signal: &mut StopSignal,
    reporter: &AttemptReporter,
) -> Result<Executed, RunError> {
    let mut shepherd = Shepherd::start(shepherd_program, &prepared.job, &prepared.dir.join("job.json")).await?;
    reporter.tell(AttemptEvent::Started(shepherd.id));
    let mut driven = Driven::default();
    let under_dmtcp = prepared.point.checkpointer == CheckpointerKind::Dmtcp;
    if under_dmtcp {
        driven = dmtcp::drive(prepared, &context.checkpoint, &mut shepherd, stop_signal, reporter).await;
    }
    let restart_from_images = under_dmtcp && context.checkpoint.restart_check && driven.failure.is_none();
    let kill = driven.failure.is_some() || restart_from_images || (under_dmtcp && context.checkpoint.moment.kills());
    let mut exit = None;
    let mut cut_off = None;
    if !driven.interrupted {
        if kill {
            if restart_from_images {
                restart::keep_session_files(prepared).await?;
            }
            dmtcp::kill(prepared).await;
            // what already ended by itself tells why there was no checkpoint: its own exit is kept
            exit = shepherd.end().await;
            if let (true, Some(last)) = (restart_from_images, driven.checkpoints.last()) {
                restart::forget_saved_files(prepared, last).await;
            }
        } else {
            let used = &prepared.used;
            let misplaced = placement::watch(prepared);
            tokio::pin!(misplaced);
            let everywhere = used.everywhere();
            let why = tokio::select! {
                ended = shepherd.exit() => {
                    exit = ended;
                    None
                }
                (node, reason) = used.crew.wait_lost(&everywhere) => Some((Cause::NodeLost, format!("{node}: {reason}"))),
                wrong = &mut misplaced => Some((Cause::Misplaced, wrong)),
                () = stop_now(stop_signal) => {
                    driven.interrupted = true;
                    None
                }
            };
            if why.is_some() {
                // launchers may wait for ever for a node that is gone: its ranks are ended everywhere, and then the launcher
                let (_, ended) = tokio::join!(used.end_others(), shepherd.end());
                exit = ended;
                cut_off = why;
            }
        }
    }
    if driven.interrupted {
        tokio::join!(prepared.used.end_others(), shepherd.end());
        return Ok(interrupted());
    }
    prepared.used.end_others().await;
    // ranks may not have come to a node because no new connection to it is possible, though its sentinel is still heard
    let own_end = exit.as_ref().is_some_and(|e| e.ended_by.is_none() && e.code != Some(0));
    if cut_off.is_none()
        && own_end
        && prepared.used.transport == Transport::Ssh
        && let Some(refused) = prepared.used.crew.knock(&prepared.used.others()).await.first()
    {
        let detail = format!("{} cannot be reached from {}: {}", refused.host, prepared.used.head.name, refused.reason());
        cut_off = Some((Cause::NodeLost, detail));
    }
    if cut_off.is_none()
        && let Err(wrong) = placement::check(prepared).await
    {
        cut_off = Some(wrong);
    }
    let wall_s = exit.as_ref().map_or(0.0, |e| e.wall_s);
    let mut restarted = None;
    let own_restart = context.checkpoint.restart_check && prepared.point.checkpointer == CheckpointerKind::Application;
    let job = if let (true, Some(last)) = (restart_from_images && driven.failure.is_none(), driven.checkpoints.last()) {
        match restart::by_node(prepared, last) {
            Ok(nodes) => Some(prepared.dmtcp_restart_job(nodes)?),
            Err((cause, detail)) => {
                driven.failure = Some(dmtcp::NoCheckpoint { cause, detail });
                None
            }
        }
    } else if own_restart && exit.as_ref().is_some_and(|e| e.code == Some(0)) {
        prepared.own_restart_job()?
    } else {
        None
    };
    if let Some(job) = job {
        reporter.stage("restart");
        restart::restore_session_files(prepared).await?;
        let mut second = Shepherd::start(shepherd_program, &job, &prepared.dir.join("restart.job.json")).await?;
        let everywhere = prepared.used.everywhere();
        let ended = tokio::select! {
            ended = second.exit() => ended,
            (node, reason) = prepared.used.crew.wait_lost(&everywhere) => {
                // what was restarted waits for the ranks of that node, perhaps for ever
                let (_, ended) = tokio::join!(prepared.used.end_others(), second.end());
                cut_off.get_or_insert((Cause::NodeLost, format!("{node}: {reason}")));
                ended
            }
            () = stop_now(stop_signal) => {
                tokio::join!(prepared.used.end_others(), second.end());
                return Ok(interrupted());
            }
        };
        prepared.used.end_others().await;
        let text = |name: &str| evidence::text(&prepared.dir.join(name));
        restarted = Some(Restarted { exit: ended, stdout: text("restart.stdout"), stderr: text("restart.stderr") });
    }
    reporter.stage("collecting");
    dmtcp::read_rest(prepared, &mut driven).await;
    let shepherd_lost = exit.is_none() || restarted.as_ref().is_some_and(|r| r.exit.is_none());
    let own = collect::own_files(prepared).await?;
    let outputs = outputs::look(prepared).await?;
    let evidence = Evidence { prepared, context, exit, driven: &driven, restarted: restarted.as_ref(), cut_off, own, outputs };
    let (outcome, records, facts) = collect::collect(&evidence)?;
    Ok(Executed { outcome, records, facts, wall_s, interrupted: false, shepherd_lost })
}
