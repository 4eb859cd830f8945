//! `cvc run`

use super::{plan::tell_without_effect, report};
use crate::{
    args::RunArgs,
    display::{self, Varying},
    exit_status::ExitStatus,
    failure::Failure,
    machine::{machine, runtime},
    output::{self, note, tell, tell_json},
    session_log,
    signals::{self, Pairs},
    text::{paragraph, shown},
};
use camino::Utf8PathBuf;
use cvc_controller::observe::{Observer, Progress};
use cvc_controller::runner::{Options, find_node_program};
use cvc_core::campaign::Block;
use cvc_core::point::PlannedPoint;
use cvc_core::stop::StopRequest;
use cvc_core::units::counted;
use cvc_engine::run::own_lines;
use cvc_prediction::holdout::Gate;
use cvc_session::{Audience, Ended, HoldOptions, Session, explanation::end_of};
use cvc_sites::error::OverBudget;
use indexmap::{IndexMap, IndexSet};
use jiff::civil::Date;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::Instant,
};
use tracing::Instrument;

pub fn run(args: &RunArgs) -> Result<ExitStatus, Failure> {
    run_collecting(args, None)
}

/// Runs that are skipped because something is not installed: how many, and why.
pub type SkippedRuns = Arc<Mutex<Vec<(u64, String)>>>;

/// The same; what is skipped is collected for a caller that tells it in its own words, instead of being told line by line.
pub fn run_collecting(
    args: &RunArgs,
    skipped: Option<&SkippedRuns>,
) -> Result<ExitStatus, Failure> {
    let mut session = Session::open(
        &args.file,
        args.which.variant.as_deref(),
        &args.place.campaigns,
        &|what| note(what),
    )?;
    session.has_runs()?;
    if !args.json {
        tell_without_effect(&session);
    }
    session.select(&args.selection.only)?;
    let limit = args
        .time_limit
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    // an end that no clock reaches is none
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    let base = machine(&args.place).options()?;
    find_node_program(&session.spec, &session.plan, &base)?;
    session_log::begin(&session.dir);
    let name = session.plan.campaign.clone();
    let heard = Heard::default();
    let held = hold(&session, args, until, base, heard.clone(), skipped)
        .instrument(tracing::info_span!("campaign", name = %name));
    let Ended { summary, waits } = runtime()?.block_on(held)?;
    // nothing is at stake any more: a report can be written again
    signals::let_signals_end_it();
    tracing::info!(?summary, "session ended");
    let gate = if summary.succeeded + summary.failed > 0 {
        write_report(&session, args)?
    } else {
        None
    };
    if !args.json && (summary.failed_alike || summary.failed > 0 && summary.succeeded == 0) {
        heard.show();
    }
    if summary.failed_alike && !summary.interrupted {
        if !args.json {
            let command = command_of(args);
            let retry = if summary.failed > 0 {
                " --retry-failed"
            } else {
                ""
            };
            note(format_args!(
                "hint: fix the cause, then run `{command}{retry}` to continue; `{command} --keep-going` continues regardless"
            ));
        }
        return Ok(ExitStatus::RunsFailed);
    }
    if summary.interrupted || (summary.left > 0 && !summary.over_budget) {
        show_left(args, summary.left, waits);
        if summary.interrupted {
            return Ok(ExitStatus::Interrupted);
        }
    }
    let gate_kept = gate.as_ref().is_none_or(|gate| show_gate(gate, args.json));
    if summary.over_budget {
        if !args.json {
            note(format_args!(
                "the budget does not cover the rest, {}; {}",
                counted(summary.left + summary.skipped, "run"),
                OverBudget::hint(&format!("cvc run {}", args.file))
            ));
        }
        return Ok(ExitStatus::OverBudget);
    }
    // The numbers of a campaign with failures are incomplete, so that is said first.
    if summary.failed > 0 || (summary.skipped > 0 && summary.succeeded == 0) {
        return Ok(ExitStatus::RunsFailed);
    }
    Ok(if gate_kept {
        ExitStatus::Done
    } else {
        ExitStatus::BoundMissed
    })
}

/// Writes the report, and shows where it is. Returns the judgement of predictions, if the campaign has one.
fn write_report(session: &Session, args: &RunArgs) -> Result<Option<Gate>, Failure> {
    let to = args
        .report
        .clone()
        .unwrap_or_else(|| Utf8PathBuf::from("reports").join(&session.plan.campaign));
    let report::Written { files, gate, found } =
        report::write(&session.dir, &to, &session.spec.report.formats)?;
    if args.json {
        tell_json(serde_json::json!({ "event": "report", "files": files }));
    } else {
        show_found(&found);
        for file in files.iter().take(1) {
            tell(format_args!("report: {}", shown(file)));
        }
    }
    Ok(gate)
}

