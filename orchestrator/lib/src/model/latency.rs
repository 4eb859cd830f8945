//! Time of a checkpoint from the bandwidth that so many writers on a node reach together.

use super::{
    check::{at_least_one, finite, not_negative, positive},
    curve::{Model, ModelInfo, Tier},
    estimate::{Estimate, Interval},
    fit::{Fit, FitError, least_squares},
    linear::{Linear, Weights, everywhere, no_offset},
    scope::Along,
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

/// Seconds of a checkpoint of `per_node` files of `file` MiB on a node, from the bandwidth of the node that one of [`models`] predicts, MiB/s. The interval is
/// that of the slowest and the fastest case; without an upper end if the bandwidth's interval reaches 0, and then there is none.
///
/// # Errors
/// No process, or no bandwidth.
pub fn latency_s(bandwidth: Estimate, per_node: u32, file: Estimate) -> Result<Estimate, FitError> {
    let p = at_least_one("the number of processes on the node", per_node)?;
    let value = p * not_negative("the size of a file", file.value)? / positive("the bandwidth of the node", bandwidth.value)?;
    let ends = bandwidth.interval.zip(file.interval).filter(|(b, _)| b.low > 0.0);
    let interval = ends.map(|(b, f)| Interval { low: p * f.low / b.high, high: p * f.high / b.low });
    Ok(Estimate { value: finite("the latency", value)?, interval })
}

/// The models of the bandwidth of a node, MiB/s. Their samples are [`Written::bandwidth`]; [`latency_s`] makes a time of the answer.
pub fn models() -> Vec<Box<dyn Model>> {
    vec![with_writers(), constant()]
}

fn with_writers() -> Box<dyn Model> {
    Box::new(Linear {
        info: ModelInfo {
            id: "bandwidth-writers",
            title: "bandwidth that grows with the writers",
            formula: "MiB/s of a node = a + b·p; latency = p·file/(a + b·p)",
            source: "latencies of the thesis's Tables 5.3 and 5.5",
            tier: Tier::SmallRuns,
            parameters: 2,
        },
        names: &["a", "b"],
        terms: |at| Ok(vec![1.0, f64::from(at.per_node)]),
        offset: no_offset,
        weights: Weights::PerWriter,
        least_band: 0.0,
        least_part: 0.0,
        common: &[],
        along: Along::PerNode,
        admits: everywhere,
    })
}

fn constant() -> Box<dyn Model> {
    Box::new(Linear {
        info: ModelInfo {
            id: "bandwidth-constant",
            title: "constant bandwidth",
            formula: "MiB/s of a node = a; latency = p·file/a",
            source: "a disk or a link that one writer fills",
            tier: Tier::SmallRuns,
            parameters: 1,
        },
        names: &["a"],
        terms: |_| Ok(vec![1.0]),
        offset: no_offset,
        weights: Weights::PerWriter,
        least_band: 0.0,
        least_part: 0.0,
        common: &[],
        along: Along::PerNode,
        admits: everywhere,
    })
}
