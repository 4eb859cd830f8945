//! Opens sites concurrently: that takes minutes, while runs of other sites continue.

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
    /// To carry out runs.
    Run,
    /// To end and remove what an earlier controller left when it was killed.
    Clear,
}

/// A site that is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenPlan {
    pub(super) site: String,
    pub(super) purpose: Purpose,
}

/// The result of an opening: the open site, or `None` if nothing is left there.
pub(super) type Opened = Result<Option<Remote>, CampaignError>;

/// A site that is being opened.
pub(super) struct Admitted {
    pub(super) site: String,
    pub(super) purpose: Purpose,
    pub(super) was_open: bool,
    pub(super) points: Vec<PlannedPoint>,
}

/// Sites that are being opened concurrently with runs of others.
#[derive(Default)]
pub(super) struct Openings {
    pub(super) tasks: JoinSet<(Admitted, Opened)>,
    /// Clouds that are opened when the cost of the previous one is known.
    pub(super) waiting: VecDeque<OpenPlan>,
    /// The cloud that is being opened and whose cost the clouds in `waiting` need.
    pub(super) awaited: Option<String>,
    /// Stops the openings in progress.
    pub(super) halt: Arc<StopRequests>,
    /// Forwards the user's stop requests to the openings.
    pub(super) forward: Option<AbortOnDropHandle<()>>,
}

/// The end of an opening, with its result.
pub(super) type EndOfOpening = Result<(Admitted, Opened), JoinError>;

impl Openings {
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.waiting.is_empty()
    }

    /// Waits until the next opening ends; `None` if nothing is being opened.
    pub(super) async fn next(&mut self) -> Option<EndOfOpening> {
        self.tasks.join_next().await
    }
}
