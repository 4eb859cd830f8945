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
    runner::{NextBlock, Options, Summary, find_node_program, next_block, run_campaign},
};
use cvc_core::{
    campaign::{Block, BlockKind, SiteKind, Spec},
    clock,
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
use cvc_os::measuring::others_measure;
use jiff::civil::Date;
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
    let sessions = Sessions { args, spec: &spec, plan: &plan, of_session: &of_session, dir: &dir, only, until, base };
    let (summary, wait_for) = runtime()?.block_on(sessions.hold().instrument(tracing::info_span!("campaign", name = %plan.campaign)))?;
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
        if args.json {
            if let Some((block, day)) = wait_for {
                tell_json(serde_json::json!({ "event": "waits", "of": block.of.many(), "number": block.number, "not_before": day }));
            }
        } else {
            let variant = args.which.variant.as_ref().map(|v| format!(" --variant {v}")).unwrap_or_default();
            let are = if summary.left == 1 { "is" } else { "are" };
            let when = wait_for.map(|(block, day)| format!(" from {day} (UTC) on with day {}", block.number)).unwrap_or_default();
            note(format_args!("{} {are} left; `cvc run {}{variant}` continues{when}", counted(summary.left, "run"), args.file));
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

/// The sessions that one call holds: one, or one for each fleet of instances.
struct Sessions<'a> {
    args: &'a RunArgs,
    spec: &'a Spec,
    plan: &'a Plan,
    /// The plan without points that were not selected, for estimates.
    of_session: &'a Plan,
    dir: &'a CampaignDir,
    only: Option<HashSet<PointId>>,
    until: Option<Instant>,
    base: Options,
}

impl Sessions<'_> {
    /// Runs what remains. Also returns the block that must wait for another day.
    async fn hold(self) -> Result<(Summary, Option<(Block, Date)>), Failure> {
        let json = self.args.json;
        let (stop_request, mut stop_signal) = watch::channel(StopRequest::GoOn);
        tokio::spawn(end_in_time(stop_request.clone(), self.until, json));
        tokio::spawn(listen(stop_request, json));
        if self.args.install {
            let mut observer = display::observer(json, Varying::default(), 0.0);
            install::all(self.spec, self.plan, self.dir, self.args.update_lock, &mut stop_signal, observer.as_mut()).await?;
        }
        // a journal that cannot be read is refused in a moment, with all that there is to say
        let mut state = CampaignState::read(&self.dir.journal()).unwrap_or_default();
        warn_of_clock(&state);
        let next_of = |state: &CampaignState| next_block(self.plan, state, self.only.as_ref(), clock::now());
        let mut next = next_of(&state);
        let mut is_first = true;
        loop {
            let last_block = match next {
                NextBlock::All => None,
                NextBlock::Of(block) => Some(block.number),
                // what is left of earlier ones
                NextBlock::NotBefore { block, .. } => Some(block.number - 1),
            };
            if let NextBlock::Of(block) = next
                && !json
            {
                note(format_args!("{} {} of {}", block.of.one(), block.number, self.spec.run.block_count()));
            }
            let summary = self.session(&state, last_block, stop_signal.clone(), is_first).await?;
            let is_over = summary.left == 0 || summary.interrupted || summary.over_budget || *stop_signal.borrow() != StopRequest::GoOn;
            state = CampaignState::read(&self.dir.journal()).unwrap_or_default();
            (next, is_first) = (next_of(&state), false);
            match next {
                // fleets come one after another; days do not pass meanwhile
                NextBlock::Of(block) if block.of == BlockKind::Fleets && !is_over && last_block.is_some_and(|last| block.number > last) => {
                }
                NextBlock::NotBefore { block, day } => return Ok((summary, Some((block, day)))),
                NextBlock::All | NextBlock::Of(_) => return Ok((summary, None)),
            }
        }
    }

    /// One session, up to and including a block of runs.
    async fn session(
        &self,
        state: &CampaignState,
        last_block: Option<u32>,
        stop_signal: StopSignal,
        is_first: bool,
    ) -> Result<Summary, Failure> {
        let &Self { args, spec, plan, of_session, dir, .. } = self;
        let mut observer = display::observer(args.json, Varying::default(), 0.0);
        let left = points_left(plan, dir, state);
        let readiness = |site: &str| Readiness::for_points(&spec.apps, left.iter().copied().filter(|p| p.site == site));
        let sites = ask_sites(spec, readiness, |what| observer.on(&Progress::Preparing { what })).await;
        drop(observer);
        for (name, site) in &sites {
            Lock::keep(dir, name, &Found::of(site), args.update_lock)?;
        }
        let book = PriceBook::open(&cost::cache_file());
        let (estimates, _) = space::estimate(spec, of_session, &costs::machines(spec, &sites, &book), dir);
        let options = Options {
            // what failed on this fleet is not tried again on the next
            retry_failed: args.retry_failed && is_first,
            only: self.only.clone(),
            last_block,
            until: self.until,
            update_lock: args.update_lock,
            expected_s: estimates.points.iter().map(|p| (p.point.clone(), p.seconds)).collect(),
            disk_bytes: estimates.points.iter().map(|p| (p.point.clone(), p.peak_bytes)).collect::<HashMap<_, _>>(),
            ..self.base.clone()
        };
        let mut observer = display::observer(args.json, Varying::of(of_session.points.iter().map(|p| &p.point)), estimates.total_s);
        let is_here = |p: &PlannedPoint| spec.sites.get(&p.point.site).is_some_and(|site| site.kind == SiteKind::Local);
        if of_session.points.iter().any(is_here) && others_measure() {
            let what =
                "another campaign measures on this machine now: times of both may suffer, and their reports flag the runs".to_owned();
            observer.on(&Progress::Site { what });
        }
        Ok(run_campaign(spec, plan, sites, &options, stop_signal, observer.as_mut()).await?)
    }
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
