//! Shows the progress of a campaign: a progress bar on a terminal, plain lines elsewhere, JSON events on request.

use crate::{
    output::{self, note, tell_json},
    text::{paragraph, shown},
};
use cvc_controller::observe::{Observer, Progress};
use cvc_core::ids::RunId;
use cvc_core::outcome::Outcome;
use cvc_core::point::{Point, Repeat};
use cvc_core::units::counted;
pub use cvc_core::units::duration;
use cvc_sites::install::{InstallEvent, TaskResult};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// The factors that tell points apart, so that lines stay short.
#[derive(Clone, Debug, Default)]
pub struct Varying(Vec<String>);

impl Varying {
    /// The factors that differ between these points.
    pub fn of<'a>(points: impl Iterator<Item = &'a Point> + Clone) -> Self {
        let user = points
            .clone()
            .flat_map(|p| p.user.keys().map(String::as_str));
        let mut names: Vec<&str> = Point::FACTORS
            .iter()
            .copied()
            .filter(|f| *f != "processes")
            .chain(user)
            .collect();
        names.dedup();
        let varies = |name: &str| {
            // that a factor says nothing of some points follows from another one
            let mut values = points.clone().filter_map(|p| p.factor(name));
            let first = values.next();
            values.any(|v| Some(v) != first)
        };
        let mut kept: Vec<String> = Vec::new();
        for name in names {
            if varies(name) && !kept.iter().any(|k| k == name) {
                kept.push(name.to_owned());
            }
        }
        if kept.is_empty() {
            kept.push("app".into());
        }
        Self(kept)
    }

    /// Names of the factors.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// A point in a few words.
    pub fn show(&self, point: &Point) -> String {
        let values: Vec<String> = self
            .0
            .iter()
            .filter_map(|name| {
                let value = point.factor(name)?;
                // a number or a flag says nothing without its name
                let speaks = matches!(
                    name.as_str(),
                    "site" | "app" | "class" | "mapping" | "mpi" | "checkpointer" | "moment"
                );
                Some(if speaks {
                    value
                } else {
                    format!("{name}={value}")
                })
            })
            .collect();
        values.join(" ")
    }
}

/// The observer for this output.
pub fn observer(json: bool, varying: Varying, expected_s: f64) -> Box<dyn Observer> {
    let shown: Box<dyn Observer> = if json {
        Box::new(Json)
    } else if output::is_stderr_terminal() {
        Box::new(Bar::new(varying, expected_s))
    } else {
        Box::new(Lines {
            varying,
            under_way: UnderWay::default(),
            number: 0,
            total: 0,
            pace: Pace::new(expected_s),
        })
    };
    Box::new(Logged(shown))
}

/// Writes everything that is shown to the log as well.
struct Logged(Box<dyn Observer>);

impl Observer for Logged {
    fn on(&mut self, progress: &Progress) {
        let what = serde_json::to_string(progress).unwrap_or_default();
        match progress {
            Progress::RunFinished {
                outcome: Outcome::Failed { cause, detail },
                run,
                ..
            } => {
                tracing::warn!(%run, ?cause, detail, "run failed");
            }
            Progress::Stage { .. } => tracing::debug!("{what}"),
            _ => tracing::info!("{what}"),
        }
        self.0.on(progress);
    }
}

/// One JSON object for each event, on standard output.
struct Json;

impl Observer for Json {
    fn on(&mut self, progress: &Progress) {
        if let Ok(line) = serde_json::to_string(progress) {
            tell_json(line);
        }
    }
}

/// Estimates the remaining time: from the plan at first, then from the runs so far.
struct Pace {
    expected_s: f64,
    runs: u64,
    began: Instant,
    done_here: u64,
    left: u64,
}

impl Pace {
    fn new(expected_s: f64) -> Self {
        Self {
            expected_s,
            runs: 0,
            began: Instant::now(),
            done_here: 0,
            left: 0,
        }
    }

