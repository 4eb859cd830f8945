//! Everything that `cargo xtask calibrate` shows.

use super::predictions::{PredictionCoverage, leave_one_program_out};
use super::repeats::{Simulated, simulate, simulations};
use cvc_prediction::predict::{Calibration, Observation, PredictError};
use serde::Serialize;

/// How often intervals hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibrated {
    /// Of repeats, by simulation.
    pub repeats: Vec<Simulated>,
    /// Of predictions, by leaving programs out.
    pub predictions: PredictionCoverage,
    /// The errors of all programs, from which intervals of predictions are made.
    #[serde(skip)]
    pub table: Calibration,
}

/// Simulates `samples` samples for each claim about repeats, and leaves each program of the observations out in turn. `told` hears which part
/// of how many is at work.
///
/// # Errors
/// Observations that cannot be trained on, or of fewer than two programs.
pub fn calibrate(
    observations: &[Observation],
    samples: usize,
    mut told: impl FnMut(usize, usize, &str),
) -> Result<Calibrated, PredictError> {
    let all = simulations();
    let programs: std::collections::BTreeSet<&str> = observations
        .iter()
        .map(|o| o.setting.app.as_str())
        .collect();
    let parts = all.len() + programs.len();
    let mut repeats = Vec::new();
    for (i, (claim, data, n)) in all.iter().copied().enumerate() {
        told(i, parts, "simulating repeats");
        repeats.push(simulate(claim, data, n, samples));
    }
    let mut part = all.len();
    let (predictions, table) = leave_one_program_out(observations, |program| {
        told(part, parts, &format!("leaving out {program}"));
        part += 1;
    })?;
    Ok(Calibrated {
        repeats,
        predictions,
        table,
    })
}
