//! The zone of shared libraries in an image. It does not depend on the number of processes, the class or the mapping.

use super::{
    curve::{Model, ModelInfo, MpiKind, Tier},
    estimate::Estimate,
    fit::FitError,
    linear::{Fixed, Linear},
    scope::{Along, Common},
    stats::Interval,
};

const fn around(value: f64, half: f64) -> Estimate {
    Estimate {
        value,
        interval: Some(Interval {
            low: value - half,
            high: value + half,
        }),
    }
}

/// Minimum half-width of the interval of the mean of runs, MiB: a few pages.
const BAND_MIB: f64 = 0.02;

/// MiB with MPICH 3 and DMTCP 2 (thesis, Tables 4.1 to 4.3 and 5.1: 2.44 or 2.45 in every row).
pub const MPICH_MIB: Estimate = around(2.45, 0.01);

/// MiB with the thesis's Open MPI (Table 5.1: 2.66 to 2.75).
pub const OPEN_MPI_MIB: Estimate = around(2.72, 0.06);

/// MiB with MPICH 3 and ROMIO linked in (Table 5.10: 7.71; Table 5.7: 7.96).
pub const ROMIO_MIB: Estimate = Estimate {
    value: 7.71,
    interval: Some(Interval {
        low: 7.7,
        high: 7.97,
    }),
};

/// Returns the models of the library zone: the mean of the runs, and the published values for the thesis's versions.
pub fn models() -> Vec<Box<dyn Model>> {
    vec![mean(), published()]
}

fn mean() -> Box<dyn Model> {
    Box::new(Linear {
        least_band: BAND_MIB,
        common: &[Common::Mpi],
        // the curve is constant, so no setting is too far
        along: Along::Nothing,
        ..Linear::of(ModelInfo {
            id: "lb-constant",
            title: "constant",
            formula: "MiB = c",
            source: "a process maps the same libraries in every run",
            tier: Tier::SmallRuns,
            parameters: 1,
        })
    })
}

fn published() -> Box<dyn Model> {
    Box::new(Fixed {
        info: ModelInfo {
            id: "lb-published",
            title: "as published",
            formula: "MiB = 2.45 with MPICH, 2.72 with Open MPI",
            source: "thesis, Table 5.1",
            tier: Tier::Published,
            parameters: 0,
        },
        answer: |at| Ok(of(at.mpi).into()),
        believes: |samples| match samples
            .iter()
            .filter(|s| of(s.at.mpi).covers(s.value) == Some(false))
            .count()
        {
            far if 2 * far > samples.len() => Err(FitError::OutOfDomain(format!(
                "{far} of {} training runs contradict it: it was published for other versions of DMTCP and MPI",
                samples.len()
            ))),
            _ => Ok(()),
        },
    })
}

fn of(mpi: MpiKind) -> Estimate {
    match mpi {
        MpiKind::Nemesis | MpiKind::Mpich => MPICH_MIB,
        MpiKind::OpenMpi => OPEN_MPI_MIB,
    }
}
