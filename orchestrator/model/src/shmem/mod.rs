//! Memory shared by the processes of a node, together with the other memory of the MPI library in an image: stack, anonymous areas.

mod algorithm2;
mod copies;
mod models;
mod partners;
mod with_data;

pub use algorithm2::{Algorithm2, algorithm2_clamped_mib, algorithm2_extended_mib, algorithm2_mib};
pub use models::models;
pub(crate) use with_data::library_mib;
pub use with_data::{data_mib, holds_data, models_with_data};

use super::{
    check::{at_least_one, not_negative},
    estimate::Estimate,
    fit::FitError,
};

/// Parameter `c` of [`buffer_mib`] for BT and SP with MPICH 3, MiB: 26.2 ± 0.3.
pub const BUFFER_C_MIB: f64 = 26.2;

/// Number of processes on a node from which Open MPI's shared memory is larger ([`open_mpi_mib`]).
pub const OPEN_MPI_STEP: u32 = 64;

/// Returns the MiB with `p` processes on the node: 0.0617·p² + 3.9983·p + 25.47. Source: thesis, equation 3.11 (MPICH 3, SP.B; the parabola through
/// p = 4, 25, 36).
///
/// # Errors
/// There are no processes.
pub fn quadratic_mib(per_node: u32) -> Result<f64, FitError> {
    let p = at_least_one("the number of processes on the node", per_node)?;
    Ok(0.0617 * p * p + 3.9983 * p + 25.47)
}

/// Returns the MiB with `p` processes on the node: 4·p + p·(p − 1)/16 + c. MPICH's ch3:nemesis has one segment per node, with 64 cells of 64 KiB
/// for each process (4 MiB) and one fast box of 64 KiB for each ordered pair of processes. `c_mib` is the rest (stack, small areas), 26.2 ± 0.3 for
/// BT and SP with MPICH 3. Source: the layout of the segment in MPICH 3's sources.
///
/// # Errors
/// There are no processes, or `c_mib` is negative.
pub fn buffer_mib(per_node: u32, c_mib: f64) -> Result<f64, FitError> {
    let p = at_least_one("the number of processes on the node", per_node)?;
    Ok(growth_mib(p) + not_negative("c", c_mib)?)
}

/// Returns the part that grows with the number of processes p, MiB: 4·p + p·(p − 1)/16.
fn growth_mib(p: f64) -> f64 {
    4.0 * p + p * (p - 1.0) / 16.0
}

/// Returns the MiB with the thesis's Open MPI: 90.5 (range 90.1 to 91.1) for up to 49 processes on the node, 98.3 (range 97.3 to 99.3) for 64.
/// Source: measurements of Table 5.1. The position of the step between 49 and 64 processes was not measured, so the interval covers both values
/// there. No formula explains the step.
///
/// # Errors
/// There are no processes.
pub fn open_mpi_mib(per_node: u32) -> Result<Estimate, FitError> {
    at_least_one("the number of processes on the node", per_node)?;
    Ok(match per_node {
        0..=49 => Estimate::between(90.5, 90.0, 91.2),
        50..OPEN_MPI_STEP => Estimate::between(90.5, 90.0, 99.4),
        OPEN_MPI_STEP.. => Estimate::between(98.3, 97.2, 99.4),
    })
}
