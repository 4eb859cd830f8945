//! The filled part of CG's arrays.

use crate::{
    curve::{Model, ModelInfo, Setting, Tier},
    fit::FitError,
    linear::{Linear, Weights},
    nas::{Benchmark, Problem},
    scope::Common,
};
use cvc_core::units::MIB;

/// Returns the model of a stored share of the filled part of the arrays. CG declares a·(k + 2)/cols more nonzeros than it generates. This unused
/// part grows from 7 to 30 % of its arrays on 1 to 16 processes, and DMTCP 4 omits its pages.
pub(super) fn filled() -> Box<dyn Model> {
    Box::new(Linear {
        names: &["s", "h"],
        terms: |at| Ok(vec![filled_mib(at)?, 1.0]),
        weights: Weights::Relative,
        common: &[Common::Benchmark],
        admits: |at| filled_mib(at).map(drop),
        least_band: super::arrays::BAND_MIB,
        least_part: super::arrays::SHARE_PART,
        ..Linear::of(ModelInfo {
            id: "dtapp-nonzeros",
            title: "arrays of CG as far as they are filled",
            formula: "MiB = s·(28·z + 20·a + 48·a/rows)/2^20 + h, z = a·(k + 1)²/P",
            source: "NPB 3.3-MPI declares a·(k + 2)/cols nonzeros more, whose pages are never written",
            tier: Tier::SmallRuns,
            parameters: 2,
        })
    })
}

fn filled_mib(at: &Setting) -> Result<f64, FitError> {
    let cg = at
        .nas
        .filter(|problem: &Problem| problem.benchmark == Benchmark::Cg);
    let (order, nonzeros) = cg
        .and_then(Problem::matrix)
        .ok_or_else(|| FitError::OutOfDomain("only CG has a sparse matrix".into()))?;
    let (processes, order, row) = (at.processes(), order as f64, nonzeros as f64 + 1.0);
    if !processes.is_power_of_two() {
        return Err(FitError::OutOfDomain(format!(
            "CG runs on a power of two of processes; {processes} is not one"
        )));
    }
    let rows = f64::from(1_u32 << (processes.trailing_zeros() / 2));
    let filled = order * row * row / f64::from(processes);
    Ok((28.0 * filled + 20.0 * order + 48.0 * order / rows) / MIB)
}
