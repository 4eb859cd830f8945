//! Size of a checkpoint that the program itself writes.

use super::{
    check::{at_least_one, finite, positive},
    fit::FitError,
};
use cvc_core::units::MIB;

/// Returns the MiB of a regular-grid program's checkpoint, without its header of 3 to 10 KiB: P·nx·ny·nz·variables·word/2^20. `nx`, `ny`, `nz` are
/// the points of one process, and `word` is the bytes of a value. Source: thesis, section 4.2 (MiniGhost: 5 variables of 8 bytes), Tables 4.7 and
/// 4.8.
///
/// # Errors
/// A factor is 0.
pub fn own_checkpoint_mib(
    processes: u32,
    nx: u32,
    ny: u32,
    nz: u32,
    variables: u32,
    word: u32,
) -> Result<f64, FitError> {
    let factors = [
        ("the number of processes", processes),
        ("nx", nx),
        ("ny", ny),
        ("nz", nz),
        ("the number of variables", variables),
        ("the bytes of a value", word),
    ];
    let product = factors
        .into_iter()
        .try_fold(1.0, |product, (what, value)| {
            Ok(product * at_least_one(what, value)?)
        })?;
    finite("the size", product / MIB)
}

/// Returns the total number of writes with which `aggregators` with buffers of `buffer` bytes write `bytes` in one collective call:
/// A·⌈bytes/(A·B)⌉. Each aggregator has an equal part of the file, and writes one buffer at a time. Source: ROMIO's two-phase I/O. With one
/// aggregator, the result equals the difference between writes and reads in the thesis's Table 4.8, where four more variables are written than
/// read.
///
/// # Errors
/// There is no aggregator, or the number of bytes is not above 0.
pub fn collective_rounds(bytes: f64, aggregators: u32, buffer: f64) -> Result<f64, FitError> {
    let aggregators = at_least_one("the number of aggregators", aggregators)?;
    let bytes = positive("the bytes of a write", bytes)?;
    let buffer = positive("the bytes of the collective buffer", buffer)?;
    finite(
        "the rounds",
        aggregators * (bytes / (aggregators * buffer)).ceil(),
    )
}
