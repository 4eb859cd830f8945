//! The last state of a campaign, with its pages. It is read again only when files change, so that many readers cost no more than one.

use crate::{page, snapshot::Snapshot};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    plan::Plan,
    store::{CampaignDir, StoreError},
};
use cvc_journal::CampaignState;
use cvc_session::{campaigns::read_plan, progress::Activity};
use handlebars::RenderError;
use hyper::body::Bytes;
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// A served campaign.
#[derive(Clone, Debug)]
pub struct Served {
    /// Directory of the campaign.
    pub campaign: CampaignDir,
    /// The HTML file of the campaign's report; it may not exist.
    pub report: Utf8PathBuf,
}

/// Maximum age of the shown costs while instances run.
const COSTS_LAST: Duration = Duration::from_secs(30);

/// Length and modification time of a file; `None` if the file does not exist.
type Stamp = Option<(u64, SystemTime)>;

fn stamp(file: &Utf8Path) -> Stamp {
    let found = file.metadata().ok()?;
    Some((found.len(), found.modified().ok()?))
}

/// Returns the stamps of all files that the pages depend on.
fn stamps(served: &Served) -> [Stamp; 3] {
    let campaign = &served.campaign;
    [&campaign.journal(), &campaign.plan(), &served.report].map(|file| stamp(file))
}

/// Why a campaign cannot be shown.
#[derive(Debug, thiserror::Error)]
#[error("the campaign cannot be read: {0}")]
pub(crate) enum ReadingError {
    Store(#[from] StoreError),
    Page(#[from] RenderError),
    Json(#[from] serde_json::Error),
}

/// A state of a campaign, with the overview made from it.
pub(crate) struct SnapshotReading {
    pub plan: Plan,
    pub state: CampaignState,
    /// The overview as HTML.
    pub page: Bytes,
    /// The overview as JSON.
    pub json: Bytes,
    stamps: [Stamp; 3],
    activity: Activity,
    /// Time after which the state is read again even if no file has changed.
    until: Option<Instant>,
}

/// The last state that was read, and the last report.
#[derive(Default)]
pub(crate) struct Current {
    reading: Mutex<Option<Arc<SnapshotReading>>>,
    report: Mutex<Option<(Stamp, Bytes)>>,
}

impl Current {
    /// Returns the current state. Clients that request it while it is being read wait for the result.
    pub fn reading(&self, served: &Served) -> Result<Arc<SnapshotReading>, ReadingError> {
        let mut last = self.reading.lock();
        // take the stamps before reading, so that a later change causes another reading
        let stamps = stamps(served);
        if let Some(reading) = &*last
            && reading.stamps == stamps
            // whether a cvc process is running the campaign is shown by a lock, which changes no file
            && reading.activity == Activity::of(&served.campaign, &reading.state)
            && reading.until.is_none_or(|until| Instant::now() < until)
        {
            return Ok(Arc::clone(reading));
        }
        // drop the old state before reading the new one, to save memory
        *last = None;
        let reading = Arc::new(read(served, stamps)?);
        *last = Some(Arc::clone(&reading));
        Ok(reading)
    }

    /// Returns the page of the report; `None` if there is no report.
    pub fn report(&self, file: &Utf8Path) -> Option<Bytes> {
        let mut last = self.report.lock();
        let stamp = stamp(file);
        if let Some((of, page)) = &*last
            && *of == stamp
        {
            return Some(page.clone());
        }
        let page = Bytes::from(std::fs::read(file).ok()?);
        *last = Some((stamp, page.clone()));
        Some(page)
    }
}

fn read(served: &Served, stamps: [Stamp; 3]) -> Result<SnapshotReading, ReadingError> {
    let dir = &served.campaign;
    let plan = read_plan(dir)?;
    let state = CampaignState::read(&dir.journal())?;
    let snapshot = Snapshot::of(dir, &plan, &state);
    let page = page::overview(&snapshot, served.report.is_file())?;
    let json = serde_json::to_vec_pretty(&snapshot)?;
    Ok(SnapshotReading {
        plan,
        state,
        page: page.into(),
        json: json.into(),
        stamps,
        activity: snapshot.activity,
        // costs and the remaining time change even without writes to files
        until: (snapshot.instances > 0 || snapshot.activity == Activity::UnderWay)
            .then(|| Instant::now() + COSTS_LAST),
    })
}
