//! Settings of a session.

use camino::Utf8PathBuf;
use cvc_cloud::provider::Clouds;
use cvc_core::ids::PointId;
use cvc_sites::remote::NodeReach;
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
    /// Directory of cvc's state on this machine.
    pub state: Utf8PathBuf,
    /// Program and arguments that start a shepherd, the process that supervises a run.
    pub shepherd: Vec<String>,
    /// The program that cvc copies to nodes.
    pub node_program: Utf8PathBuf,
    /// Whether to retry runs that have no attempt left, and quarantined points.
    pub retry_failed: bool,
    /// Whether to continue, and to retry, when runs fail in the same way.
    pub keep_going: bool,
    /// Maximum number of bytes that a run of each point needs in its storage area, where known.
    pub disk_bytes: HashMap<PointId, u64>,
    /// The clouds; `None` if this cvc was built without any.
    pub clouds: Option<Arc<dyn Clouds>>,
    /// How the head nodes of sites are reached.
    pub reach: Arc<dyn NodeReach>,
    /// Expected duration of a run of each point, seconds, where known.
    pub expected_s: HashMap<PointId, f64>,
    /// The points that the session is limited to; `None` for all. Runs of other points are left for later sessions.
    pub only: Option<HashSet<PointId>>,
    /// The last block of runs that the session carries out; `None` for all blocks.
    pub last_block: Option<u32>,
    /// The end of the session. No run begins that would probably end later; the caller requests a stop at this time.
    pub until: Option<Instant>,
    /// Whether to record the software of sites with several machines in the lock file, instead of comparing it with the file.
    pub update_lock: bool,
}