/// Says how many runs are left, and from which day on they may start.
fn show_left(args: &RunArgs, left: u64, waits: Option<(Block, Date)>) {
    if args.json {
        if let Some((block, day)) = waits {
            tell_json(
                serde_json::json!({ "event": "waits", "of": block.of.many(), "number": block.number, "not_before": day }),
            );
        }
        return;
    }
    let command = command_of(args);
    let are = if left == 1 { "is" } else { "are" };
    let when = waits
        .map(|(block, day)| format!(" from {day} (UTC) on with day {}", block.number))
        .unwrap_or_default();
    note(format_args!(
        "{} {are} left; `{command}` continues{when}",
        counted(left, "run")
    ));
}

/// Shows how predictions did; returns whether they kept the bounds.
fn show_gate(gate: &Gate, json: bool) -> bool {
    if !json {
        return report::show_gate(gate);
    }
    let missed = gate.misses();
    tell_json(
        serde_json::json!({ "event": "predictions", "kept": missed.is_empty(), "missed": missed, "coverage": gate.coverage }),
    );
    missed.is_empty()
}

/// The command that goes on with the campaign.
fn command_of(args: &RunArgs) -> String {
    let variant = args
        .which
        .variant
        .as_ref()
        .map(|v| format!(" --variant {v}"))
        .unwrap_or_default();
    format!("cvc run {}{variant}", args.file)
}

/// Most answers that are shown; the report has all.
const SHOWN_ANSWERS: usize = 20;

/// Shows what the report found, a paragraph for each question.
fn show_found(found: &[(String, String)]) {
    if found.is_empty() {
        return;
    }
    tell("\nwhat was found:");
    for (what, answer) in found.iter().take(SHOWN_ANSWERS) {
        tell(paragraph("  ", &format!("{what}: {answer}")));
    }
    match found.len().saturating_sub(SHOWN_ANSWERS) {
        0 => {}
        more => tell(format_args!("  and {more} more in the report")),
    }
    tell("");
}

/// The outputs of runs that failed, as far as the end of the command shows them.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Failures>>);

#[derive(Default)]
struct Failures {
    /// Of one run of each site that begins no more.
    alike: IndexMap<String, Utf8PathBuf>,
    /// Of the last run that failed for good.
    last: Option<Utf8PathBuf>,
}

impl Heard {
    fn take_in(&self, progress: &Progress) {
        let mut failures = self.0.lock();
        match progress {
            Progress::FailedAlike {
                site,
                output: Some(output),
                ..
            } => {
                failures.alike.insert(site.clone(), output.clone());
            }
            Progress::RunFinished {
                retry: false,
                output: Some(output),
                ..
            } => failures.last = Some(output.clone()),
            _ => {}
        }
    }

    /// Shows the output of one run of each site that stopped, or else of the last one that failed.
    fn show(&self) {
        let failures = self.0.lock();
        let files: Vec<&Utf8PathBuf> = if failures.alike.is_empty() {
            failures.last.iter().collect()
        } else {
            failures.alike.values().collect()
        };
        for file in files {
            let Some(text) = end_of(file) else { continue };
            note(format_args!(
                "\nthe output of one of the failed runs, {}:",
                shown(file)
            ));
            // ranks say the same, one after another
            let lines: IndexSet<&str> = own_lines(&text).into_iter().collect();
            for line in excerpt(&lines.into_iter().collect::<Vec<_>>()) {
                note(format_args!("  | {line}"));
            }
            note("");
        }
    }
}

/// Most lines of a failed run's output that are shown.
const SHOWN_LINES: usize = 14;
/// Most characters of one of these lines.
const SHOWN_CHARS: usize = 300;

/// The first and the last of these lines, each cut if it is very long.
fn excerpt(lines: &[&str]) -> Vec<String> {
    let cut = |line: &&str| match line.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => (*line).to_owned(),
    };
    if lines.len() <= SHOWN_LINES {
        return lines.iter().map(cut).collect();
    }
    let (first, last) = (SHOWN_LINES / 2, lines.len() - SHOWN_LINES / 2);
    let left_out = format!("… {} …", counted((last - first) as u64, "line"));
    lines[..first]
        .iter()
        .map(cut)
        .chain([left_out])
        .chain(lines[last..].iter().map(cut))
        .collect()
}

/// An observer that remembers the outputs of runs that failed.
struct Hearing {
    shown: Box<dyn Observer>,
    heard: Heard,
}

impl Observer for Hearing {
    fn on(&mut self, progress: &Progress) {
        self.heard.take_in(progress);
        self.shown.on(progress);
    }
}

