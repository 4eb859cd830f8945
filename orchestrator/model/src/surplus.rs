//! The surplus of an I/O aggregator: the size by which its image exceeds the images of other processes.

use super::{
    check::at_least_one,
    curve::{Model, ModelInfo, MpiKind, Setting, Tier},
    estimate::Estimate,
    fit::FitError,
    linear::{Fixed, Linear, always},
    nas::Benchmark,
    scope::Common,
};
use cvc_core::units::MIB;
use serde::Serialize;

/// Growth of the surplus per process, MiB, from the eight configurations of Table 5.8.
pub const PER_PROCESS_MIB: f64 = 0.228;

/// ROMIO's default collective buffer, MiB.
pub const ROMIO_BUFFER_MIB: f64 = 16.0;

/// The layer that does the collective I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IoLayer {
    /// ROMIO: the layer of MPICH, optional in Open MPI.
    Romio,
    /// OMPIO: Open MPI's own layer.
    Ompio,
}

/// Returns the MiB of the default collective buffer, which Algorithm 1 adds to an aggregator: 16 with ROMIO, 32 with OMPIO. Source: thesis, section
/// 4.1.1.
pub fn constant_mib(layer: IoLayer) -> f64 {
    match layer {
        IoLayer::Romio => ROMIO_BUFFER_MIB,
        IoLayer::Ompio => 32.0,
    }
}

/// Returns the MiB of an aggregator's surplus: min(16, V/Na) + 0.228·P. V is the MiB of one collective write, Na the number of aggregators and P of
/// processes. Source: the buffer is no larger than its share of the data, and the lists of the exchange grow with the number of processes; the
/// slope is fitted to Table 5.8.
///
/// # Errors
/// There are no aggregators or no processes.
pub fn aggregator_mib(write_bytes: u64, aggregators: u32, processes: u32) -> Result<f64, FitError> {
    Ok(buffer_mib(write_bytes, aggregators)?
        + PER_PROCESS_MIB * at_least_one("the number of processes", processes)?)
}

/// Returns the MiB of the buffer that an aggregator fills: min(16, V/Na), with V and Na as in [`aggregator_mib`].
///
/// # Errors
/// There are no aggregators.
pub fn buffer_mib(write_bytes: u64, aggregators: u32) -> Result<f64, FitError> {
    let share = write_bytes as f64 / MIB / at_least_one("the number of aggregators", aggregators)?;
    Ok(share.min(ROMIO_BUFFER_MIB))
}

/// Returns the bytes of one collective write of BT-IO: 40·N³, five values of 8 bytes per grid point.
pub fn bt_io_write_bytes(grid_points: u32) -> u64 {
    40 * u64::from(grid_points).pow(3)
}

/// Returns the models of an aggregator's surplus. There is one aggregator on each node unless another number is set. BT-IO is predicted from the
/// size of its writes, other programs by the mean of the runs.
pub fn models() -> Vec<Box<dyn Model>> {
    vec![growing(), mean(), published_growing(), published_constant()]
}

/// Returns min(16, V/Na) for BT-IO. A configured buffer size replaces the 16, and Na defaults to one aggregator per node.
fn buffer_of(at: &Setting) -> Result<f64, FitError> {
    let unknown = || {
        FitError::OutOfDomain(format!(
            "the collective writes of {}.{} are not known",
            at.app, at.class
        ))
    };
    let problem = at
        .nas
        .filter(|n| n.benchmark == Benchmark::Bt)
        .ok_or_else(unknown)?;
    let aggregators = at_least_one(
        "the number of aggregators",
        at.output.aggregators.unwrap_or_else(|| at.mapping.nodes()),
    )?;
    let share =
        bt_io_write_bytes(problem.grid_points().ok_or_else(unknown)?) as f64 / MIB / aggregators;
    Ok(share.min(at.output.buffer_mib.unwrap_or(ROMIO_BUFFER_MIB)))
}

fn growing() -> Box<dyn Model> {
    Box::new(Linear {
        names: &["k"],
        terms: |at| Ok(vec![f64::from(at.processes())]),
        offset: buffer_of,
        common: &[Common::Mpi, Common::Benchmark],
        ..Linear::of(ModelInfo {
            id: "surplus-buffer-growth",
            title: "filled buffer and growth for each process",
            formula: "MiB = min(16 or the buffer that is set, V/Na) + k·P",
            source: "the buffer is no larger than its share of the write; the lists of the exchange grow with the processes",
            tier: Tier::SmallRuns,
            parameters: 1,
        })
    })
}

fn mean() -> Box<dyn Model> {
    Box::new(Linear {
        names: &["s"],
        common: &[Common::Mpi, Common::Program],
        ..Linear::of(ModelInfo {
            id: "surplus-mean",
            title: "mean of the runs",
            formula: "MiB = s",
            source: "for programs whose collective writes are not known",
            tier: Tier::SmallRuns,
            parameters: 1,
        })
    })
}

fn published_growing() -> Box<dyn Model> {
    Box::new(Fixed {
        info: ModelInfo {
            id: "surplus-buffer-growth-published",
            title: "filled buffer and growth for each process, MPICH 3",
            formula: "MiB = min(16 or the buffer that is set, V/Na) + 0.228·P",
            source: "fitted by cvc on Table 5.8 of the thesis",
            tier: Tier::Published,
            parameters: 0,
        },
        answer: |at| {
            if at.mpi == MpiKind::OpenMpi {
                return Err(FitError::OutOfDomain(
                    "the slope was fitted with ROMIO".into(),
                ));
            }
            let value = buffer_of(at)? + PER_PROCESS_MIB * f64::from(at.processes());
            Ok(Estimate::plus_minus(value, value * BAND).into())
        },
        believes: always,
    })
}

fn published_constant() -> Box<dyn Model> {
    Box::new(Fixed {
        info: ModelInfo {
            id: "surplus-constant",
            title: "size of the collective buffer",
            formula: "MiB = 16 with MPICH (ROMIO), 32 with Open MPI (OMPIO), or the buffer that is set",
            source: "thesis, section 4.1.1, Algorithm 1",
            tier: Tier::Published,
            parameters: 0,
        },
        answer: |at| {
            let layer = if at.mpi == MpiKind::OpenMpi {
                IoLayer::Ompio
            } else {
                IoLayer::Romio
            };
            let value = at.output.buffer_mib.unwrap_or_else(|| constant_mib(layer));
            Ok(Estimate::plus_minus(value, value * CONSTANT_BAND).into())
        },
        believes: always,
    })
}

/// Largest relative error of the formula at the configurations of Table 5.8, each left out in turn.
const BAND: f64 = 0.08;

/// Largest relative error of the constant at the configurations of Table 5.8, each left out in turn.
const CONSTANT_BAND: f64 = 0.33;

#[cfg(test)]
mod tests {
    use super::{aggregator_mib, bt_io_write_bytes, buffer_mib};

    #[test]
    fn the_buffer_is_no_larger_than_its_share_of_the_write() {
        let b = bt_io_write_bytes(102);
        assert!((b as f64 / 1_048_576.0 - 40.48).abs() < 0.01);
        assert_eq!(buffer_mib(b, 1), Ok(16.0));
        assert!((buffer_mib(b, 4).expect("a size") - 10.12).abs() < 0.01);
        assert!((aggregator_mib(b, 4, 16).expect("a size") - (10.12 + 3.648)).abs() < 0.01);
        assert!(aggregator_mib(b, 0, 16).is_err() && aggregator_mib(b, 4, 0).is_err());
    }
}
