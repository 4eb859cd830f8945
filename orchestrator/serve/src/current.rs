//! A campaign as it was last read, with its pages: read again only when its files change, so that many readers cost as much as one.

use crate::{page, snapshot::Snapshot};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{plan::Plan, store::CampaignDir};
use cvc_journal::CampaignState;
use cvc_session::campaigns::read_plan;
use hyper::body::Bytes;
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// What is served.
#[derive(Clone, Debug)]
pub struct Served {
    /// Directory of the campaign.
    pub campaign: CampaignDir,
    /// The page of its report, which need not exist.
    pub report: Utf8PathBuf,
}

/// How long costs of instances that run count as those of now.
const COSTS_LAST: Duration = Duration::from_secs(30);

/// Length and time of a file; `None` without one.
type Stamp = Option<(u64, SystemTime)>;

fn stamp(file: &Utf8Path) -> Stamp {
    let found = file.metadata().ok()?;
    Some((found.len(), found.modified().ok()?))
}

/// The stamps of everything that pages are made of.
fn stamps(served: &Served) -> [Stamp; 3] {
    let campaign = &served.campaign;
    [&campaign.journal(), &campaign.plan(), &served.report].map(|file| stamp(file))
}

/// A campaign as it was read.
pub(crate) struct Reading {
    pub plan: Plan,
    pub state: CampaignState,
    /// The overview.
    pub page: Bytes,
    /// The same as JSON.
    pub json: Bytes,
    stamps: [Stamp; 3],
    /// When it is old whatever its files are.
    until: Option<Instant>,
}

/// The last reading, and the last report.
#[derive(Default)]
pub(crate) struct Current {
    reading: Mutex<Option<Arc<Reading>>>,
    report: Mutex<Option<(Stamp, Bytes)>>,
}

impl Current {
    /// The campaign as it is now. Who comes while it is read waits for that reading.
    pub fn reading(&self, served: &Served) -> Result<Arc<Reading>, String> {
        let mut last = self.reading.lock();
        // before it is read: what changes meanwhile is read again
        let stamps = stamps(served);
        if let Some(reading) = &*last
            && reading.stamps == stamps
            && reading.until.is_none_or(|until| Instant::now() < until)
        {
            return Ok(Arc::clone(reading));
        }
        // not two of them in memory
        *last = None;
        let reading = Arc::new(read(served, stamps)?);
        *last = Some(Arc::clone(&reading));
        Ok(reading)
    }

    /// The page of the report, if there is one.
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

fn read(served: &Served, stamps: [Stamp; 3]) -> Result<Reading, String> {
    let dir = &served.campaign;
    let plan = read_plan(dir).map_err(|e| e.to_string())?;
    let state = CampaignState::read(&dir.journal()).map_err(|e| e.to_string())?;
    let snapshot = Snapshot::of(dir, &plan, &state);
    let page = page::overview(&snapshot, served.report.is_file()).map_err(|e| e.to_string())?;
    let json = serde_json::to_vec_pretty(&snapshot).map_err(|e| e.to_string())?;
    Ok(Reading {
        plan,
        state,
        page: page.into(),
        json: json.into(),
        stamps,
        until: (snapshot.instances > 0).then(|| Instant::now() + COSTS_LAST),
    })
}
