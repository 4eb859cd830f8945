//! Time to store a zone, by the thesis's straight lines through traced writes (equations 5.1 to 5.3).

use super::{
    check::not_negative,
    estimate::{Estimate, Interval},
    fit::FitError,
};

/// Slope in s/byte and offset in s.
struct Line {
    slope: f64,
    offset: f64,
}

/// Equation 5.1.
const DTAPP: Line = Line { slope: 1.460_413_08e-7, offset: -0.004_043_67 };
/// Equation 5.2.
const LB: Line = Line { slope: 1.320_565_4e-7, offset: -0.000_141_56 };
/// Equation 5.3.
const SHMEM: Line = Line { slope: 1.535_962_6e-7, offset: -0.010_924_2 };

impl Line {
    fn at(&self, what: &str, bytes: f64) -> Result<f64, FitError> {
        // below some tens of KiB the lines run under zero
        Ok((self.slope * not_negative(what, bytes)? + self.offset).max(0.0))
    }
}

/// Seconds to store the application's data: 1.46041308e-7·x − 0.00404367, x in bytes, not below 0. Source: thesis, equation 5.1.
///
/// # Errors
/// A negative or non-finite size.
pub fn dtapp_s(bytes: f64) -> Result<f64, FitError> {
    DTAPP.at("the size of the data zone", bytes)
}

/// Seconds to store the libraries: 1.3205654e-7·x − 0.00014156, x in bytes, not below 0. Source: thesis, equation 5.2.
///
/// # Errors
/// A negative or non-finite size.
pub fn lb_s(bytes: f64) -> Result<f64, FitError> {
    LB.at("the size of the library zone", bytes)
}

/// Seconds to store the shared memory: 1.5359626e-7·x − 0.0109242, x in bytes, not below 0. Source: thesis, equation 5.3.
///
/// # Errors
/// A negative or non-finite size.
pub fn shmem_s(bytes: f64) -> Result<f64, FitError> {
    SHMEM.at("the size of the shared-memory zone", bytes)
}

/// Seconds of one checkpoint: the sum of the three zones' times. Sizes in bytes. The lines amount to 6.2 to 7.2 MiB/s for each process,
/// however many write at once; [`super::latency`] knows that they share a disk.
///
/// # Errors
/// A negative or non-finite size.
pub fn checkpoint_s(dtapp_bytes: f64, lb_bytes: f64, shmem_bytes: f64) -> Result<f64, FitError> {
    Ok(dtapp_s(dtapp_bytes)? + lb_s(lb_bytes)? + shmem_s(shmem_bytes)?)
}

/// The same for predicted sizes in MiB; the interval is that of the sizes, and says nothing of how well the lines hold.
///
/// # Errors
/// A negative or non-finite size.
pub fn estimate_s(dtapp: Estimate, lb: Estimate, shmem: Estimate) -> Result<Estimate, FitError> {
    let bytes = |mib: f64| mib.max(0.0) * 1_048_576.0;
    let of = |d: f64, l: f64, s: f64| checkpoint_s(bytes(d), bytes(l), bytes(s));
    let ends = dtapp.interval.zip(lb.interval).zip(shmem.interval);
    let interval = match ends {
        Some(((d, l), s)) => Some(Interval { low: of(d.low, l.low, s.low)?, high: of(d.high, l.high, s.high)? }),
        None => None,
    };
    Ok(Estimate { value: checkpoint_s(dtapp.value * 1_048_576.0, lb.value * 1_048_576.0, shmem.value * 1_048_576.0)?, interval })
}
