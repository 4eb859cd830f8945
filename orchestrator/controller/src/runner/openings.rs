//! Sites that are being opened, beside everything else: that takes minutes, while runs of other sites go on.

use cvc_sites::error::CampaignError;

use cvc_core::point::PlannedPoint;

use cvc_core::stop::StopRequests;
use cvc_sites::remote::Remote;
use std::{collections::VecDeque, sync::Arc};
use tokio::task::{JoinError, JoinSet};
use tokio_util::task::AbortOnDropHandle;

/// The purpose of opening a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Something is to be run there.
    Run,
    /// An earlier controller was killed before it had removed everything.
    Clear,
}

/// A site that is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenPlan {
    pub(super) site: String,
    pub(super) purpose: Purpose,
}

/// The result of an opening: the site takes runs, or nothing is left there.
pub(super) type Opened = Result<Option<Remote>, CampaignError>;

/// A site that is being opened.
pub(super) struct Admitted {
    pub(super) site: String,
    pub(super) purpose: Purpose,
    pub(super) was_open: bool,
    pub(super) points: Vec<PlannedPoint>,
}

/// Sites that are being opened beside runs of others.
#[derive(Default)]
pub(super) struct Openings {
    pub(super) tasks: JoinSet<(Admitted, Opened)>,
    /// Clouds that wait until the cost of the one before is known.
    pub(super) waiting: VecDeque<OpenPlan>,
    /// The one whose cost they wait for.
    pub(super) awaited: Option<String>,
    /// Ends the openings.
    pub(super) halt: Arc<StopRequests>,
    /// Passes the user's requests to stop on to them.
    pub(super) forward: Option<AbortOnDropHandle<()>>,
}

/// The end of an opening.
pub(super) type EndOfOpening = Result<(Admitted, Opened), JoinError>;

impl Openings {
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.waiting.is_empty()
    }

    /// Waits for the next end; `None` if nothing is being opened.
    pub(super) async fn next(&mut self) -> Option<EndOfOpening> {
        self.tasks.join_next().await
    }
}
