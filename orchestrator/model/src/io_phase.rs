//! Time of a program's I/O phases, from the bandwidth that a benchmark with the same pattern reaches. Source: Méndez and others, A new
//! approach for Analyzing I/O in parallel scientific applications (PAS2P-I/O).

use super::{
    check::{at_least_one, finite, not_negative, positive},
    fit::{FitError, least_squares_not_negative, relative_weights},
    stats::{mean, sample_sd},
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

/// The time of a call as a line in its size, for a number of processes that call at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallLaw {
    /// Seconds of each call, whatever its size.
    pub per_call_s: f64,
    /// Seconds of each unit of size in addition.
    pub per_unit_s: f64,
    /// Pearson's correlation of size and time (thesis, equation 3.7); `None` if all times are equal.
    pub correlation: Option<f64>,
}

impl CallLaw {
    /// Fits pairs of size and seconds, with equal relative errors and without negative parts.
    ///
    /// # Errors
    /// There are fewer than two sizes, or a value is not positive.
    pub fn fit(points: &[(f64, f64)]) -> Result<Self, FitError> {
        for (size, seconds) in points {
            positive("the size of a call", *size)?;
            positive("the time of a call", *seconds)?;
        }
        let (sizes, times): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
        let first = sizes.first().copied().unwrap_or_default();
        if sizes.iter().all(|size| *size == first) {
            return Err(FitError::TooFewPoints {
                found: sizes.len().min(1),
                needed: 2,
            });
        }
        let rows: Vec<Vec<f64>> = sizes.iter().map(|size| vec![1.0, *size]).collect();
        let (kept, fit) = least_squares_not_negative(&rows, &times, &relative_weights(&times))?;
        let of = |parameter: usize| {
            let place = kept.iter().position(|k| *k == parameter);
            place.map_or(0.0, |i| fit.coefficients[i])
        };
        Ok(Self {
            per_call_s: of(0),
            per_unit_s: of(1),
            correlation: correlation(&sizes, &times),
        })
    }

    /// Returns the seconds of a call.
    #[must_use]
    pub fn seconds(&self, size: f64) -> f64 {
        self.per_call_s + self.per_unit_s * size
    }
}

/// Returns Pearson's correlation, Σ z_x z_y / N with standardised values.
fn correlation(x: &[f64], y: &[f64]) -> Option<f64> {
    let (mean_x, mean_y) = (mean(x)?, mean(y)?);
    let products = x.iter().zip(y).map(|(a, b)| (a - mean_x) * (b - mean_y));
    let scale = (x.len() as f64 - 1.0) * sample_sd(x)? * sample_sd(y)?;
    let r = products.sum::<f64>() / scale;
    r.is_finite().then(|| r.clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::CallLaw;

    #[test]
    fn a_call_takes_a_latency_and_a_time_of_each_byte() {
        let points = [4.0, 32.0, 256.0, 2048.0].map(|size| (size, 0.01 + 0.002 * size));
        let law = CallLaw::fit(&points).expect("a line");
        assert!((law.per_call_s - 0.01).abs() < 1e-9, "{law:?}");
        assert!((law.per_unit_s - 0.002).abs() < 1e-9, "{law:?}");
        assert!(law.correlation > Some(0.999_999), "{law:?}");
        assert!((law.seconds(100.0) - 0.21).abs() < 1e-9, "{law:?}");
        // larger calls that take no longer leave no negative part
        let flat = CallLaw::fit(&[(4.0, 2.0), (8.0, 1.0), (16.0, 1.0)]).expect("a line");
        assert!(flat.per_unit_s == 0.0 && flat.per_call_s > 0.0, "{flat:?}");
        assert!(flat.correlation < Some(0.0), "{flat:?}");
        assert!(CallLaw::fit(&[(4.0, 1.0), (4.0, 2.0)]).is_err());
        assert!(CallLaw::fit(&[(4.0, 1.0), (8.0, 0.0)]).is_err());
    }
}
