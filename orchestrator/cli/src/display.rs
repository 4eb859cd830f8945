//! Shows the progress of a campaign: a bar on a terminal, otherwise lines, or JSON events if requested.

use crate::{
    output::{self, emit_json, note},
    text::{paragraph, shown},
};
use cvc_controller::observe::{Observer, SessionProgress};
use cvc_core::ids::RunId;
use cvc_core::outcome::Outcome;
use cvc_core::units::counted;
pub use cvc_core::units::duration;
pub use cvc_session::Varying;
use cvc_sites::install::{InstallEvent, TaskResult};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Returns the observer for the requested form of output.
pub fn observer(json: bool, varying: Varying, expected_s: f64) -> Box<dyn Observer> {
    let shown: Box<dyn Observer> = if json {
        Box::new(Json)
    } else if output::is_stderr_terminal() {
        Box::new(BarDisplay::new(varying, expected_s))
    } else {
        Box::new(Lines {
            varying,
            under_way: UnderWay::default(),
            number: 0,
            total: 0,
            pace: RemainingTime::new(expected_s),
        })
    };
    Box::new(Logged(shown))
}

/// Observer that copies all messages to the log.
struct Logged(Box<dyn Observer>);

impl Observer for Logged {
    fn on(&mut self, progress: &SessionProgress) {
        let what = serde_json::to_string(progress).unwrap_or_default();
        match progress {
            SessionProgress::RunFinished {
                outcome: Outcome::Failed { cause, detail },
                run,
                ..
            } => {
                tracing::warn!(%run, ?cause, detail, "run failed");
            }
            SessionProgress::Stage { .. } => tracing::debug!("{what}"),
            _ => tracing::info!("{what}"),
        }
        self.0.on(progress);
    }
}

/// Observer that prints each event as a JSON object to standard output.
struct Json;

impl Observer for Json {
    fn on(&mut self, progress: &SessionProgress) {
        if let Ok(line) = serde_json::to_string(progress) {
            emit_json(line);
        }
    }
}

/// Estimates the remaining time: at first from the plan, later from the runs that have ended.
struct RemainingTime {
    expected_s: f64,
    runs: u64,
    began: Instant,
    done_here: u64,
    left: u64,
}

impl RemainingTime {
    fn new(expected_s: f64) -> Self {
        Self {
            expected_s,
            runs: 0,
            began: Instant::now(),
            done_here: 0,
            left: 0,
        }
    }

    fn on(&mut self, progress: &SessionProgress) {
        match progress {
            SessionProgress::Started { runs, done } => {
                (self.runs, self.left, self.began) =
                    (*runs, runs.saturating_sub(*done), Instant::now());
            }
            SessionProgress::RunFinished { retry: false, .. } => {
                self.done_here += 1;
                self.left = self.left.saturating_sub(1);
            }
            SessionProgress::Quarantined { skipped: gone, .. }
            | SessionProgress::Decided {
                not_needed: gone, ..
            } => {
                self.left = self.left.saturating_sub(*gone);
            }
            _ => {}
        }
    }

    fn left_s(&self) -> f64 {
        let planned = if self.runs == 0 {
            0.0
        } else {
            self.expected_s / self.runs as f64
        };
        let seen = if self.done_here == 0 {
            planned
        } else {
            self.began.elapsed().as_secs_f64() / self.done_here as f64
        };
        seen * self.left as f64
    }
}

/// Describes how a run ended; for a failed run, a second line names the file with its output. `None` for other events.
fn outcome(progress: &SessionProgress) -> Option<String> {
    let SessionProgress::RunFinished {
        outcome,
        wall_s,
        retry,
        not_again,
        output,
        ..
    } = progress
    else {
        return None;
    };
    Some(match outcome {
        Outcome::Succeeded => format!("ok, {}", duration(*wall_s)),
        Outcome::Failed { cause, detail } => {
            let cause = serde_json::to_value(cause)
                .ok()
                .and_then(|v| v.as_str().map(str::to_owned))
                .unwrap_or_default();
            let next = match not_again {
                Some(why) => format!("; {why}"),
                None if *retry => "; trying again".to_owned(),
                None => String::new(),
            };
            let output = output
                .as_ref()
                .map(|file| format!("\n  output: {}", shown(file)))
                .unwrap_or_default();
            format!("FAILED ({cause}): {detail}{next}{output}")
        }
    })
}

/// Short descriptions of the runs in progress.
#[derive(Default)]
struct UnderWay(HashMap<RunId, String>);

impl UnderWay {
    /// Records the start of a run; returns its description, or `None` for other events.
    fn begin(&mut self, progress: &SessionProgress, varying: &Varying) -> Option<String> {
        let SessionProgress::RunStarted {
            run,
            point,
            repeat: r,
            attempt,
            ..
        } = progress
        else {
            return None;
        };
        let again = if *attempt > 1 {
            format!(", attempt {attempt}")
        } else {
            String::new()
        };
        let words = format!("{}, {}{again}", varying.show(point), r);
        self.0.insert(run.clone(), words.clone());
        Some(words)
    }

