//! The cost of checkpoints that are written while the program continues (asynchronous), and of those for which it waits (synchronous).

use super::{
    check::{finite, not_negative, positive},
    fit::FitError,
};

/// Returns the seconds that `checkpoints` asynchronous checkpoints add: n·m·S/B. S is the volume of one checkpoint on a node, B the node's memory
/// bandwidth in the same unit of volume per second, and m the memory traffic in bytes per byte written (5 to 7 for Open MPI). The copy competes
/// with the program for memory, not for the network or the disk. Source: Shahzad and others, An Evaluation of Different I/O Techniques for
/// Checkpoint/Restart, slides.
///
/// # Errors
/// A value is negative, or the bandwidth is 0.
pub fn overhead_s(
    checkpoints: u32,
    traffic_per_byte: f64,
    size: f64,
    memory_bandwidth: f64,
) -> Result<f64, FitError> {
    let traffic = not_negative("the memory traffic per byte", traffic_per_byte)?;
    let volume = not_negative("the size of a checkpoint", size)?;
    finite(
        "the overhead",
        f64::from(checkpoints) * traffic * volume
            / positive("the memory bandwidth", memory_bandwidth)?,
    )
}

/// Returns the seconds that `checkpoints` synchronous checkpoints add: n·S/B, with S the volume of one checkpoint and B the bandwidth of the file
/// system in the same unit of volume per second. Source: see [`overhead_s`].
///
/// # Errors
/// A value is negative, or the bandwidth is 0.
pub fn synchronous_s(checkpoints: u32, size: f64, io_bandwidth: f64) -> Result<f64, FitError> {
    let volume = not_negative("the size of a checkpoint", size)?;
    finite(
        "the overhead",
        f64::from(checkpoints) * volume / positive("the I/O bandwidth", io_bandwidth)?,
    )
}
