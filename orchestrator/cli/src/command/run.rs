//! `cvc run`

use super::{
    costs, install,
    plan::{limited, nothing_to_run, selected, tell_without_effect},
    report, space,
};
use crate::{
    args::RunArgs,
    campaigns::{load_and_ask, warn_of_clock},
    display::{self, Varying},
    exit_status::ExitStatus,
    failure::Failure,
    machine::{ask_sites, options, runtime},
    output::{self, note, tell, tell_json},
    session_log,
    signals::{self, Pairs},
    text::shown,
};
use camino::Utf8PathBuf;
use cvc_controller::{
    cost::{self, PriceBook},
    error::OverBudget,
    install::Lock,
    observe::Progress,
    runner::{Options, find_node_program, run_campaign},
};
use cvc_core::{
    campaign::SiteKind,
    ids::PointId,
    journal::{CampaignState, RunState},
    outcome::Outcome,
    plan::{self, Plan, PlannedRun},
    point::{PlannedPoint, Point},
    stop::{StopRequest, StopSignal},
    store::CampaignDir,
    units::counted,
};
use cvc_engine::attempt::{Found, Readiness};
use cvc_probe::measuring::others_measure;
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::Instant,
};
use tracing::Instrument;

pub fn run(args: &RunArgs) -> Result<ExitStatus, Failure> {
    let spec = load_and_ask(&args.file, &args.which)?;
    let plan = plan::build(&spec);
    if plan.runs.is_empty() {
        return Err(nothing_to_run(&args.file, &plan));
    }
    if !args.json {
        tell_without_effect(&spec, &plan);
    }
    let only = selected(&plan, &args.selection)?;
    // what the session does, for its estimates; the campaign keeps its whole plan
    let of_session = only.as_ref().map_or_else(|| plan.clone(), |only| limited(plan.clone(), only));
    let limit = args.time_limit.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    // an end that no clock reaches is none
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    let base = options(&args.place)?;
    find_node_program(&spec, &plan, &base)?;
    let dir = CampaignDir::new(&args.place.campaigns, &plan.campaign);
    session_log::begin(&dir);
    let session = async {
        let (stop_request, mut stop_signal) = watch::channel(StopRequest::GoOn);
        tokio::spawn(end_in_time(stop_request.clone(), until, args.json));
        tokio::spawn(listen(stop_request, args.json));
        if args.install {
            let mut observer = display::observer(args.json, Varying::default(), 0.0);
            install::all(&spec, &plan, &dir, args.update_lock, &mut stop_signal, observer.as_mut()).await?;
        }
        let mut observer = display::observer(args.json, Varying::default(), 0.0);
        // a journal that cannot be read is refused in a moment, with all that there is to say
        let state = CampaignState::read(&dir.journal()).unwrap_or_default();
        warn_of_clock(&state);
        let left = points_left(&plan, &dir, &state);
        let readiness = |site: &str| Readiness::for_points(&spec.apps, left.iter().copied().filter(|p| p.site == site));
        let sites = ask_sites(&spec, readiness, |what| observer.on(&Progress::Preparing { what })).await;
        drop(observer);
        for (name, site) in &sites {
            Lock::keep(&dir, name, &Found::of(site), args.update_lock)?;
        }
        let book = PriceBook::open(&cost::cache_file());
        let (estimates, _) = space::estimate(&spec, &of_session, &costs::machines(&spec, &sites, &book), &dir);
        let options = Options {
            retry_failed: args.retry_failed,
            only,
            until,
            update_lock: args.update_lock,
            expected_s: estimates.points.iter().map(|p| (p.point.clone(), p.seconds)).collect(),
            disk_bytes: estimates.points.iter().map(|p| (p.point.clone(), p.peak_bytes)).collect::<HashMap<_, _>>(),
            ..base
        };
        let mut observer = display::observer(args.json, Varying::of(of_session.points.iter().map(|p| &p.point)), estimates.total_s);
        let is_here = |p: &PlannedPoint| spec.sites.get(&p.point.site).is_some_and(|site| site.kind == SiteKind::Local);
        if of_session.points.iter().any(is_here) && others_measure() {
            let what =
                "another campaign measures on this machine now: times of both may suffer, and their reports flag the runs".to_owned();
            observer.on(&Progress::Site { what });
        }
        let stop_signal: StopSignal = stop_signal;
        Ok::<_, Failure>(run_campaign(&spec, &plan, sites, &options, stop_signal, observer.as_mut()).await?)
    };
    let summary = runtime()?.block_on(session.instrument(tracing::info_span!("campaign", name = %plan.campaign)))?;
    // nothing is at stake any more: a report can be written again
    signals::let_signals_end_it();
    tracing::info!(?summary, "session ended");
    let mut gate = None;
    if summary.succeeded + summary.failed > 0 {
        let to = args.report.clone().unwrap_or_else(|| Utf8PathBuf::from("reports").join(&plan.campaign));
        let report::Written { files, gate: of } = report::write(&dir, &to, &spec.report.formats)?;
        gate = of;
        if args.json {
            tell_json(serde_json::json!({ "event": "report", "files": files }));
        } else {
            for file in files.iter().take(1) {
                tell(format_args!("report: {}", shown(file)));
            }
        }
    }
    if summary.interrupted || (summary.left > 0 && !summary.over_budget) {
        if !args.json {
            let variant = args.which.variant.as_ref().map(|v| format!(" --variant {v}")).unwrap_or_default();
            let are = if summary.left == 1 { "is" } else { "are" };
            note(format_args!("{} {are} left; `cvc run {}{variant}` continues", counted(summary.left, "run"), args.file));
        }
        if summary.interrupted {
            return Ok(ExitStatus::Interrupted);
        }
    }
    let kept = match &gate {
        None => true,
        Some(gate) if args.json => {
            let missed = gate.misses();
            tell_json(
                serde_json::json!({ "event": "predictions", "kept": missed.is_empty(), "missed": missed, "coverage": gate.coverage }),
            );
            missed.is_empty()
        }
        Some(gate) => report::show_gate(gate),
    };
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
    Ok(if kept { ExitStatus::Done } else { ExitStatus::BoundMissed })
}

/// The points with a run that is not known to have succeeded, or of which the directory is gone.
fn points_left<'p>(plan: &'p Plan, dir: &CampaignDir, state: &CampaignState) -> Vec<&'p Point> {
    let is_done = |run: &PlannedRun| {
        matches!(state.run(&run.id), Some(RunState::Finished { outcome: Outcome::Succeeded, .. })) && dir.run(&run.id).is_dir()
    };
    let left: HashSet<&PointId> = plan.runs.iter().filter(|run| !is_done(run)).map(|run| &run.point).collect();
    plan.points.iter().filter(|p| left.contains(&p.id)).map(|p| &p.point).collect()
}

/// Whether this program was started to survive its terminal, as by `nohup`.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
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
        note("the time of this session is over: what is under way is finished, and nothing more is begun");
    }
}

/// Handles Ctrl-C, SIGTERM and the end of the terminal: once, finish the run under way; twice, stop at once. Two of one kind in a moment are one.
async fn listen(stop_request: watch::Sender<StopRequest>, json: bool) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else { return };
    let mut hangup = if hangup_is_ignored() { None } else { signal(SignalKind::hangup()).ok() };
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
            observer.on(&Progress::Stopping { now: next == StopRequest::StopNow });
        }
    }
}
