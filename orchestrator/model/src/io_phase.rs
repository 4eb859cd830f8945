//! Time of a program's I/O phases, from the bandwidth that a benchmark with the same pattern reaches. Source: Méndez and others, A new
//! approach for Analyzing I/O in parallel scientific applications (PAS2P-I/O).

use super::{
    check::{at_least_one, finite, not_negative, positive},
    fit::FitError,
};

/// Returns the volume of a phase: processes · repetitions · request size, in the unit of the request size.
///
/// # Errors
/// Zero processes, or a negative request size.
pub fn weight(processes: u32, repetitions: u32, request_size: f64) -> Result<f64, FitError> {
    let requests = at_least_one("the number of processes", processes)? * f64::from(repetitions);
    finite(
        "the weight",
        requests * not_negative("the request size", request_size)?,
    )
}

/// Returns the seconds of phases: Σ weightᵢ/BWᵢ, given pairs of weight and bandwidth in the same unit of volume.
///
/// # Errors
/// A negative weight, or a bandwidth that is not positive.
pub fn time_s(phases: &[(f64, f64)]) -> Result<f64, FitError> {
    let one = |(weight, bandwidth): &(f64, f64)| {
        Ok(not_negative("a weight", *weight)? / positive("a bandwidth", *bandwidth)?)
    };
    phases.iter().map(one).sum()
}

/// Returns the bandwidth of a phase: weight/time, in units of the weight per second.
///
/// # Errors
/// A negative weight, or a time that is not positive.
pub fn bandwidth(weight: f64, time_s: f64) -> Result<f64, FitError> {
    finite(
        "the bandwidth",
        not_negative("the weight", weight)? / positive("the time", time_s)?,
    )
}

/// Returns the relative error of times: 100·|estimated − measured|/measured.
///
/// # Errors
/// A time is not positive.
pub fn error_on_time_pct(estimated_s: f64, measured_s: f64) -> Result<f64, FitError> {
    let (estimated, measured) = (
        positive("the estimated time", estimated_s)?,
        positive("the measured time", measured_s)?,
    );
    Ok(100.0 * (estimated - measured).abs() / measured)
}

/// Returns the relative error of bandwidths as the paper defines it, 100·|BW_estimated − BW_measured|/BW_measured. In times, it is
/// 100·|measured/estimated − 1|.
///
/// # Errors
/// A time is not positive.
pub fn error_on_bandwidth_pct(estimated_s: f64, measured_s: f64) -> Result<f64, FitError> {
    error_on_time_pct(measured_s, estimated_s)
}
