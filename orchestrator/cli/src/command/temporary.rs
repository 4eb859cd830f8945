//! Trials of commands: what they show of them, and how the user stops them.

use crate::output;
use cvc_controller::runner::Options;
use cvc_core::campaign::Spec;
use cvc_core::outcome::Cause;
use cvc_core::plan::Plan;
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_session::{Scratch, Trial};
use std::time::Duration;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// Carries out the only run of a plan, for at most `limit` once it has begun, and shows its progress; `name` stands in messages.
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

/// The cause as it is called in reports.
pub(super) fn name_of(cause: Cause) -> String {
    serde_json::to_value(cause)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Listens to the user's requests to stop: the first one stops at once.
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
                _ = hangup.recv() => output::speak_to_nobody(),
            }
            stop.send_replace(StopRequest::StopNow);
        }
    });
    stop_signal
}
