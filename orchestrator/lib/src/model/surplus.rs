//! What the image of an I/O aggregator has above those of other processes.

use super::{check::at_least_one, fit::FitError};
use serde::Serialize;

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// Growth of the surplus for each process, MiB, from the eight configurations of Table 5.8.
pub const PER_PROCESS_MIB: f64 = 0.228;

/// ROMIO's default collective buffer, MiB.
pub const ROMIO_BUFFER_MIB: f64 = 16.0;

/// The layer that does the collective I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IoLayer {
    /// MPICH's, and Open MPI's choice.
    Romio,
    /// Open MPI's own.
    Ompio,
}

/// MiB of the default collective buffer, which Algorithm 1 adds to an aggregator: 16 with ROMIO, 32 with OMPIO. Source: thesis, section 4.1.1.
pub fn constant_mib(layer: IoLayer) -> f64 {
    match layer {
        IoLayer::Romio => ROMIO_BUFFER_MIB,
        IoLayer::Ompio => 32.0,
    }
}

/// MiB of an aggregator's surplus: min(16, V/Na) + 0.228·P, with V the MiB of one collective write and Na the aggregators. Source: the buffer is no larger
/// than its share of the data, and the lists of the exchange grow with the processes; the slope is fitted to Table 5.8.
///
/// # Errors
/// No aggregator, or no process.
pub fn aggregator_mib(write_bytes: u64, aggregators: u32, processes: u32) -> Result<f64, FitError> {
    Ok(buffer_mib(write_bytes, aggregators)? + PER_PROCESS_MIB * at_least_one("the number of processes", processes)?)
}

/// MiB of the buffer that an aggregator fills: min(16, V/Na).
///
/// # Errors
/// No aggregator.
pub fn buffer_mib(write_bytes: u64, aggregators: u32) -> Result<f64, FitError> {
    let share = write_bytes as f64 / MIB / at_least_one("the number of aggregators", aggregators)?;
    Ok(share.min(ROMIO_BUFFER_MIB))
}

/// Bytes of one collective write of BT-IO: 40·N³, five values of 8 bytes for each grid point.
pub fn bt_io_write_bytes(grid_points: u32) -> u64 {
    40 * u64::from(grid_points).pow(3)
}

#[cfg(test)]
mod tests {
    use super::{aggregator_mib, bt_io_write_bytes, buffer_mib};

    #[test]
    fn the_buffer_is_no_larger_than_its_share_of_the_write() {
        let b = bt_io_write_bytes(102);
        assert!((b as f64 / 1_048_576.0 - 40.48).abs() < 0.01);
        assert_eq!(buffer_mib(b, 1), Ok(16.0));
        assert!((buffer_mib(b, 4).expect("a size") - 10.12).abs() < 0.01);
        assert!((aggregator_mib(b, 4, 16).expect("a size") - (10.12 + 3.648)).abs() < 0.01);
        assert!(aggregator_mib(b, 0, 16).is_err() && aggregator_mib(b, 4, 0).is_err());
    }
}
