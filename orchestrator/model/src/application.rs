//! Size of a checkpoint that the program itself writes.

use super::{
    check::{at_least_one, finite},
    fit::FitError,
};
use cvc_core::units::MIB;

/// Returns the MiB of the checkpoint of a program with a regular grid, without its header of 3 to 10 KiB: P·nx·ny·nz·variables·word/2^20.
/// `nx`, `ny`, `nz` are the points of one process, `word` the bytes of a value. Source: thesis, section 4.2 (MiniGhost: 5 variables of
/// 8 bytes), Tables 4.7 and 4.8.
///
/// # Errors
/// A factor of 0.
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
