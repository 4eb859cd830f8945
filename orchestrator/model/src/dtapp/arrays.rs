//! The data zone, computed from the arrays that the source declares.

use super::declared::{HEAP_MIB, static_arrays_mib};
use crate::{
    curve::{Model, ModelInfo, Sample, Setting, Tier},
    estimate::Estimate,
    fit::FitError,
    linear::{Fixed, Linear, Weights},
    scope::Common,
};
use cvc_core::units::MIB;

/// Half-width of the interval of the model that needs no run, MiB. It covers 52 of the thesis's 53 data zones.
pub(super) const BAND_MIB: f64 = 0.25;

/// Systematic error of using one stored share for all arrays, as a fraction of the value: in fact each array has its own share.
pub(super) const SHARE_PART: f64 = 0.03;

/// Returns the model of declared arrays and a known heap.
pub(super) fn declared() -> Box<dyn Model> {
    Box::new(Fixed {
        info: ModelInfo {
            id: "dtapp-arrays",
            title: "declared arrays",
            formula: "MiB = bytes of the declared arrays/2^20 + 0.5",
            source: "declarations of NPB 3.3-MPI; heap and text of the thesis's Table 5.20",
            tier: Tier::NoRun,
            parameters: 0,
        },
        answer: |at| {
            Ok(
                Estimate::plus_minus(static_arrays_mib(known(at)?, at.processes())?, BAND_MIB)
                    .into(),
            )
        },
        believes: whole_arrays_are_stored,
    })
}

/// Returns the model of a stored share of the arrays, and a constant.
pub(super) fn stored_share() -> Box<dyn Model> {
    Box::new(Linear {
        names: &["s", "h"],
        terms: |at| {
            Ok(vec![
                known(at)?.static_bytes(at.processes())? as f64 / MIB,
                1.0,
            ])
        },
        weights: Weights::Relative,
        least_band: BAND_MIB,
        least_part: SHARE_PART,
        common: &[Common::Benchmark],
        ..Linear::of(ModelInfo {
            id: "dtapp-stored-arrays",
            title: "stored share of the arrays",
            formula: "MiB = s·bytes of the declared arrays/2^20 + h",
            source: "DMTCP 4 leaves out pages that were never written: of the declared arrays it stores a share",
            tier: Tier::SmallRuns,
            parameters: 2,
        })
    })
}

/// Returns the model of [`stored_share`] with the constant [`HEAP_MIB`] instead of a fitted one. Only the share is fitted, so that one run is enough.
pub(super) fn stored_share_of_one() -> Box<dyn Model> {
    Box::new(Linear {
        names: &["s"],
        terms: |at| Ok(vec![known(at)?.static_bytes(at.processes())? as f64 / MIB]),
        offset: |_| Ok(HEAP_MIB),
        weights: Weights::Relative,
        least_band: BAND_MIB,
        least_part: SHARE_PART,
        common: &[Common::Benchmark],
        ..Linear::of(ModelInfo {
            id: "dtapp-stored-arrays-one-run",
            title: "stored share of the arrays, from one run",
            formula: "MiB = s·bytes of the declared arrays/2^20 + 0.5",
            source: "as dtapp-stored-arrays, with the constant of dtapp-arrays",
            tier: Tier::SmallRuns,
            parameters: 1,
        })
    })
}

/// Returns the model of declared arrays and a fitted heap.
pub(super) fn with_heap() -> Box<dyn Model> {
    Box::new(Linear {
        names: &["h"],
        offset: |at| Ok(known(at)?.static_bytes(at.processes())? as f64 / MIB),
        least_band: BAND_MIB,
        common: &[Common::Benchmark],
        ..Linear::of(ModelInfo {
            id: "dtapp-arrays-heap",
            title: "declared arrays and measured heap",
            formula: "MiB = bytes of the declared arrays/2^20 + h",
            source: "as dtapp-arrays, with the heap of runs; for checkpointers that store all pages",
            tier: Tier::SmallRuns,
            parameters: 1,
        })
    })
}

fn known(at: &Setting) -> Result<crate::nas::Problem, FitError> {
    at.nas.ok_or_else(|| {
        FitError::OutOfDomain(format!(
            "the arrays of {}.{} are not known",
            at.app, at.class
        ))
    })
}

/// Returns an error if runs contradict the model, as under a checkpointer that omits empty pages. Without this check the model would be chosen
/// because it is first in the list.
fn whole_arrays_are_stored(samples: &[&Sample]) -> Result<(), FitError> {
    let mut outside = 0;
    for sample in samples {
        let expected = static_arrays_mib(known(&sample.at)?, sample.at.processes())?;
        outside += usize::from((sample.value - expected).abs() > BAND_MIB);
    }
    if 2 * outside > samples.len() {
        return Err(FitError::OutOfDomain(format!(
            "{outside} of {} training runs are not within {BAND_MIB} MiB of the declared arrays: their images do not hold all pages",
            samples.len()
        )));
    }
    Ok(())
}