    fn on(&mut self, progress: &Progress) {
        match progress {
            Progress::Started { runs, done } => {
                (self.runs, self.left, self.began) =
                    (*runs, runs.saturating_sub(*done), Instant::now());
            }
            Progress::RunFinished { retry: false, .. } => {
                self.done_here += 1;
                self.left = self.left.saturating_sub(1);
            }
            Progress::Quarantined { skipped: gone, .. }
            | Progress::Decided {
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

fn repeat(repeat: Repeat) -> String {
    match repeat {
        Repeat::Warmup(n) => format!("warm-up {n}"),
        Repeat::Measured(n) => format!("repeat {n}"),
    }
}

/// How a run ended, and below that, of a failed one, where its output is; nothing of other events.
fn outcome(progress: &Progress) -> Option<String> {
    let Progress::RunFinished {
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

/// The runs under way in a few words.
#[derive(Default)]
struct UnderWay(HashMap<RunId, String>);

impl UnderWay {
    /// Takes in that a run began; its words, if this is what the event tells.
    fn begin(&mut self, progress: &Progress, varying: &Varying) -> Option<String> {
        let Progress::RunStarted {
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
        let words = format!("{}, {}{again}", varying.show(point), repeat(*r));
        self.0.insert(run.clone(), words.clone());
        Some(words)
    }

    /// The words of a run that has ended; its identifier if it was not heard of.
    fn end(&mut self, run: &RunId) -> String {
        self.0.remove(run).unwrap_or_else(|| format!("run {run}"))
    }
}

/// A line for an event of an installation: changes and failures only.
fn install_line(event: &InstallEvent) -> Option<String> {
    Some(match event {
        InstallEvent::Preparing { what } => format!("preparing: {what}"),
        InstallEvent::Started { site, hosts, check } => {
            let what = if *check {
                "checking what would be installed on"
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

/// A line for an event that both forms show.
fn line(progress: &Progress, varying: &Varying) -> Option<String> {
    Some(match progress {
        Progress::Preparing { what } => format!("preparing: {what}"),
        Progress::Site { what } => what.clone(),
        Progress::RunLost { run, reason } => {
            format!("run {run} is lost and will be repeated: {reason}")
        }
        Progress::Install(event) => return install_line(event),
        Progress::Skipped {
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
        Progress::Recovered { run, ended, kept } => {
            let what = if *kept {
                "its results were complete and are kept"
            } else {
                "it will be repeated"
            };
            format!("run {run} was cut off: {ended} processes ended, {what}")
        }
        Progress::Missing { runs } => match runs.as_slice() {
            [run] => format!(
                "run {run} had succeeded, and its directory is missing: it will be repeated"
            ),
            [first, ..] => format!(
                "{} had succeeded, and their directories are missing ({first}, ...): they will be repeated",
                counted(runs.len(), "run")
            ),
            [] => String::new(),
        },
        Progress::TakenIn { runs } => format!(
            "{} the journal did not know: their results are whole and are kept",
            counted(runs.len(), "finished run")
        ),
        Progress::Quarantined { point, skipped } => format!(
            "point {point} failed too often: {} skipped",
            counted(*skipped, "run")
        ),
        Progress::Decided {
            point,
            reason,
            not_needed: 0,
        } => format!("point {point}: {reason}"),
        Progress::Decided {
            point,
            reason,
            not_needed,
        } => format!(
            "point {point}: {reason}; {} not needed",
            counted(*not_needed, "run")
        ),
        Progress::FailedAlike {
            site,
            points,
            attempts,
            left,
            ..
        } => format!(
            "site {site} begins no more runs: {} at {} failed in the same way, and none has succeeded; {} {} not begun",
            counted(attempts, "attempt"),
            counted(points, "point"),
            counted(left, "run"),
            if *left == 1 { "is" } else { "are" }
        ),
        Progress::Stopping { now: false } => {
            "stopping after the run under way; Ctrl-C again stops at once".into()
        }
        Progress::Stopping { now: true } => "stopping now".into(),
        Progress::Ended {
            succeeded,
            failed,
            skipped,
            left,
        } => format!(
            "{} succeeded, {failed} failed, {skipped} skipped, {left} left",
            counted(succeeded, "run")
        ),
        Progress::Started { .. }
        | Progress::RunStarted { .. }
        | Progress::Stage { .. }
        | Progress::RunFinished { .. } => return None,
    })
}

/// Plain lines on standard error.
struct Lines {
    varying: Varying,
    under_way: UnderWay,
    number: u64,
    total: u64,
    pace: Pace,
}

impl Observer for Lines {
    fn on(&mut self, progress: &Progress) {
        self.pace.on(progress);
        match progress {
            Progress::Started { runs, done } => {
                (self.total, self.number) = (*runs, *done);
                let about = duration(self.pace.left_s());
                match done {
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
            Progress::RunStarted { .. } => {
                self.under_way.begin(progress, &self.varying);
            }
            Progress::RunFinished { run, retry, .. } => {
                self.number += u64::from(!retry);
                let left = duration(self.pace.left_s());
                let ended = outcome(progress).unwrap_or_default();
                // the output of a failed run stands below
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

/// A bar with the current run below it.
struct Bar {
    bar: output::Bar,
    varying: Varying,
    under_way: UnderWay,
    current: String,
    number: u64,
    total: u64,
    failed: u64,
    pace: Pace,
}

impl Bar {
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
            pace: Pace::new(expected_s),
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

impl Observer for Bar {
    fn on(&mut self, progress: &Progress) {
        self.pace.on(progress);
        match progress {
            Progress::Started { runs, done } => {
                self.bar
                    .set_template("{bar:16.green/dim} {pos}/{len} {elapsed} · {wide_msg}");
                self.bar.set_length(*runs);
                self.bar.set_position(*done);
                (self.total, self.number) = (*runs, *done);
            }
            Progress::RunStarted { .. } => {
                self.current = self
                    .under_way
                    .begin(progress, &self.varying)
                    .unwrap_or_default();
                self.message("");
            }
            Progress::Stage { stage, .. } => self.message(stage),
            Progress::Install(InstallEvent::Task { task }) => self.bar.set_message(task),
            Progress::Install(InstallEvent::Host {
                host,
                task,
                result: TaskResult::Ok,
                ..
            }) => self.bar.set_message(&format!("{task} · {host}")),
            Progress::RunFinished {
                run,
                outcome: o,
                retry,
                ..
            } => {
                self.number += u64::from(!retry);
                self.failed += u64::from(!retry && matches!(o, Outcome::Failed { .. }));
                let told = format!(
                    "[{}/{}] {}: {}",
                    self.number,
                    self.total,
                    self.under_way.end(run),
                    outcome(progress).unwrap_or_default()
                );
                for line in told.lines() {
                    self.bar.println(&paragraph("", line));
                }
                self.bar.advance(u64::from(!retry));
                self.message("");
            }
            other => {
                if let Some(line) = line(other, &self.varying) {
                    if matches!(other, Progress::Ended { .. }) {
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
