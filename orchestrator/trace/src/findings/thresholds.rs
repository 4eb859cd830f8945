//! Thresholds of findings.

use serde::{Deserialize, Serialize};

/// The thresholds of all findings; fields have Drishti's names where it has the same threshold.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// Reads or writes dominate if their numbers or bytes differ by more than this share of their sum.
    pub imbalance_operations: f64,
    /// Maximum size of a small operation, bytes.
    pub small_bytes: u64,
    /// Small operations are reported if their share exceeds this limit...
    pub small_requests: f64,
    /// ...and their number exceeds this one.
    pub small_requests_absolute: u64,
    /// Unaligned operations are reported if their share exceeds this limit.
    pub misaligned_requests: f64,
    /// Operations that move no bytes are reported if one process spends more time in them than this, seconds.
    pub metadata_time_rank: f64,
    /// Operations at random offsets are reported if their share exceeds this limit...
    pub random_operations: f64,
    /// ...and their number exceeds this one.
    pub random_operations_absolute: u64,
    /// The slowest and the fastest process of a shared file are reported if their bytes or times differ by more than this share of the file's bytes
    /// or time.
    pub imbalance_stragglers: f64,
    /// If all operations on a file take less than this time, seconds, differences between its processes are reported as information.
    pub short_s: f64,
    /// Different amounts of bytes per process are reported if the minimum is below the maximum by more than this share of the maximum.
    pub imbalance_size: f64,
    /// Streams of the C library are reported if their share of the bytes exceeds this limit.
    pub interface_stdio: f64,
    /// Independent MPI-IO operations are reported if there are more than this, and no collective ones.
    pub collective_operations_absolute: u64,
    /// A file is reported if more than this share of it was written by several processes.
    pub shared_bytes: f64,
    /// The last tenth of the files of a role is reported if completing it takes more than this share of the time for all of them.
    pub late_files: f64,
    /// A finding is information if it concerns few bytes and little time. Few bytes are less than this share of all bytes, or less than
    /// `stake_bytes`. Little time is less than this share of the time of all calls, or less than `short_s`.
    pub stake_share: f64,
    /// A number of bytes below this is few: see `stake_share`.
    pub stake_bytes: u64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            imbalance_operations: 0.1,
            small_bytes: 1 << 20,
            small_requests: 0.1,
            small_requests_absolute: 1000,
            misaligned_requests: 0.1,
            metadata_time_rank: 30.0,
            random_operations: 0.2,
            random_operations_absolute: 1000,
            imbalance_stragglers: 0.15,
            short_s: 0.1,
            imbalance_size: 0.3,
            interface_stdio: 0.1,
            collective_operations_absolute: 1000,
            shared_bytes: 0.0,
            late_files: 1.0 / 3.0,
            stake_share: 0.01,
            stake_bytes: 4096,
        }
    }
}
