//! One run under DMTCP: waits until the program computes, requests checkpoints at the given moments, waits until each is complete, and
//! reads its images.

use super::{
    error::RunError,
    images::{ended_before, images, stable, stored},
    prepare::Prepared,
    run_failure::RunFailure,
    session_files::{keep_session_files, without_session_files},
    shepherd::Shepherd,
};
use crate::attempt::reporter::AttemptReporter;
use crate::{
    ckpt::Restart,
    ckpt::dmtcp::{DmtcpInstall, DmtcpLayout, Events, Status, parse_events, parse_status},
    host::{Host, HostError, LocalHost},
};
use camino::Utf8PathBuf;
use cvc_core::stop::{StopSignal, stop_now};
use cvc_core::{
    campaign::CheckpointSettings,
    outcome::Cause,
    point::{Compression, Moment},
};
use cvc_probe::image::CheckpointDir;
use regex::Regex;
use std::{
    collections::BTreeMap,
    io::{Read, Seek, SeekFrom},
    time::{Duration, Instant, SystemTime},
};

/// Delay between checks of files and states.
const TICK: Duration = Duration::from_millis(25);
/// Tolerance between the coordinator's clock, in milliseconds, and cvc's.
const CLOCK_SLACK: Duration = Duration::from_millis(500);
/// Maximum size of a line of output that is searched for a step, in bytes; of a longer one the end counts.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Time limit from a start until the coordinator's port is known.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a command to the coordinator.
const COMMAND_LIMIT: Duration = Duration::from_secs(20);
/// Time without a change after which an unexpected number of peers is accepted, if no rank is missing.
const PEERS_STABLE: Duration = Duration::from_secs(3);

/// A complete checkpoint.
#[derive(Debug)]
pub(super) struct Checkpoint {
    /// Number, from 1.
    pub number: u32,
    /// Times from the coordinator's log; `None` before DMTCP 4.
    pub events: Option<Events>,
    /// By cvc's clock: request to the last change of an image.
    pub request_to_stored_s: f64,
    /// Time of the last change of any image: with gzip, files grow for a moment after every process has reported.
    pub last_write: jiff::Timestamp,
    /// The stored images by node; read only after the program's end if reading would disturb the measurement.
    pub dirs: Vec<(String, CheckpointDir)>,
    /// Peers that the coordinator saw.
    pub peers: u32,
    /// What the program had printed when every process had reported its image.
    pub printed_bytes: u64,
}

/// There is no checkpoint.
fn no_checkpoint(detail: impl Into<String>) -> RunFailure {
    RunFailure::new(Cause::Checkpoint, detail)
}

/// Ends the ranks through the coordinator, which is faster for a program that ignores SIGTERM and prevents its clean-up.
pub(super) async fn kill(prepared: &Prepared) {
    let Some((install, layout)) = &prepared.dmtcp else { return };
    if let Ok(port) = std::fs::read_to_string(&layout.portfile) {
        // if the coordinator is gone, so are the ranks
        let _ = DmtcpClient { prepared, install, layout, port: port.trim().to_owned() }.say("-k").await;
    }
}

/// What a coordinator says of its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coordinator {
    /// Its answer.
    Answers(Status),
    /// There is none, or none any more.
    Gone,
    /// It did not answer in time.
    Late,
}

impl Coordinator {
    fn answer(self) -> Option<Status> {
        match self {
            Self::Answers(status) => Some(status),
            Self::Gone | Self::Late => None,
        }
    }
}

/// Asks the coordinator of a restart.
pub(super) async fn ask_restart(prepared: &Prepared) -> Coordinator {
    let Some((install, layout)) = &prepared.dmtcp else { return Coordinator::Gone };
    let layout = layout.of_restart();
    // it removes the file when it leaves
    let Ok(port) = std::fs::read_to_string(&layout.portfile) else { return Coordinator::Gone };
    DmtcpClient { prepared, install, layout: &layout, port: port.trim().to_owned() }.status().await
}

/// The result.
#[derive(Debug, Default)]
pub(super) struct Driven {
    pub checkpoints: Vec<Checkpoint>,
    pub failure: Option<RunFailure>,
    /// Why the run cannot be carried out.
    pub error: Option<RunError>,
    /// The user wants to stop at once.
    pub interrupted: bool,
}

/// Why no more checkpoints are taken.
enum Halt {
    /// The run has failed.
    Failure(RunFailure),
    /// It cannot be carried out.
    Error(RunError),
}

impl From<RunFailure> for Halt {
    fn from(failure: RunFailure) -> Self {
        Self::Failure(failure)
    }
}

