//! The wish of the user to stop a campaign under way.

use tokio::sync::watch;

/// What the user wants of a campaign under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// Go on.
    GoOn,
    /// Finish the run under way, then stop.
    Finish,
    /// Stop at once.
    StopNow,
}

/// The line on which the wish comes.
pub type Wishes = watch::Receiver<Wish>;

/// Waits until the user wants to stop at once.
pub async fn stop_now(wishes: &mut Wishes) {
    // the sender lives as long as the program; without one nobody can want anything
    if wishes.wait_for(|w| *w == Wish::StopNow).await.is_err() {
        std::future::pending::<()>().await;
    }
}
