//! Time of a checkpoint from the bandwidth that so many writers on a node reach together.

use super::{
    check::{at_least_one, finite, not_negative, positive},
    fit::{Fit, FitError, least_squares},
};
use serde::Serialize;

/// Bandwidth of a node with p writers: a + b·p, MiB/s. Source: the latencies without compression of the thesis's Tables 5.3 and 5.5; a disk that many
/// files are written to at once takes more in all, and less for each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bandwidth {
    /// MiB/s.
    pub a: f64,
    /// MiB/s for each process.
    pub b: f64,
}

/// A run's checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Written {
    /// Processes on the node.
    pub per_node: u32,
    /// MiB of the file of each.
    pub file_mib: f64,
    /// Seconds from the request to the last byte.
    pub latency_s: f64,
}

impl Written {
    /// MiB/s of the node.
    ///
    /// # Errors
    /// Values that are not positive.
    pub fn bandwidth(self) -> Result<f64, FitError> {
        let p = at_least_one("the number of processes on the node", self.per_node)?;
        Ok(p * positive("the size of a file", self.file_mib)? / positive("the latency", self.latency_s)?)
    }
}

impl Bandwidth {
    /// Through the bandwidths of `runs`, by least squares with weights 1/p: the rate of a node is the sum of those of its p writers, and its variance grows
    /// with p.
    ///
    /// # Errors
    /// Fewer than two numbers of processes, or values that are not positive.
    pub fn fit(runs: &[Written]) -> Result<(Self, Fit), FitError> {
        let mut rows = Vec::with_capacity(runs.len());
        let mut values = Vec::with_capacity(runs.len());
        for run in runs {
            values.push(run.bandwidth()?);
            rows.push(vec![1.0, f64::from(run.per_node)]);
        }
        if rows.is_empty() {
            return Err(FitError::TooFewPoints { found: 0, needed: 2 });
        }
        let weights: Vec<f64> = rows.iter().map(|row| 1.0 / row[1]).collect();
        let fit = least_squares(&rows, &values, Some(&weights))?;
        Ok((Self { a: fit.coefficients[0], b: fit.coefficients[1] }, fit))
    }

    /// Seconds of a checkpoint of `per_node` files of `file_mib`: p·file/(a + b·p).
    ///
    /// # Errors
    /// No process, a negative size, or parameters with no bandwidth at this number of processes.
    pub fn at(self, per_node: u32, file_mib: f64) -> Result<f64, FitError> {
        let p = at_least_one("the number of processes on the node", per_node)?;
        let rate = positive("the bandwidth a + b·p", self.a + self.b * p)?;
        finite("the latency", p * not_negative("the size of a file", file_mib)? / rate)
    }
}
