//! All results of `cargo xtask calibrate`.

use super::predictions::{PredictionCoverage, leave_one_program_out};
use super::repeats::{Simulated, simulate, simulations};
use cvc_prediction::predict::{Calibration, Observation, PredictError};
use serde::Serialize;

/// Coverage of intervals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibrated {
    /// Coverage for repeats, from simulation.
    pub repeats: Vec<Simulated>,
    /// Coverage for predictions, from leaving programs out.
    pub predictions: PredictionCoverage,
    /// The errors of all programs, from which the intervals of predictions are derived.
    #[serde(skip)]
    pub table: Calibration,
}

/// Simulates `samples` samples for each claim about repeats, and leaves each program of the observations out in turn. `progress` receives the number
/// of the current part, the number of parts and a description.
///
/// # Errors
/// The observations cannot be used for training, or are of fewer than two programs.
pub fn calibrate(
    observations: &[Observation],
    samples: usize,
    mut progress: impl FnMut(usize, usize, &str),
) -> Result<Calibrated, PredictError> {
    let all = simulations();
    let programs: std::collections::BTreeSet<&str> = observations
        .iter()
        .map(|o| o.setting.app.as_str())
        .collect();
    let parts = all.len() + programs.len();
    let mut repeats = Vec::new();
    for (i, (claim, data, n)) in all.iter().copied().enumerate() {
        progress(i, parts, "simulating repeats");
        repeats.push(simulate(claim, data, n, samples));
    }
    let mut part = all.len();
    let (predictions, table) = leave_one_program_out(observations, |program| {
        progress(part, parts, &format!("leaving out {program}"));
        part += 1;
    })?;
    Ok(Calibrated {
        repeats,
        predictions,
        table,
    })
}
