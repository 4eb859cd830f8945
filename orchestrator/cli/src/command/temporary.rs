//! Trial runs of commands: their progress, and how the user stops them.

use crate::{args::Where, failure::Failure, machine::machine, output};
use cvc_controller::runner::{Options, find_node_program};
use cvc_core::campaign::Spec;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::plan::{self, Plan};
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_session::{Scratch, Trial};
use std::{io::Write, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// Carries out the only run of a plan with the time limit `limit`, and shows its progress as messages about `name`.
pub(super) async fn carry_out(
    campaign: (&Spec, &Plan),
    scratch: &Scratch,
    name: &str,
    base: &Options,
    limit: Duration,
    interrupted: &StopSignal,
) -> Trial {
    let bar = output::bar();
    bar.set_template("{spinner} {msg}");
    bar.tick_every(Duration::from_millis(100));
    let mut report = |what: &str| {
        if output::is_stderr_terminal() {
            bar.set_message(&format!("{name}: {what}"));
        } else {
            output::note(format_args!("{name}: {what}"));
        }
    };
    let trial = Trial::carry_out(campaign, scratch, base, limit, interrupted, &mut report).await;
    bar.finish_and_clear();
    trial
}

/// Prepares trials on the sites of a campaign. Returns the options, with the program for nodes if a site has nodes, and the signal by which the user
/// stops.
///
/// # Errors
/// cvc cannot find its own program, or the one for nodes.
pub(super) fn begin(spec: &Spec) -> Result<(Options, StopSignal), Failure> {
    let base = machine(&Where {
        campaigns: "campaigns".into(),
    })
    .options()?;
    if spec.sites.values().any(|s| s.cluster.is_some()) {
        find_node_program(spec, &plan::build(spec), &base)?;
    }
    Ok((base, listen()))
}

/// Prints that the user stopped the trials, or that there were none.
pub(super) fn show_none(
    out: &mut impl Write,
    is_interrupted: bool,
    is_empty: bool,
    none: &str,
) -> std::io::Result<()> {
    match (is_interrupted, is_empty) {
        (true, _) => writeln!(out, "stopped: the current trial was ended and removed"),
        (false, true) => writeln!(out, "{none}"),
        (false, false) => Ok(()),
    }
}

/// Returns why a trial has no result; `None` if it has one.
pub(super) fn problem_of(trial: &Trial) -> Option<String> {
    if let Some(problem) = trial.problem.as_ref().or(trial.late.as_ref()) {
        return Some(problem.clone());
    }
    match trial.outcome() {
        Some(Outcome::Failed { cause, detail }) => Some(format!("{}: {detail}", name_of(*cause))),
        _ => None,
    }
}

/// Returns the name of a cause in reports.
pub(super) fn name_of(cause: Cause) -> String {
    serde_json::to_value(cause)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Listens to signals; the first one requests to stop at once.
pub(super) fn listen() -> StopSignal {
    let (stop, stop_signal) = watch::channel(StopRequest::GoOn);
    tokio::spawn(async move {
        let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
        ) else {
            return std::future::pending().await;
        };
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => output::discard_terminal_output(),
            }
            stop.send_replace(StopRequest::StopNow);
        }
    });
    stop_signal
}