/// Talks to the coordinator of one run.
struct DmtcpClient<'a> {
    prepared: &'a Prepared,
    install: &'a DmtcpInstall,
    layout: &'a DmtcpLayout,
    port: String,
}

impl DmtcpClient<'_> {
    async fn say(&self, letter: &str) -> Result<String, RunFailure> {
        self.ask(&[letter]).await
    }

    async fn ask(&self, words: &[&str]) -> Result<String, RunFailure> {
        self.command(words).await.map_err(|e| no_checkpoint(e.to_string()))
    }

    async fn command(&self, words: &[&str]) -> Result<String, HostError> {
        let mut argv = vec![self.install.program("dmtcp_command"), "-h".into(), "127.0.0.1".into(), "-p".into(), self.port.clone()];
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        let message = LocalHost.run(&argv, &BTreeMap::new(), COMMAND_LIMIT).await?;
        Ok(format!("{}\n{}", message.stdout, message.stderr))
    }

    async fn status(&self) -> Coordinator {
        let words: &[&str] = if self.install.has_json() { &["--json", "-s"] } else { &["-s"] };
        match self.command(words).await {
            Ok(answer) => parse_status(&answer).map_or(Coordinator::Gone, Coordinator::Answers),
            Err(HostError::Timeout { .. }) => Coordinator::Late,
            Err(_) => Coordinator::Gone,
        }
    }
}

/// Takes the checkpoints of a run. Ends early when the run does.
pub(super) async fn drive(
    prepared: &Prepared,
    settings: &CheckpointSettings,
    shepherd: &mut Shepherd,
    stop_signal: &mut StopSignal,
    reporter: &AttemptReporter,
) -> Driven {
    let mut driven = Driven::default();
    let Some((install, layout)) = &prepared.dmtcp else { return driven };
    let everywhere = prepared.used.everywhere();
    let work = take_all(prepared, settings, install, layout, shepherd, &mut driven.checkpoints, reporter);
    let mut stop_signal = stop_signal.clone();
    tokio::select! {
        result = work => match result {
            Ok(()) => {}
            Err(Halt::Failure(failure)) => driven.failure = Some(failure),
            Err(Halt::Error(error)) => driven.error = Some(error),
        },
        (node, reason) = prepared.used.crew.wait_lost(&everywhere) => {
            driven.failure = Some(RunFailure::new(Cause::NodeLost, format!("{node}: {reason}")));
        }
        () = stop_now(&mut stop_signal) => driven.interrupted = true,
    }
    driven
}

async fn take_all(
    prepared: &Prepared,
    settings: &CheckpointSettings,
    install: &DmtcpInstall,
    layout: &DmtcpLayout,
    shepherd: &mut Shepherd,
    taken: &mut Vec<Checkpoint>,
    reporter: &AttemptReporter,
) -> Result<(), Halt> {
    let mut watch = Output::new(prepared)?;
    let port = port(layout, shepherd).await?;
    let coordinator = DmtcpClient { prepared, install, layout, port };
    let goes_on = !settings.moment.kills() && !settings.restart_check;
    let restarts = prepared.checkpointer.course(settings).restart == Restart::Images;
    // a checkpoint before the program computes would only show its start
    watch.until(shepherd, "it computed (its first output)", |w| w.computes()).await?;
    let begin = Instant::now();
    let moments: Vec<f64> = match &settings.moment {
        Moment::AtS(seconds) => seconds.clone(),
        Moment::AfterStep(step) | Moment::SizeOnlyAfterStep(step) => {
            let wanted = *step;
            watch.until(shepherd, &format!("step {wanted}"), |w| w.has_done(wanted)).await?;
            vec![0.0]
        }
        Moment::SizeOnly => {
            watch.until(shepherd, "its first step", |w| w.has_done(1)).await?;
            vec![0.0]
        }
    };
    let last = u32::try_from(moments.len()).unwrap_or(u32::MAX);
    for (number, at_s) in (1u32..).zip(moments) {
        let at = begin + Duration::from_secs_f64(at_s);
        while Instant::now() < at {
            if !shepherd.at_work() {
                let detail = format!("the program ended before its checkpoint at {at_s} s: choose an earlier moment or a larger workload");
                return Err(no_checkpoint(detail).into());
            }
            tokio::time::sleep(TICK.min(at.saturating_duration_since(Instant::now()))).await;
        }
        reporter.stage(&format!("checkpoint {number}"));
        let limit = Duration::from_secs_f64(settings.timeout_s);
        let peers = peers(&coordinator, shepherd, limit).await?;
        // decompressing images takes cores from the program: the last ones can wait until it has ended
        let later = number == last && goes_on && prepared.point.compression == Compression::Gzip;
        if number == last && restarts {
            // now, while they are there for sure: the program may end as soon as it has been checkpointed, and the MPI library with it
            if let Err(error) = keep_session_files(prepared).await {
                return Err(without_session_files(prepared, &error).map_or(Halt::Error(error), Halt::Failure));
            }
        }
        taken.push(take(&coordinator, shepherd, number, peers, limit, later).await?);
    }
    Ok(())
}

