//! The stop_request of the user to stop a campaign under way.

use tokio::sync::watch;

/// What the user wants of a campaign under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// Go on.
    GoOn,
    /// Finish the run under way, then stop.
    Finish,
    /// Stop at once.
    StopNow,
}

/// The line on which the stop_request comes.
pub type StopSignal = watch::Receiver<StopRequest>;

/// Waits until the user wants to stop at once.
pub async fn stop_now(stop_signal: &mut StopSignal) {
    // the sender lives as long as the program; without one nobody can want anything
    if stop_signal.wait_for(|w| *w == StopRequest::StopNow).await.is_err() {
        std::future::pending::<()>().await;
    }
}
