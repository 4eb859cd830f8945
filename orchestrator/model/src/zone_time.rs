//! Time to store a zone, from the thesis's straight lines through traced writes (equations 5.1 to 5.3).

use super::{
    check::not_negative,
    curve::{ModelInfo, Tier},
    fit::FitError,
};

/// The description of the sum of the three lines.
pub const INFO: ModelInfo = ModelInfo {
    id: "latency-zones-published",
    title: "straight lines through traced writes of each zone",
    formula: "s = 1.460e-7·DTAPP + 1.321e-7·LB + 1.536e-7·SHMEM − 0.0151, sizes in bytes",
    source: "thesis, equations 5.1 to 5.3: one AFS-1 node, local ext3 disk; off by 22 and 19 %",
    tier: Tier::Published,
    parameters: 0,
};

/// A straight line with its slope in s/byte and its offset in s.
struct Line {
    slope: f64,
    offset: f64,
}

/// Equation 5.1.
const DTAPP: Line = Line {
    slope: 1.460_413_08e-7,
    offset: -0.004_043_67,
};
/// Equation 5.2.
const LB: Line = Line {
    slope: 1.320_565_4e-7,
    offset: -0.000_141_56,
};
/// Equation 5.3.
const SHMEM: Line = Line {
    slope: 1.535_962_6e-7,
    offset: -0.010_924_2,
};

impl Line {
    fn at(&self, what: &str, bytes: f64) -> Result<f64, FitError> {
        // below some tens of KiB the lines are negative
        Ok((self.slope * not_negative(what, bytes)? + self.offset).max(0.0))
    }
}

/// Returns the seconds to store the application's data: 1.46041308e-7·x − 0.00404367, x in bytes, not below 0. Source: thesis, equation 5.1.
///
/// # Errors
/// A negative or non-finite size.
pub fn dtapp_s(bytes: f64) -> Result<f64, FitError> {
    DTAPP.at("the size of the data zone", bytes)
}

/// Returns the seconds to store the libraries: 1.3205654e-7·x − 0.00014156, x in bytes, not below 0. Source: thesis, equation 5.2.
///
/// # Errors
/// A negative or non-finite size.
pub fn lb_s(bytes: f64) -> Result<f64, FitError> {
    LB.at("the size of the library zone", bytes)
}

/// Returns the seconds to store the shared memory: 1.5359626e-7·x − 0.0109242, x in bytes, not below 0. Source: thesis, equation 5.3.
///
/// # Errors
/// A negative or non-finite size.
pub fn shmem_s(bytes: f64) -> Result<f64, FitError> {
    SHMEM.at("the size of the shared-memory zone", bytes)
}

/// Returns the seconds of one checkpoint: the sum of the times of the three zones. Sizes are in bytes. The lines correspond to 6.2 to 7.2 MiB/s per
/// process, independent of the number of writers; [`super::latency`] takes into account that processes share a disk.
///
/// # Errors
/// A size is negative or not finite.
pub fn checkpoint_s(dtapp_bytes: f64, lb_bytes: f64, shmem_bytes: f64) -> Result<f64, FitError> {
    Ok(dtapp_s(dtapp_bytes)? + lb_s(lb_bytes)? + shmem_s(shmem_bytes)?)
}
