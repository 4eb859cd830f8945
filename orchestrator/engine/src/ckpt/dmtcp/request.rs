//! Requests a checkpoint, and waits until it is complete.

use super::{
    checkpoint::Checkpoint,
    coordinator::DmtcpClient,
    dmtcp_run::DmtcpRun,
    images::{AwaitedImages, ended_before, images, named, stable, written},
    install::{DmtcpLayout, Events, Status, has_event_log, parse_events},
};
use crate::{
    ckpt::moments::no_checkpoint,
    run::{RunFailure, Shepherd},
};
use camino::Utf8PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// Interval between checks of files and of the coordinator.
const TICK: Duration = Duration::from_millis(25);
/// Tolerance between cvc's clock and the coordinator's clock, which has milliseconds.
const CLOCK_SLACK: Duration = Duration::from_millis(500);
/// Time without a change after which an unexpected number of processes is accepted, if no rank is missing.
const PEERS_STABLE: Duration = Duration::from_secs(3);

/// Waits until every rank and launcher is connected to the coordinator and runs. Returns their number.
pub(super) async fn peers(
    of: &DmtcpRun<'_>,
    coordinator: &DmtcpClient<'_>,
    shepherd: &mut Shepherd,
    limit: Duration,
) -> Result<u32, RunFailure> {
    let begin = Instant::now();
    let mut last: Option<(u32, Instant)> = None;
    loop {
        let status = coordinator.status().await.answer();
        if let Some(Status {
            peers,
            running: true,
        }) = status
        {
            if peers == of.peers {
                return Ok(peers);
            }
            match last {
                Some((same, since)) if same == peers => {
                    if peers > of.run.point.processes() && since.elapsed() > PEERS_STABLE {
                        return Ok(peers);
                    }
                }
                _ => last = Some((peers, Instant::now())),
            }
        }
        if !shepherd.at_work() {
            return Err(no_checkpoint(
                "the program ended before its checkpoint: choose an earlier moment or a larger workload",
            ));
        }
        if begin.elapsed() > limit {
            let seen = status.map_or("no answer".into(), |s| {
                format!("{} peers, running: {}", s.peers, s.running)
            });
            return Err(no_checkpoint(format!(
                "DMTCP's coordinator expected {} peers and saw {seen}",
                of.peers
            )));
        }
        tokio::time::sleep(TICK).await;
    }
}

fn event_logs(layout: &DmtcpLayout) -> Vec<Utf8PathBuf> {
    let mut logs: Vec<Utf8PathBuf> = layout
        .kvdir
        .read_dir_utf8()
        .map(|entries| entries.flatten().map(|e| e.into_path()).collect())
        .unwrap_or_default();
    logs.retain(|p| {
        p.file_name()
            .is_some_and(|n| n.starts_with("dmtcp_coordinator_db") && n.ends_with(".json"))
    });
    logs.sort();
    logs
}

/// Renames the event logs of an earlier coordinator, because the next coordinator numbers its logs from the beginning.
pub(super) fn set_earlier_logs_aside(layout: &DmtcpLayout) {
    for log in event_logs(layout) {
        let aside = Utf8PathBuf::from(format!("{log}.earlier"));
        // a log that cannot be renamed is at worst recognized as an earlier one
        let _ = std::fs::rename(&log, aside);
    }
}

fn modified(path: &camino::Utf8Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|m| m.modified()).ok()
}

/// Requests a checkpoint and waits until it is complete. With `later`, the images are not read until the program has ended.
pub(super) async fn take(
    of: &DmtcpRun<'_>,
    coordinator: &DmtcpClient<'_>,
    shepherd: &mut Shepherd,
    number: u32,
    peers: u32,
    limit: Duration,
    later: bool,
) -> Result<Checkpoint, RunFailure> {
    let request = CheckpointRequest::new(of, coordinator, number, limit);
    let mut awaited = AwaitedImages::of_ranks(of, number);
    if of.is_forked() {
        awaited.count = peers as usize;
        awaited.before = named(of).await?.1;
    }
    let asked = of.printed();
    coordinator.say("-c").await?;
    let events = request.wait_until_complete(shepherd).await?;
    let whole = of.printed();
    let begin = request.begin;
    let dirs = if later {
        stable(of, &awaited, begin, limit, || !shepherd.at_work()).await?;
        Vec::new()
    } else {
        images(of, &awaited, begin, limit, || !shepherd.at_work()).await?
    };
    let (stored, named) = named(of).await?;
    let written = written(of, &named).await;
    let last_write = stored.last_change.unwrap_or(request.begin_clock);
    let request_to_stored_s = last_write
        .duration_since(request.begin_clock)
        .unwrap_or_default()
        .as_secs_f64();
    let timestamp = |time: SystemTime| {
        jiff::Timestamp::try_from(time).map_err(|e| no_checkpoint(e.to_string()))
    };
    let last_write = timestamp(last_write)?;
    let requested = timestamp(request.begin_clock)?;
    Ok(Checkpoint {
        number,
        events,
        request_to_stored_s,
        requested,
        last_write,
        written,
        dirs,
        peers,
        asked,
        whole,
        script: of.restart_script(),
        named,
        at_s: 0.0,
    })
}

