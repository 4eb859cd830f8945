//! The user's request to stop a campaign that is running.

use tokio::sync::watch;

/// A request of the user to a running campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// Go on.
    GoOn,
    /// Finish the run under way, then stop.
    Finish,
    /// Stop at once.
    StopNow,
}

/// Receives the request.
pub type StopSignal = watch::Receiver<StopRequest>;

/// Waits until the user asks to stop at once.
pub async fn stop_now(stop_signal: &mut StopSignal) {
    // the sender lives as long as the program; without it no request can come
    if stop_signal.wait_for(|w| *w == StopRequest::StopNow).await.is_err() {
        std::future::pending::<()>().await;
    }
}
