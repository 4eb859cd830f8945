//! The zone of shared libraries in an image. It does not depend on the number of processes, the class or the mapping.

use super::estimate::{Estimate, Interval};

const fn around(value: f64, half: f64) -> Estimate {
    Estimate { value, interval: Some(Interval { low: value - half, high: value + half }) }
}

/// MiB with MPICH 3 and DMTCP 2 (thesis, Tables 4.1 to 4.3 and 5.1: 2.44 or 2.45 in every row).
pub const MPICH_MIB: Estimate = around(2.45, 0.01);

/// MiB with the thesis's Open MPI (Table 5.1: 2.66 to 2.75).
pub const OPEN_MPI_MIB: Estimate = around(2.72, 0.06);

/// MiB with ROMIO linked, MPICH 3 (Table 5.10: 7.71; Table 5.7: 7.96).
pub const ROMIO_MIB: Estimate = Estimate { value: 7.71, interval: Some(Interval { low: 7.7, high: 7.97 }) };