    /// Removes a run that has ended and returns its description, or its identifier if its start was not reported.
    fn end(&mut self, run: &RunId) -> String {
        self.0.remove(run).unwrap_or_else(|| format!("run {run}"))
    }
}

/// Returns a line for an event of an installation; only changes and failures have one.
fn install_line(event: &InstallEvent) -> Option<String> {
    Some(match event {
        InstallEvent::Preparing { what } => format!("preparing: {what}"),
        InstallEvent::Started { site, hosts, check } => {
            let what = if *check {
                "checking the installation on"
            } else {
                "installing on"
            };
            format!("{what} site {site}: {}", hosts.join(", "))
        }
        InstallEvent::Host {
            host,
            task,
            result,
            detail,
        } => match result {
            TaskResult::Ok => return None,
            TaskResult::Changed => format!("  {host}: {task}: changed"),
            TaskResult::Caught => {
                format!("  {host}: {task}: not available ({detail}); trying another way")
            }
            TaskResult::Failed => format!("  {host}: {task}: FAILED: {detail}"),
            TaskResult::Unreachable => format!("  {host}: {task}: UNREACHABLE: {detail}"),
        },
        InstallEvent::Ended { site, hosts } => {
            let done = hosts.values().filter(|h| h.is_done()).count();
            let changed: u32 = hosts.values().map(|h| h.changed).sum();
            format!(
                "site {site}: {done} of {} done, {}",
                counted(hosts.len(), "host"),
                counted(changed, "change")
            )
        }
        InstallEvent::Task { .. } => return None,
    })
}

/// Returns the line for an event that needs no bar: without a terminal it is printed, with a terminal it is printed above the bar. Returns `None` for
/// other events.
fn line(progress: &SessionProgress, varying: &Varying) -> Option<String> {
    Some(match progress {
        SessionProgress::Preparing { what } => format!("preparing: {what}"),
        SessionProgress::Site { what } => what.clone(),
        SessionProgress::RunLost { run, reason } => {
            format!("run {run} is lost and will be repeated: {reason}")
        }
        SessionProgress::Install(event) => return install_line(event),
        SessionProgress::Skipped {
            reason,
            points,
            runs,
        } => {
            let shown: Vec<String> = points.iter().take(3).map(|p| varying.show(p)).collect();
            let more = if points.len() > 3 {
                format!(", and {} more points", points.len() - 3)
            } else {
                String::new()
            };
            format!(
                "skipped, {}: {reason}\n  ({}{more})",
                counted(runs, "run"),
                shown.join(", ")
            )
        }
        SessionProgress::Recovered { run, ended, kept } => {
            let what = if *kept {
                "its complete results are kept"
            } else {
                "it will be repeated"
            };
            format!("run {run} was interrupted: {ended} processes ended, {what}")
        }
        SessionProgress::Missing { runs } => match runs.as_slice() {
            [run] => {
                format!("run {run} succeeded, but its directory is missing: it will be repeated")
            }
            [first, ..] => format!(
                "{} succeeded, but their directories are missing ({first}, ...): they will be repeated",
                counted(runs.len(), "run")
            ),
            [] => String::new(),
        },
        SessionProgress::TakenIn { runs } => format!(
            "{} missing in the journal: their results are complete and are kept",
            counted(runs.len(), "finished run")
        ),
        SessionProgress::Quarantined { point, skipped } => format!(
            "point {point} failed too often: {} skipped",
            counted(*skipped, "run")
        ),
        SessionProgress::Decided {
            point,
            reason,
            not_needed: 0,
        } => format!("point {point}: {reason}"),
        SessionProgress::Decided {
            point,
            reason,
            not_needed,
        } => format!(
            "point {point}: {reason}; {} not needed",
            counted(*not_needed, "run")
        ),
        SessionProgress::FailedAlike {
            site,
            points,
            attempts,
            left,
            ..
        } => format!(
            "site {site} starts no more runs: {} at {} failed in the same way, and none has succeeded; {} {} not started",
            counted(attempts, "attempt"),
            counted(points, "point"),
            counted(left, "run"),
            if *left == 1 { "is" } else { "are" }
        ),
        SessionProgress::Stopping { now: false } => {
            "stopping after the current run; Ctrl-C again stops immediately".into()
        }
        SessionProgress::Stopping { now: true } => "stopping now".into(),
        SessionProgress::Ended {
            succeeded,
            failed,
            skipped,
            left,
        } => format!(
            "{} succeeded, {failed} failed, {skipped} skipped, {left} left",
            counted(succeeded, "run")
        ),
        SessionProgress::Started { .. }
        | SessionProgress::RunStarted { .. }
        | SessionProgress::Stage { .. }
        | SessionProgress::RunFinished { .. } => return None,
    })
}