/// The user, who sees what a session does.
struct User {
    json: bool,
    heard: Heard,
    skipped: Option<SkippedRuns>,
}

impl User {
    fn observer(&self, varying: Varying, expected_s: f64) -> Box<dyn Observer> {
        let shown = Box::new(Hearing {
            shown: display::observer(self.json, varying, expected_s),
            heard: self.heard.clone(),
        });
        match &self.skipped {
            Some(skipped) => Box::new(Collecting {
                shown,
                skipped: Arc::clone(skipped),
            }),
            None => shown,
        }
    }
}

/// Shows everything but what is skipped, which it collects.
struct Collecting {
    shown: Box<dyn Observer>,
    skipped: SkippedRuns,
}

impl Observer for Collecting {
    fn on(&mut self, progress: &Progress) {
        if let Progress::Skipped { reason, runs, .. } = progress {
            tracing::info!(runs, reason, "skipped");
            self.skipped.lock().push((*runs, reason.clone()));
        } else {
            self.shown.on(progress);
        }
    }
}

impl Audience for User {
    fn preparing(&self) -> Box<dyn Observer> {
        self.observer(Varying::default(), 0.0)
    }

    fn running(&self, points: &[PlannedPoint], expected_s: f64) -> Box<dyn Observer> {
        self.observer(Varying::of(points.iter().map(|p| &p.point)), expected_s)
    }

    fn block(&self, block: Block, count: u32) {
        if !self.json {
            note(format_args!(
                "{} {} of {count}",
                block.of.one(),
                block.number
            ));
        }
    }

    fn remark(&self, what: &str) {
        note(what);
    }
}

/// Runs what remains, and heeds signals and the end of the time meanwhile.
async fn hold(
    session: &Session,
    args: &RunArgs,
    until: Option<Instant>,
    base: Options,
    heard: Heard,
    skipped: Option<&SkippedRuns>,
) -> Result<Ended, Failure> {
    let (stop_request, stop_signal) = watch::channel(StopRequest::GoOn);
    tokio::spawn(end_in_time(stop_request.clone(), until, args.json));
    tokio::spawn(listen(stop_request, args.json));
    let options = HoldOptions {
        retry_failed: args.retry_failed,
        keep_going: args.keep_going,
        install: args.install,
        update_lock: args.update_lock,
        until,
    };
    let user = User {
        json: args.json,
        heard,
        skipped: skipped.cloned(),
    };
    Ok(session.hold(options, base, &user, stop_signal).await?)
}

/// Whether this program was started to survive its terminal, as by `nohup`.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (SignalKind::hangup().as_raw_value() - 1)) != 0)
}

/// Asks for the end of the session when its time is over: what is under way is finished, as after Ctrl-C.
async fn end_in_time(stop_request: watch::Sender<StopRequest>, until: Option<Instant>, json: bool) {
    let Some(until) = until else { return };
    tokio::time::sleep_until(until).await;
    let asked = stop_request.send_if_modified(|now| {
        let goes_on = *now == StopRequest::GoOn;
        *now = (*now).max(StopRequest::TimeOver);
        goes_on
    });
    if asked && !json {
        note(
            "the time of this session is over: what is under way is finished, and nothing more is begun",
        );
    }
}

/// Handles Ctrl-C, SIGTERM and the end of the terminal: once, finish the run under way; twice, stop at once. Two of one kind in a moment are one.
async fn listen(stop_request: watch::Sender<StopRequest>, json: bool) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return;
    };
    let mut hangup = if hangup_is_ignored() {
        None
    } else {
        signal(SignalKind::hangup()).ok()
    };
    let mut is_gone = false;
    let mut pairs = Pairs::default();
    loop {
        let hung_up = async {
            match &mut hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        let kind = tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
            _ = hung_up => {
                // shell and kernel may both send it, so a second one is not a request to stop at once
                if std::mem::replace(&mut is_gone, true) {
                    continue;
                }
                output::speak_to_nobody();
                SignalKind::hangup()
            }
        };
        if !pairs.counts(kind, std::time::Instant::now()) {
            continue;
        }
        let next = match *stop_request.borrow() {
            StopRequest::GoOn | StopRequest::TimeOver => StopRequest::Finish,
            StopRequest::Finish | StopRequest::StopNow => StopRequest::StopNow,
        };
        // once the campaign has ended nobody waits for the stop request
        let _ = stop_request.send(next);
        // writing to a terminal that is gone fails
        if !is_gone {
            let mut observer = display::observer(json, Varying::default(), 0.0);
            observer.on(&Progress::Stopping {
                now: next == StopRequest::StopNow,
            });
        }
    }
}
