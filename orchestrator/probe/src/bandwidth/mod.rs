//! Bandwidth of memory, storage and network of a machine: measured inputs of the models of checkpoints.

mod counters;
mod memory;
mod network;
mod storage;

pub use memory::{MemoryBandwidth, memory_bandwidth};
pub use network::{NetworkBandwidth, receive_bandwidth, send_bandwidth};
pub use storage::{
    BesideWriter, StorageBandwidth, StorageError, TrafficSource, memory_with_writer,
    storage_bandwidth,
};

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;