async fn port(layout: &DmtcpLayout, shepherd: &mut Shepherd) -> Result<String, RunFailure> {
    let begin = Instant::now();
    loop {
        if let Ok(text) = std::fs::read_to_string(&layout.portfile)
            && text.trim().parse::<u16>().is_ok()
        {
            return Ok(text.trim().to_owned());
        }
        if !shepherd.at_work() {
            return Err(no_checkpoint("the run ended before DMTCP's coordinator was there: see coordinator.out"));
        }
        if begin.elapsed() > START_LIMIT {
            return Err(no_checkpoint(format!("DMTCP's coordinator did not report its port within {} s", START_LIMIT.as_secs())));
        }
        tokio::time::sleep(TICK).await;
    }
}

/// Waits until every rank and launcher takes part and runs.
async fn peers(coordinator: &DmtcpClient<'_>, shepherd: &mut Shepherd, limit: Duration) -> Result<u32, RunFailure> {
    let prepared = coordinator.prepared;
    let begin = Instant::now();
    let mut last: Option<(u32, Instant)> = None;
    loop {
        let status = coordinator.status().await.answer();
        if let Some(Status { peers, running: true }) = status {
            if peers == prepared.peers {
                return Ok(peers);
            }
            match last {
                Some((same, since)) if same == peers => {
                    if peers > prepared.point.processes() && since.elapsed() > PEERS_STABLE {
                        return Ok(peers);
                    }
                }
                _ => last = Some((peers, Instant::now())),
            }
        }
        if !shepherd.at_work() {
            return Err(no_checkpoint("the program ended before its checkpoint: choose an earlier moment or a larger workload"));
        }
        if begin.elapsed() > limit {
            let seen = status.map_or("no answer".into(), |s| format!("{} peers, running: {}", s.peers, s.running));
            return Err(no_checkpoint(format!("DMTCP's coordinator expected {} peers and saw {seen}", prepared.peers)));
        }
        tokio::time::sleep(TICK).await;
    }
}

fn event_logs(layout: &DmtcpLayout) -> Vec<Utf8PathBuf> {
    let mut logs: Vec<Utf8PathBuf> =
        layout.kvdir.read_dir_utf8().map(|entries| entries.flatten().map(|e| e.into_path()).collect()).unwrap_or_default();
    logs.retain(|p| p.file_name().is_some_and(|n| n.starts_with("dmtcp_coordinator_db") && n.ends_with(".json")));
    logs.sort();
    logs
}

fn modified(path: &camino::Utf8Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|m| m.modified()).ok()
}

/// Asks for a checkpoint and waits until it is whole. With `later`, its images are read when the program has ended.
async fn take(
    coordinator: &DmtcpClient<'_>,
    shepherd: &mut Shepherd,
    number: u32,
    peers: u32,
    limit: Duration,
    later: bool,
) -> Result<Checkpoint, RunFailure> {
    let (prepared, layout) = (coordinator.prepared, coordinator.layout);
    let request = CheckpointRequest::new(coordinator, number, limit);
    coordinator.say("-c").await?;
    let events = request.wait_until_whole(shepherd).await?;
    let printed_bytes = std::fs::metadata(prepared.dir.join("stdout")).map_or(0, |file| file.len());
    let begin = request.begin;
    let dirs = if later {
        stable(prepared, layout, number, begin, limit, || !shepherd.at_work()).await?;
        Vec::new()
    } else {
        images(prepared, layout, number, begin, limit, || !shepherd.at_work()).await?
    };
    let last_write = stored(prepared, layout).await?.last_change.unwrap_or(request.begin_clock);
    let request_to_stored_s = last_write.duration_since(request.begin_clock).unwrap_or_default().as_secs_f64();
    let last_write = jiff::Timestamp::try_from(last_write).map_err(|e| no_checkpoint(e.to_string()))?;
    Ok(Checkpoint { number, events, request_to_stored_s, last_write, dirs, peers, printed_bytes })
}

