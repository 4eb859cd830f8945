//! From where on something is told.

use serde::{Deserialize, Serialize};

/// The thresholds of all findings; the names are Drishti's where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// Reads or writes dominate if the difference is more than this share of both.
    pub imbalance_operations: f64,
    /// An operation of at most so many bytes is small.
    pub small_bytes: u64,
    /// More than this share of small operations is told...
    pub small_requests: f64,
    /// ...if they are more than so many.
    pub small_requests_absolute: u64,
    /// More than this share of operations that are not aligned is told.
    pub misaligned_requests: f64,
    /// More than so many seconds of one process in operations that move no bytes are told.
    pub metadata_time_rank: f64,
    /// More than this share of operations at random places is told...
    pub random_operations: f64,
    /// ...if they are more than so many.
    pub random_operations_absolute: u64,
    /// The slowest and the fastest process of a shared file differ by more than this share of its bytes or its time.
    pub imbalance_stragglers: f64,
    /// What differs between processes of a file that takes fewer seconds than this, all together, is told as something to know.
    pub short_s: f64,
    /// The process that moves least moves by more than this share less than the one that moves most.
    pub imbalance_size: f64,
    /// More than this share of all bytes through streams of the C library is told.
    pub interface_stdio: f64,
    /// More than so many independent operations through MPI-IO without a collective one are told.
    pub collective_operations_absolute: u64,
    /// More than this share of a file that several processes wrote is told.
    pub shared_bytes: f64,
    /// The last tenth of the files of a role takes more than this share of the time of all.
    pub late_files: f64,
    /// What concerns less than this share of all bytes, or fewer bytes than `stake_bytes`, ...
    pub stake_share: f64,
    /// ... and less than this share of the time of all calls, or fewer seconds than `short_s`, is something to know.
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
