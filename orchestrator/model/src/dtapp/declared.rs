//! The arrays that a NAS benchmark declares.

use crate::{fit::FitError, nas::Problem};
use cvc_core::units::MIB;

/// Heap and text of a NAS benchmark, MiB: 0.49 in the memory listing of the thesis (Table 5.20); also the excess of the measured data zones over
/// their arrays.
pub const HEAP_MIB: f64 = 0.5;

/// Returns the MiB of the data zone of a NAS benchmark without any run: its declared arrays ([`Problem::static_bytes`]) and [`HEAP_MIB`].
///
/// # Errors
/// The benchmark does not run on this number of processes.
pub fn static_arrays_mib(problem: Problem, processes: u32) -> Result<f64, FitError> {
    Ok(problem.static_bytes(processes)? as f64 / MIB + HEAP_MIB)
}
