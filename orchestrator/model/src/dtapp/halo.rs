//! Cells with their halo: a model with two parameters, the 8-byte words of a grid point (w) and the thickness of the ghost layers (δ).

use super::declared::HEAP_MIB;
use crate::{
    curve::{Answer, Fitted, Model, ModelInfo, Parameter, Sample, Setting, Tier},
    estimate::Estimate,
    fit::{Fit, FitError, least_squares, relative_weights},
    linear::widened,
    minimum::least_between,
    nas::{Benchmark, Tiles},
    scope::{Along, Common, Scope},
};
use cvc_core::units::MIB;

/// The model; it applies to BT, SP and LU only.
#[derive(Debug)]
pub(super) struct Halo;

/// Systematic error of the model, MiB: the largest distance of its fits from the thesis's runs of class D.
const BAND_MIB: f64 = 0.45;

/// Minimum and maximum δ of the search, which has steps of `COARSE` and is then refined to `FINE`.
const DELTAS: (f64, f64) = (-0.9, 12.0);
const COARSE: f64 = 0.1;
const FINE: f64 = 1e-9;

#[derive(Debug)]
struct Curve {
    words: f64,
    delta: f64,
    /// The model linearised at the solution, from which the errors are computed.
    tangent: Fit,
    scope: Scope,
}

impl Model for Halo {
    fn info(&self) -> ModelInfo {
        ModelInfo {
            id: "dtapp-halo",
            title: "cells with their halo",
            formula: "MiB = 8·w·V/2^20 + 0.5; BT: V = q·(M+δ)^3, SP: V = q·(R+δ)^2·(M+δ), LU: V = (i+δ)·(j+δ)·N",
            source: "the benchmarks allocate ghost layers around each cell and round its edge up",
            tier: Tier::SmallRuns,
            parameters: 2,
        }
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        if samples.len() < 2 {
            return Err(FitError::TooFewPoints {
                found: samples.len(),
                needed: 2,
            });
        }
        let scope = Scope::of(samples, &[Common::Benchmark], Along::Processes)?;
        let cells = samples
            .iter()
            .map(|s| Cells::of(&s.at))
            .collect::<Result<Vec<_>, _>>()?;
        let values: Vec<f64> = samples.iter().map(|s| s.value - HEAP_MIB).collect();
        let weights = relative_weights(&samples.iter().map(|s| s.value).collect::<Vec<_>>());
        // for a fixed δ the model is linear in w
        let at = |delta: f64| -> Result<(f64, f64), FitError> {
            let rows: Vec<Vec<f64>> = cells.iter().map(|c| vec![c.mib(delta)]).collect();
            let fit = least_squares(&rows, &values, Some(&weights))?;
            let loss = fit
                .residuals
                .iter()
                .zip(&weights)
                .map(|(r, w)| w * r * r)
                .sum();
            Ok((loss, fit.coefficients[0]))
        };
        let delta = least(|delta| Ok(at(delta)?.0))?;
        let words = at(delta)?.1;
        let rows: Vec<Vec<f64>> = cells.iter().map(|c| c.tangent(words, delta)).collect();
        let residuals: Vec<f64> = cells
            .iter()
            .zip(&values)
            .map(|(c, v)| v - words * c.mib(delta))
            .collect();
        let tangent = least_squares(&rows, &residuals, Some(&weights))?;
        Ok(Box::new(Curve {
            words,
            delta,
            tangent,
            scope,
        }))
    }
}

impl Fitted for Curve {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        self.scope.admits(at)?;
        let cells = Cells::of(at)?;
        let value = self.words * cells.mib(self.delta) + HEAP_MIB;
        let spread = self.tangent.predict(
            &cells.tangent(self.words, self.delta),
            1.0 / (value * value),
        );
        let estimate = spread.half_width().map_or_else(
            || Estimate::bare(value),
            |half| widened(Estimate::plus_minus(value, half), BAND_MIB),
        );
        Ok(Answer {
            estimate: estimate.not_negative(),
            warnings: self.scope.warnings(at),
        })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let errors = self.tangent.standard_errors.as_ref();
        let of = |i: usize, name, value| Parameter {
            name,
            value,
            standard_error: errors.map(|e| e[i]),
        };
        vec![of(0, "w", self.words), of(1, "δ", self.delta)]
    }
}

/// The cells of a process.
struct Cells {
    /// Number of cells or planes.
    count: f64,
    /// Lengths of the edges that have ghost layers, in points.
    edges: Vec<f64>,
}

impl Cells {
    fn of(at: &Setting) -> Result<Self, FitError> {
        let unknown =
            || FitError::OutOfDomain(format!("the grid of {}.{} is not known", at.app, at.class));
        let problem = at.nas.ok_or_else(unknown)?;
        let sizes = |count: u64, edges: &[u64]| Self {
            count: count as f64,
            edges: edges.iter().map(|e| *e as f64).collect(),
        };
        Ok(match (problem.tiles(at.processes())?, problem.benchmark) {
            (Tiles::Cells { q, m }, Benchmark::Sp) => {
                let r = 2 * (m / 2) + 1;
                sizes(q, &[r, r, m])
            }
            (Tiles::Cells { q, m }, _) => sizes(q, &[m, m, m]),
            (Tiles::Columns { i, j, n }, _) => sizes(n, &[i, j]),
        })
    }

    /// Returns the MiB for one word per point, including the ghost layers.
    fn mib(&self, delta: f64) -> f64 {
        self.count * self.edges.iter().map(|e| e + delta).product::<f64>() * 8.0 / MIB
    }

    /// Returns the derivatives of the size with respect to w and δ.
    fn tangent(&self, words: f64, delta: f64) -> Vec<f64> {
        let volume = self.mib(delta);
        vec![
            volume,
            words * volume * self.edges.iter().map(|e| 1.0 / (e + delta)).sum::<f64>(),
        ]
    }
}

/// Returns the δ with the minimum `loss`: a coarse search, then a golden-section search around its best step.
fn least(loss: impl Fn(f64) -> Result<f64, FitError>) -> Result<f64, FitError> {
    let steps = ((DELTAS.1 - DELTAS.0) / COARSE) as u32;
    let mut best = (f64::INFINITY, DELTAS.0);
    for step in 0..=steps {
        let delta = DELTAS.0 + COARSE * f64::from(step);
        let loss = loss(delta)?;
        if loss < best.0 {
            best = (loss, delta);
        }
    }
    let (low, high) = (best.1 - COARSE, best.1 + COARSE);
    if low < DELTAS.0 || high > DELTAS.1 {
        return Err(FitError::NoConvergence(format!(
            "no halo thickness between {} and {} points fits best",
            DELTAS.0, DELTAS.1
        )));
    }
    least_between(low, high, FINE, loss)
}