/// Observer that prints plain lines to standard error.
struct Lines {
    varying: Varying,
    under_way: UnderWay,
    number: u64,
    total: u64,
    pace: RemainingTime,
}

impl Observer for Lines {
    fn on(&mut self, progress: &SessionProgress) {
        self.pace.on(progress);
        match progress {
            SessionProgress::Started { runs, done } => {
                (self.total, self.number) = (*runs, *done);
                let about = duration(self.pace.left_s());
                match done {
                    _ if done >= runs => note(format_args!(
                        "nothing left to do: {} done",
                        counted(done, "run")
                    )),
                    0 => note(format_args!(
                        "{} to do, about {about}",
                        counted(runs, "run")
                    )),
                    _ => note(format_args!(
                        "resuming: {done} of {} done, about {about} left",
                        counted(runs, "run")
                    )),
                }
            }
            SessionProgress::RunStarted { .. } => {
                self.under_way.begin(progress, &self.varying);
            }
            SessionProgress::RunFinished { run, retry, .. } => {
                self.number += u64::from(!retry);
                let left = duration(self.pace.left_s());
                let ended = outcome(progress).unwrap_or_default();
                // the file with a failed run's output is printed on its own line
                let (ended, output) = ended
                    .split_once('\n')
                    .map_or((&*ended, String::new()), |(ended, output)| {
                        (ended, format!("\n{output}"))
                    });
                note(format_args!(
                    "[{}/{}] {}: {ended} (about {left} left){output}",
                    self.number,
                    self.total,
                    self.under_way.end(run)
                ));
            }
            other => {
                if let Some(line) = line(other, &self.varying) {
                    note(line);
                }
            }
        }
    }
}

/// A progress bar with the current run below it.
struct BarDisplay {
    bar: output::Bar,
    varying: Varying,
    under_way: UnderWay,
    current: String,
    number: u64,
    total: u64,
    failed: u64,
    pace: RemainingTime,
}

impl BarDisplay {
    fn new(varying: Varying, expected_s: f64) -> Self {
        let bar = output::bar();
        bar.set_template("{spinner} {wide_msg}");
        bar.tick_every(Duration::from_millis(120));
        Self {
            bar,
            varying,
            under_way: UnderWay::default(),
            current: String::new(),
            number: 0,
            total: 0,
            failed: 0,
            pace: RemainingTime::new(expected_s),
        }
    }

    fn message(&self, stage: &str) {
        let failed = if self.failed > 0 {
            format!("{} failed · ", self.failed)
        } else {
            String::new()
        };
        let stage = if stage.is_empty() {
            String::new()
        } else {
            format!(" · {stage}")
        };
        self.bar.set_message(&format!(
            "{failed}about {} left · {}{stage}",
            duration(self.pace.left_s()),
            self.current
        ));
    }
}

impl Observer for BarDisplay {
    fn on(&mut self, progress: &SessionProgress) {
        self.pace.on(progress);
        match progress {
            SessionProgress::Started { runs, done } => {
                self.bar
                    .set_template("{bar:16.green/dim} {pos}/{len} {elapsed} · {wide_msg}");
                self.bar.set_length(*runs);
                self.bar.set_position(*done);
                (self.total, self.number) = (*runs, *done);
            }
            SessionProgress::RunStarted { .. } => {
                self.current = self
                    .under_way
                    .begin(progress, &self.varying)
                    .unwrap_or_default();
                self.message("");
            }
            SessionProgress::Stage { stage, .. } => self.message(stage),
            SessionProgress::Install(InstallEvent::Task { task }) => self.bar.set_message(task),
            SessionProgress::Install(InstallEvent::Host {
                host,
                task,
                result: TaskResult::Ok,
                ..
            }) => self.bar.set_message(&format!("{task} · {host}")),
            SessionProgress::RunFinished {
                run,
                outcome: o,
                retry,
                ..
            } => {
                self.number += u64::from(!retry);
                self.failed += u64::from(!retry && matches!(o, Outcome::Failed { .. }));
                let text = format!(
                    "[{}/{}] {}: {}",
                    self.number,
                    self.total,
                    self.under_way.end(run),
                    outcome(progress).unwrap_or_default()
                );
                for line in text.lines() {
                    self.bar.println(&paragraph("", line));
                }
                self.bar.advance(u64::from(!retry));
                self.message("");
            }
            other => {
                if let Some(line) = line(other, &self.varying) {
                    if matches!(other, SessionProgress::Ended { .. }) {
                        self.bar.finish_and_clear();
                        note(line);
                    } else {
                        self.bar.println(&line);
                    }
                }
            }
        }
    }
}