/// A requested checkpoint, and the state before the request.
struct CheckpointRequest<'a> {
    of: &'a DmtcpRun<'a>,
    coordinator: &'a DmtcpClient<'a>,
    number: u32,
    limit: Duration,
    /// Event logs of earlier checkpoints.
    known: Vec<Utf8PathBuf>,
    /// Time of the restart script's last change.
    script_written: Option<SystemTime>,
    begin: Instant,
    begin_clock: SystemTime,
}

/// Relation of an event log to the requested checkpoint.
#[derive(Debug, PartialEq, Eq)]
enum LogOf {
    /// The log of the requested checkpoint.
    This,
    /// The log of an earlier checkpoint.
    Earlier,
    /// A log whose times are impossible: the coordinator's clock differs from cvc's.
    OtherClock,
}

/// Classifies a log that begins at `start`, for a checkpoint requested at `asked` with this time limit.
fn classify_log(start: SystemTime, asked: SystemTime, limit: Duration) -> LogOf {
    if start + CLOCK_SLACK < asked {
        LogOf::Earlier
    } else if start > asked + limit {
        LogOf::OtherClock
    } else {
        LogOf::This
    }
}

impl<'a> CheckpointRequest<'a> {
    /// Records the state before the request.
    fn new(
        of: &'a DmtcpRun<'a>,
        coordinator: &'a DmtcpClient<'a>,
        number: u32,
        limit: Duration,
    ) -> Self {
        Self {
            of,
            coordinator,
            number,
            limit,
            known: event_logs(&of.layout),
            script_written: modified(&of.restart_script()),
            begin: Instant::now(),
            begin_clock: SystemTime::now(),
        }
    }

    /// Waits until the checkpoint is complete. Returns its times, if the coordinator reports them. DMTCP's command returns immediately, so completion
    /// is detected by the coordinator's event log or, before DMTCP 4, by its restart script.
    async fn wait_until_complete(
        &self,
        shepherd: &mut Shepherd,
    ) -> Result<Option<Events>, RunFailure> {
        loop {
            if has_event_log(&self.of.install) {
                if let Some(events) = self.new_events()? {
                    return Ok(Some(events));
                }
            } else if modified(&self.of.restart_script())
                .is_some_and(|m| Some(m) != self.script_written)
            {
                return Ok(None);
            }
            if self.begin.elapsed() > self.limit {
                return Err(self.explain_delay().await);
            }
            if !shepherd.at_work() {
                return Err(ended_before(
                    self.number,
                    "DMTCP did not report that all processes had written theirs",
                ));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns the times of this checkpoint once its event log is complete.
    fn new_events(&self) -> Result<Option<Events>, RunFailure> {
        let new = event_logs(&self.of.layout)
            .into_iter()
            .rfind(|log| !self.known.contains(log));
        let text = new.and_then(|log| std::fs::read_to_string(log).ok());
        let Some(Ok(Some(events))) = text.map(|text| parse_events(&text)) else {
            return Ok(None);
        };
        match classify_log(SystemTime::from(events.start), self.begin_clock, self.limit) {
            LogOf::This => Ok(Some(events)),
            LogOf::Earlier => Ok(None),
            LogOf::OtherClock => Err(no_checkpoint(format!(
                "the clocks of DMTCP's coordinator and cvc differ: it began at {}, after the time limit",
                events.start
            ))),
        }
    }

    /// Returns the failure that the checkpoint was not complete in time. Stores the coordinator's answer about its processes with the run.
    async fn explain_delay(&self) -> RunFailure {
        let clients = self.coordinator.say("-l").await.unwrap_or_default();
        // stored with the run for later analysis
        let _ = std::fs::write(self.of.run.dir.join("dmtcp-clients.txt"), clients);
        no_checkpoint(format!(
            "checkpoint {} was not complete within {} s: see dmtcp-clients.txt and coordinator.log; raise checkpoint.timeout_s if the storage is slow",
            self.number,
            self.limit.as_secs_f64()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_belongs_to_the_checkpoint_requested_within_its_time() {
        let (asked, limit) = (
            SystemTime::UNIX_EPOCH + Duration::from_secs(1000),
            Duration::from_secs(60),
        );
        let of = |start: SystemTime| classify_log(start, asked, limit);
        assert_eq!(of(asked - Duration::from_secs(1)), LogOf::Earlier);
        assert_eq!(
            of(asked - CLOCK_SLACK),
            LogOf::This,
            "its clock may be a little behind"
        );
        assert_eq!(of(asked + limit), LogOf::This);
        assert_eq!(
            of(asked + limit + Duration::from_millis(1)),
            LogOf::OtherClock
        );
    }
}
