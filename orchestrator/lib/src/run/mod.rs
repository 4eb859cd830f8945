//! The engine: the one part that touches the world. A coordinator walks through the plan; each run is prepared, executed, collected.

mod bench;
mod brief;
mod collect;
mod coordinator;
mod dmtcp;
mod error;
mod execute;
mod news;
mod nodes;
mod observe;
mod outputs;
mod placement;
mod prepare;
mod recover;
mod restart;
mod shepherd;
mod site;
mod slurm_steps;

pub use bench::Task;
pub use bench::free_bytes;
pub(crate) use bench::{Attempted, Bench, Debts, seal};
pub use brief::Brief;
pub use coordinator::{Options, Summary, close_campaign, run_campaign};
pub use error::EngineError;
pub(crate) use news::{News, Teller};
pub(crate) use nodes::{LATER, Node, Nodes, SOON, Ways};
pub use observe::{Observer, Progress, Quiet};
pub(crate) use prepare::area_name;
pub(crate) use recover::OutcomeFile;
pub(crate) use site::template_values;
pub use site::{Readiness, ReadySite};
pub(crate) use slurm_steps::Steps;

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
pub(crate) async fn stop_now(wishes: &mut Wishes) {
    // the sender lives as long as the program; without one nobody can want anything
    if wishes.wait_for(|w| *w == Wish::StopNow).await.is_err() {
        std::future::pending::<()>().await;
    }
}
