//! Settings of a session.

use camino::Utf8PathBuf;
use cvc_cloud::provider::Clouds;
use cvc_core::ids::PointId;
use cvc_sites::remote::Reach;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use tokio::time::Instant;

/// Options for running a campaign.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of all campaigns.
    pub campaigns: Utf8PathBuf,
    /// Directory of what cvc remembers of this machine.
    pub state: Utf8PathBuf,
    /// Program and arguments that start a shepherd.
    pub shepherd: Vec<String>,
    /// The program that cvc puts on nodes.
    pub node_program: Utf8PathBuf,
    /// Whether to retry runs that failed for good, and points that were set aside.
    pub retry_failed: bool,
    /// Whether to go on, and to try again, whatever fails in the same way.
    pub keep_going: bool,
    /// Maximum bytes that a run of a point needs in its storage area, if known.
    pub disk_bytes: HashMap<PointId, u64>,
    /// The clouds; `None` in a cvc that was built without any.
    pub clouds: Option<Arc<dyn Clouds>>,
    /// How the head nodes of sites are reached.
    pub reach: Arc<dyn Reach>,
    /// Expected duration of a run of a point, seconds, if known.
    pub expected_s: HashMap<PointId, f64>,
    /// The points that the session is limited to; `None`: all. Runs of the others are left for later sessions.
    pub only: Option<HashSet<PointId>>,
    /// The last block of runs that the session carries out; `None`: all.
    pub last_block: Option<u32>,
    /// The end of the session: no run is begun that would probably end later. The caller asks for a stop then.
    pub until: Option<Instant>,
    /// Whether to record the software of sites with several machines in the lock file, instead of comparing it.
    pub update_lock: bool,
}
