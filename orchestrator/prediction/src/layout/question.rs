//! A question about layouts.

use cvc_model::metadata::{MetadataSetting, cost::StorageRates};

/// The checkpoints that a job writes, and the storage.
#[derive(Clone, Debug)]
pub struct LayoutQuestion {
    /// Number of processes.
    pub processes: u32,
    /// Processes on each node.
    pub per_node: u32,
    /// Bytes of one checkpoint over all processes.
    pub bytes: u64,
    /// Number of checkpoints.
    pub checkpoints: u64,
    /// Number of metadata servers.
    pub servers: u64,
    /// Rates of the storage.
    pub rates: StorageRates,
    /// Seconds from one checkpoint to the next.
    pub interval_s: Option<f64>,
    /// Number of checkpoints kept.
    pub keep: u64,
    /// Maximum number of files, from a quota or the number of inodes.
    pub file_limit: Option<u64>,
    /// Bytes of a stripe.
    pub stripe_bytes: Option<u64>,
    /// Bytes that a process writes to a strided file before the bytes of the next process begin.
    pub block_bytes: Option<u64>,
    /// Number of DMTCP's launcher processes, and whether images are compressed.
    pub dmtcp: Option<(u32, bool)>,
}

impl LayoutQuestion {
    /// Returns the number of nodes of the job.
    pub fn nodes(&self) -> u64 {
        u64::from(self.processes.div_ceil(self.per_node.max(1)))
    }

    pub(super) fn setting(&self) -> MetadataSetting {
        MetadataSetting {
            clients: u64::from(self.processes),
            checkpoints: self.checkpoints,
            servers: self.servers,
        }
    }
}
