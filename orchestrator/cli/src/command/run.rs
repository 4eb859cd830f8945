//! `cvc run`

use super::{plan::tell_without_effect, report, run_checks};
use crate::{
    args::RunArgs,
    display::{self, Varying},
    exit_status::ExitStatus,
    failure::Failure,
    machine::{machine, runtime},
    output::{self, emit, emit_json, note},
    session_log,
    signals::{self, Pairs},
    text::{paragraph, shown},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_controller::observe::{Observer, SessionProgress};
use cvc_controller::runner::{Options, Summary, find_node_program};
use cvc_core::campaign::Block;
use cvc_core::point::PlannedPoint;
use cvc_core::stop::StopRequest;
use cvc_core::units::counted;
use cvc_engine::run::own_lines;
use cvc_prediction::holdout::Gate;
use cvc_session::{Audience, CampaignSession, HoldEnd, HoldOptions, explanation::end_of};
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

/// Skipped runs whose software is not installed: their number, and the reason.
pub type SkippedRuns = Arc<Mutex<Vec<(u64, String)>>>;

/// Runs a campaign like [`run()`], but collects skipped runs for the caller instead of printing a line for each.
pub fn run_collecting(
    args: &RunArgs,
    skipped: Option<&SkippedRuns>,
) -> Result<ExitStatus, Failure> {
    let mut session = CampaignSession::open(
        &args.file,
        args.which.variant.as_deref(),
        &args.place.campaigns,
        &|what| note(what),
    )?;
    session.has_runs()?;
    check_report_place(&report_place(&session, args))?;
    args.ci.check_places()?;
    if !args.json {
        tell_without_effect(&session);
    }
    session.select(&args.selection.only)?;
    let limit = args
        .time_limit
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    // a limit beyond the clock's range is no limit
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    let base = machine(&args.place).options()?;
    find_node_program(&session.spec, &session.plan, &base)?;
    session_log::begin(&session.dir);
    let name = session.plan.campaign.clone();
    let heard = FailureOutputs::default();
    let held = hold(&session, args, until, base, heard.clone(), skipped)
        .instrument(tracing::info_span!("campaign", name = %name));
    let HoldEnd { summary, waits } = runtime()?.block_on(held)?;
    // all runs have ended and machines are released; a report can be written again
    signals::let_signals_end_it();
    tracing::info!(?summary, "session ended");
    if args.ci.is_wanted() {
        run_checks::checks(&session)?.write(&args.ci)?;
    }
    show_expected(&summary, args.json);
    let gate = if summary.succeeded + summary.failed > 0 {
        write_report(&session, args)?
    } else {
        None
    };
    let failed = summary.failed_unexpectedly();
    if !args.json && (summary.failed_alike || failed > 0 && summary.succeeded == 0) {
        heard.show();
    }
    if summary.failed_alike && !summary.interrupted {
        if !args.json {
            let command = command_of(args);
            let retry = if failed > 0 { " --retry-failed" } else { "" };
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
    if let Some(gate) = &gate {
        show_gate(gate, args.json);
    }
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
    // The numbers of a campaign with failures are incomplete, so that is reported first.
    if failed > 0 || (summary.skipped > 0 && summary.succeeded == 0) {
        return Ok(ExitStatus::RunsFailed);
    }
    Ok(if gate.is_none_or(|gate| gate.is_kept()) {
        ExitStatus::Done
    } else {
        ExitStatus::BoundMissed
    })
}

/// Returns the directory of the report.
fn report_place(session: &CampaignSession, args: &RunArgs) -> Utf8PathBuf {
    args.report
        .clone()
        .unwrap_or_else(|| Utf8PathBuf::from("reports").join(&session.plan.campaign))
}

/// Checks that the report directory is writable before hours of runs.
fn check_report_place(to: &Utf8Path) -> Result<(), Failure> {
    let absolute = cvc_core::paths::make_absolute(to.to_owned());
    let existing = absolute.ancestors().find(|place| place.exists());
    let existing = existing.unwrap_or(Utf8Path::new("/"));
    let writable = match existing.is_dir() {
        true => tempfile::tempfile_in(existing).map(drop),
        false => Err(std::io::ErrorKind::NotADirectory.into()),
    };
    writable.map_err(|error| Failure::Other {
        status: ExitStatus::Usage,
        message: format!("the report cannot be written to {to}: {existing}: {error}"),
        hint: Some("choose your own directory with --report DIR; nothing was started".into()),
    })
}

/// Writes the report and prints its path. Returns the verdict on the predictions, if the campaign has any.
fn write_report(session: &CampaignSession, args: &RunArgs) -> Result<Option<Gate>, Failure> {
    let to = report_place(session, args);
    let report::Written { files, gate, found } =
        report::write(&session.dir, &to, &session.spec.report.formats)?;
    if args.json {
        emit_json(serde_json::json!({ "event": "report", "files": files }));
    } else {
        show_found(&found);
        for file in files.iter().take(1) {
            emit(format_args!("report: {}", shown(file)));
        }
    }
    Ok(gate)
}

/// Prints the number of remaining runs, and the day from which they may start.
fn show_left(args: &RunArgs, left: u64, waits: Option<(Block, Date)>) {
    if args.json {
        if let Some((block, day)) = waits {
            emit_json(
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

/// Prints whether the predictions were within their bounds.
fn show_gate(gate: &Gate, json: bool) {
    if !json {
        return report::show_gate(gate);
    }
    let missed = gate.misses();
    emit_json(
        serde_json::json!({ "event": "predictions", "kept": missed.is_empty(), "missed": missed, "coverage": gate.coverage }),
    );
}

/// Prints how many runs failed as expected, and how many succeeded unexpectedly.
fn show_expected(summary: &Summary, is_json: bool) {
    if is_json {
        return;
    }
    if summary.failed_as_expected > 0 {
        emit(format_args!(
            "{} failed as expected ([[expect_failure]])",
            counted(summary.failed_as_expected, "run")
        ));
    }
    if summary.succeeded_unexpectedly > 0 {
        note(format_args!(
            "warning: {} succeeded although [[expect_failure]] expects failure; `cvc status` lists the points",
            counted(summary.succeeded_unexpectedly, "run")
        ));
    }
}

/// Returns the command line that continues the campaign.
fn command_of(args: &RunArgs) -> String {
    let variant = args
        .which
        .variant
        .as_ref()
        .map(|v| format!(" --variant {v}"))
        .unwrap_or_default();
    format!("cvc run {}{variant}", args.file)
}

/// Maximum number of answers shown; the report has all.
const SHOWN_ANSWERS: usize = 20;

/// Prints the report's answers, a paragraph for each question.
fn show_found(found: &[(String, String)]) {
    if found.is_empty() {
        return;
    }
    emit("\nresults:");
    for (what, answer) in found.iter().take(SHOWN_ANSWERS) {
        emit(paragraph("  ", &format!("{what}: {answer}")));
    }
    match found.len().saturating_sub(SHOWN_ANSWERS) {
        0 => {}
        more => emit(format_args!("  and {more} more in the report")),
    }
    emit("");
}

/// Output files of failed runs, printed when the command ends.
#[derive(Clone, Default)]
struct FailureOutputs(Arc<Mutex<Failures>>);

#[derive(Default)]
struct Failures {
    /// For each site that starts no more runs because several failed alike: the output file of one of these runs.
    alike: IndexMap<String, Utf8PathBuf>,
    /// Output file of the last run that failed and is not retried.
    last: Option<Utf8PathBuf>,
}

impl FailureOutputs {
    fn apply(&self, progress: &SessionProgress) {
        let mut failures = self.0.lock();
        match progress {
            SessionProgress::FailedAlike {
                site,
                output: Some(output),
                ..
            } => {
                failures.alike.insert(site.clone(), output.clone());
            }
            SessionProgress::RunFinished {
                retry: false,
                output: Some(output),
                ..
            } => failures.last = Some(output.clone()),
            _ => {}
        }
    }

    /// Prints the output of a failed run: one for each site that starts no more runs, or the last one if there is no such site.
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
            // ranks may print the same lines
            let lines: IndexSet<&str> = own_lines(&text).into_iter().collect();
            for line in excerpt(&lines.into_iter().collect::<Vec<_>>()) {
                note(format_args!("  | {line}"));
            }
            note("");
        }
    }
}

/// Maximum number of lines of a failed run's output that are shown.
const SHOWN_LINES: usize = 14;
/// Maximum number of characters of one of these lines.
const SHOWN_CHARS: usize = 300;

/// Returns the first and the last of these lines if there are too many, each cut to [`SHOWN_CHARS`].
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

/// Observer that records the output files of failed runs.
struct FailureObserver {
    shown: Box<dyn Observer>,
    heard: FailureOutputs,
}

impl Observer for FailureObserver {
    fn on(&mut self, progress: &SessionProgress) {
        self.heard.apply(progress);
        self.shown.on(progress);
    }
}

/// Observer that shows the events of a session to the user.
struct User {
    json: bool,
    heard: FailureOutputs,
    skipped: Option<SkippedRuns>,
}

impl User {
    fn observer(&self, varying: Varying, expected_s: f64) -> Box<dyn Observer> {
        let shown = Box::new(FailureObserver {
            shown: display::observer(self.json, varying, expected_s),
            heard: self.heard.clone(),
        });
        match &self.skipped {
            Some(skipped) => Box::new(SkippedRunObserver {
                shown,
                skipped: Arc::clone(skipped),
            }),
            None => shown,
        }
    }
}

/// Observer that collects skipped runs and shows all other events.
struct SkippedRunObserver {
    shown: Box<dyn Observer>,
    skipped: SkippedRuns,
}

impl Observer for SkippedRunObserver {
    fn on(&mut self, progress: &SessionProgress) {
        if let SessionProgress::Skipped { reason, runs, .. } = progress {
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

/// Runs the rest of the campaign, and handles signals and the time limit.
async fn hold(
    session: &CampaignSession,
    args: &RunArgs,
    until: Option<Instant>,
    base: Options,
    heard: FailureOutputs,
    skipped: Option<&SkippedRuns>,
) -> Result<HoldEnd, Failure> {
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

/// Returns whether SIGHUP is ignored, as when cvc was started by `nohup` to outlive its terminal.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (SignalKind::hangup().as_raw_value() - 1)) != 0)
}

/// Requests the end of the session when its time limit is reached: runs in progress are finished, as after Ctrl-C.
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
            "the time of this session is over: current runs are finished, and no more are started",
        );
    }
}

/// Handles SIGINT, SIGTERM and SIGHUP. The first signal requests to finish the runs in progress, the second to stop at once. Two signals of one kind
/// within a moment count as one.
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
                // shell and kernel may both send SIGHUP, so a second one is not a request to stop at once
                if std::mem::replace(&mut is_gone, true) {
                    continue;
                }
                output::discard_terminal_output();
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
        // after the campaign's end the stop request has no receiver
        let _ = stop_request.send(next);
        // writing to a closed terminal would fail
        if !is_gone {
            let mut observer = display::observer(json, Varying::default(), 0.0);
            observer.on(&SessionProgress::Stopping {
                now: next == StopRequest::StopNow,
            });
        }
    }
}