/// A checkpoint that is asked for, and what there was before.
struct CheckpointRequest<'a> {
    coordinator: &'a DmtcpClient<'a>,
    number: u32,
    limit: Duration,
    /// Event logs of earlier checkpoints.
    known: Vec<Utf8PathBuf>,
    /// When the restart script was last written.
    script_written: Option<SystemTime>,
    begin: Instant,
    begin_clock: SystemTime,
}

/// What an event log is to the checkpoint that was asked for.
#[derive(Debug, PartialEq, Eq)]
enum LogOf {
    /// It is the log of it.
    This,
    /// It is still the log of an earlier one.
    Earlier,
    /// It cannot be: the coordinator has another clock than cvc.
    OtherClock,
}

/// Whose log it is that begins at `start`, when the checkpoint was asked for at `asked` and had this time limit.
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
    /// Takes note of what there is before the request.
    fn new(coordinator: &'a DmtcpClient<'a>, number: u32, limit: Duration) -> Self {
        Self {
            coordinator,
            number,
            limit,
            known: event_logs(coordinator.layout),
            script_written: modified(&restart_script(coordinator.layout)),
            begin: Instant::now(),
            begin_clock: SystemTime::now(),
        }
    }

    /// Waits until the checkpoint is whole; its times, if the coordinator tells them. The command returns at once: the coordinator's event
    /// log, or before DMTCP 4 its restart script, says it.
    async fn wait_until_whole(&self, shepherd: &mut Shepherd) -> Result<Option<Events>, RunFailure> {
        loop {
            if self.coordinator.install.has_event_log() {
                if let Some(events) = self.new_events()? {
                    return Ok(Some(events));
                }
            } else if modified(&restart_script(self.coordinator.layout)).is_some_and(|m| Some(m) != self.script_written) {
                return Ok(None);
            }
            if self.begin.elapsed() > self.limit {
                return Err(self.explain_delay().await);
            }
            if !shepherd.at_work() {
                return Err(ended_before(self.number, "DMTCP did not report that all processes had written theirs"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The times of this checkpoint, once its event log is whole.
    fn new_events(&self) -> Result<Option<Events>, RunFailure> {
        let new = event_logs(self.coordinator.layout).into_iter().rfind(|log| !self.known.contains(log));
        let text = new.and_then(|log| std::fs::read_to_string(log).ok());
        let Some(Ok(Some(events))) = text.map(|text| parse_events(&text)) else { return Ok(None) };
        match classify_log(SystemTime::from(events.start), self.begin_clock, self.limit) {
            LogOf::This => Ok(Some(events)),
            LogOf::Earlier => Ok(None),
            LogOf::OtherClock => Err(no_checkpoint(format!(
                "the clocks of DMTCP's coordinator and cvc differ: it began at {}, after the time limit",
                events.start
            ))),
        }
    }

    /// It was not whole in time: what the coordinator says of its clients is kept beside the run.
    async fn explain_delay(&self) -> RunFailure {
        let clients = self.coordinator.say("-l").await.unwrap_or_default();
        // it is in the log for whoever looks for the reason
        let _ = std::fs::write(self.coordinator.prepared.dir.join("dmtcp-clients.txt"), clients);
        no_checkpoint(format!(
            "checkpoint {} was not whole within {} s: see dmtcp-clients.txt and coordinator.log; raise checkpoint.timeout_s if the storage is slow",
            self.number,
            self.limit.as_secs_f64()
        ))
    }
}

/// The script that DMTCP writes with each checkpoint.
fn restart_script(layout: &DmtcpLayout) -> Utf8PathBuf {
    layout.ckptdir.join("dmtcp_restart_script.sh")
}

/// Reads the images of a checkpoint that was left for later.
pub(super) async fn read_rest(prepared: &Prepared, driven: &mut Driven) {
    let Some((_, layout)) = &prepared.dmtcp else { return };
    for checkpoint in driven.checkpoints.iter_mut().filter(|c| c.dirs.is_empty()) {
        match images(prepared, layout, checkpoint.number, Instant::now(), Duration::from_secs(60), || true).await {
            Ok(dirs) => checkpoint.dirs = dirs,
            Err(why) => driven.failure = Some(why),
        }
    }
}

/// The program's output as it grows: only what is new is read.
struct Output {
    path: Utf8PathBuf,
    step: Option<Regex>,
    limit: Duration,
    offset: u64,
    /// The beginning of the last line.
    line: Vec<u8>,
    last_step: Option<u64>,
    spoke: bool,
}

impl Output {
    fn new(prepared: &Prepared) -> Result<Self, RunFailure> {
        let step = prepared.app.progress.as_ref().map(|p| Regex::new(&format!("(?m){}", p.step))).transpose();
        Ok(Self {
            path: prepared.dir.join("stdout"),
            step: step.map_err(|e| no_checkpoint(format!("progress.step: {e}")))?,
            limit: Duration::from_secs_f64(prepared.job.timeout_s),
            offset: 0,
            line: Vec::new(),
            last_step: None,
            spoke: false,
        })
    }

    /// Reads what is new. An incomplete line is checked too, and again when it is longer.
    fn read_new(&mut self) {
        let mut new = Vec::new();
        let read = std::fs::File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            // a program that floods its output is read in pieces
            file.take(4 << 20).read_to_end(&mut new)
        });
        // the file appears when the program is started
        let Ok(count) = read else { return };
        self.offset += count as u64;
        self.line.extend_from_slice(&new);
        // a progress bar ends its lines with carriage returns
        let text = String::from_utf8_lossy(&self.line).replace('\r', "\n");
        self.spoke |= !text.trim().is_empty();
        if let Some(step) = &self.step {
            let seen = step.captures_iter(&text).filter_map(|c| c.get(1)?.as_str().parse().ok()).max();
            self.last_step = self.last_step.max(seen);
        }
        let whole = self.line.iter().rposition(|b| matches!(b, b'\n' | b'\r')).map_or(0, |at| at + 1);
        self.line.drain(..whole.max(self.line.len().saturating_sub(MAX_LINE_BYTES)));
    }

    /// Its first step, or where it does not tell steps, its first output.
    fn computes(&self) -> bool {
        if self.step.is_some() { self.last_step.is_some() } else { self.spoke }
    }

    fn has_done(&self, step: u64) -> bool {
        if self.step.is_some() { self.last_step.is_some_and(|last| last >= step) } else { step <= 1 && self.computes() }
    }

    async fn until(&mut self, shepherd: &mut Shepherd, what: &str, there: impl Fn(&Self) -> bool) -> Result<(), RunFailure> {
        let begin = Instant::now();
        loop {
            self.read_new();
            if there(self) {
                return Ok(());
            }
            if !shepherd.at_work() {
                return Err(no_checkpoint(format!("the program ended before {what}: choose an earlier moment or a larger workload")));
            }
            if begin.elapsed() > self.limit {
                return Err(RunFailure::new(Cause::Timeout, format!("{what} did not happen in time")));
            }
            tokio::time::sleep(TICK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_of_the_checkpoint_that_was_asked_for_within_its_time() {
        let (asked, limit) = (SystemTime::UNIX_EPOCH + Duration::from_secs(1000), Duration::from_secs(60));
        let of = |start: SystemTime| classify_log(start, asked, limit);
        assert_eq!(of(asked - Duration::from_secs(1)), LogOf::Earlier);
        assert_eq!(of(asked - CLOCK_SLACK), LogOf::This, "its clock may be a little behind");
        assert_eq!(of(asked + limit), LogOf::This);
        assert_eq!(of(asked + limit + Duration::from_millis(1)), LogOf::OtherClock);
    }

    /// A reader of a file that a program writes.
    fn output(path: &camino::Utf8Path, step: &str) -> Output {
        Output {
            path: path.to_owned(),
            step: Some(Regex::new(&format!("(?m){step}")).expect("a pattern")),
            limit: Duration::from_secs(1),
            offset: 0,
            line: Vec::new(),
            last_step: None,
            spoke: false,
        }
    }

    #[test]
    fn output_without_line_feeds_is_read_without_being_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().join("stdout")).expect("UTF-8");
        let mut read = output(&path, r"step (\d+)");
        std::fs::write(&path, "x".repeat(3 << 20)).expect("writes");
        read.read_new();
        assert!(read.line.len() <= MAX_LINE_BYTES, "{}", read.line.len());
        // a step that comes in two pieces
        let mut text = "x".repeat(3 << 20) + "step 1";
        std::fs::write(&path, &text).expect("writes");
        read.read_new();
        text += "7 ";
        std::fs::write(&path, &text).expect("writes");
        read.read_new();
        assert_eq!(read.last_step, Some(17));
    }

    #[test]
    fn a_progress_bar_ends_its_lines_with_carriage_returns() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().join("stdout")).expect("UTF-8");
        let mut read = output(&path, r"^step (\d+)$");
        std::fs::write(&path, "step 1\rstep 2\rste").expect("writes");
        read.read_new();
        assert_eq!((read.last_step, read.line.as_slice()), (Some(2), &b"ste"[..]));
    }
}
